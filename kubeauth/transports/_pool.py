"""The pool of idle connections and connections in use."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kubeauth._runtime import call_after_fork

# Scheme, host, port and TLS server name. The server name is included because a certificate that was verified
# for one name says nothing about another.
Origin = tuple[str, str, int, str]


class PooledConnection(Protocol):
    """What the pool needs of a connection. `abort` closes it at once, also while it is in use."""

    origin: Origin
    idle_since: float

    def abort(self) -> None: ...


C = TypeVar("C", bound=PooledConnection)


class Pool(Generic[C]):
    """Reuses the most recently used connection first, so that surplus connections expire and are closed.

    There is no timer: expired connections are closed when another connection is released.
    """

    def __init__(self, max_idle: int | None, expiry: float | None, now: Callable[[], float]) -> None:
        self._max_idle = math.inf if max_idle is None else max_idle
        self._expiry = math.inf if expiry is None else expiry
        self._now = now
        self._idle: dict[C, None] = {}  # least recently released first
        self._in_use: set[C] = set()
        self._is_closed = False
        # Guards all of the above. Reentrant: the garbage collector may run while this thread holds it, and
        # finalize a response that releases its connection.
        self._lock = threading.RLock()
        call_after_fork(self)

    def acquire(self, origin: Origin) -> C | None:
        """Return an idle connection to `origin` and mark it as in use; None if no such connection exists."""
        with self._lock:
            for connection in reversed(list(self._idle)):
                if (
                    connection.origin == origin
                    and not self._is_expired(connection)
                    and self._remove_idle(connection)
                ):
                    self._in_use.add(connection)
                    return connection
        return None

    def add(self, connection: C) -> None:
        """Add a new connection that is in use."""
        with self._lock:
            self._in_use.add(connection)

    def release(self, connection: C) -> None:
        """Mark the connection as idle: it may be acquired again."""
        to_close = [connection]
        with self._lock:
            if connection in self._in_use:
                self._in_use.remove(connection)
                connection.idle_since = self._now()
                self._idle[connection] = None
                to_close = self._pop_surplus()
        for each in to_close:
            each.abort()

    def discard(self, connection: C) -> None:
        """Close a connection that was in use and cannot be reused."""
        with self._lock:
            self._in_use.discard(connection)
        connection.abort()

    def close(self) -> None:
        """Close all connections, also those in use. Connections released later are closed at once."""
        with self._lock:
            self._is_closed = True
            to_close = [*self._idle, *self._in_use]
            self._idle.clear()
            self._in_use.clear()
        for each in to_close:
            each.abort()

    def after_fork(self) -> None:
        """Forget all connections in a forked child: the parent continues to use them."""
        # The lock first: a thread that does not exist in the child may hold it.
        self._lock = threading.RLock()
        self._idle, self._in_use = {}, set()

    def _pop_surplus(self) -> list[C]:
        """Remove and return the idle connections that are expired or exceed the limit, oldest first."""
        limit = 0 if self._is_closed else self._max_idle
        surplus: list[C] = []
        for oldest in list(self._idle):
            if len(self._idle) <= limit and not self._is_expired(oldest):
                break
            if self._remove_idle(oldest):
                surplus.append(oldest)
        return surplus

    def _remove_idle(self, connection: C) -> bool:
        """Remove an idle connection. False if the garbage collector interrupted us and removed it first."""
        return self._idle.pop(connection, False) is None

    def _is_expired(self, connection: C) -> bool:
        return self._now() - connection.idle_since >= self._expiry
