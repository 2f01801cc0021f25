"""Which connections are idle, and which in use."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kubeauth._runtime import call_after_fork

# Scheme, host, port, and whose certificate it must have: what was shown for one name is not for another.
Origin = tuple[str, str, int, str]


class Pooled(Protocol):
    """A connection, as far as it matters here. `end` closes it at once, whoever uses it."""

    origin: Origin
    idle_since: float

    def end(self) -> None: ...


C = TypeVar("C", bound=Pooled)


class Pool(Generic[C]):
    """Lends the connection that was in use last, so that those too many become old, and are ended.

    There is no timer: whoever gives one back looks at how old the others are.
    """

    def __init__(self, most_idle: int | None, expiry: float | None, now: Callable[[], float]) -> None:
        self._most_idle = math.inf if most_idle is None else most_idle
        self._expiry = math.inf if expiry is None else expiry
        self._now = now
        self._idle: dict[C, None] = {}  # in the order they came back
        self._in_use: set[C] = set()
        self._closed = False
        # Guards all of these. The garbage collector may interrupt whoever holds it, and find a response that
        # gives its connection back.
        self._lock = threading.RLock()
        call_after_fork(self)

    def take(self, origin: Origin) -> C | None:
        """One that is idle, if there is any. In use from now on."""
        with self._lock:
            for connection in reversed(list(self._idle)):
                if connection.origin == origin and not self._is_old(connection) and self._is_out(connection):
                    self._in_use.add(connection)
                    return connection
        return None

    def add(self, connection: C) -> None:
        """A new one, in use."""
        with self._lock:
            self._in_use.add(connection)

    def put(self, connection: C) -> None:
        """It is idle, and may be lent again."""
        ended = [connection]
        with self._lock:
            if connection in self._in_use:
                self._in_use.remove(connection)
                connection.idle_since = self._now()
                self._idle[connection] = None
                ended = self._too_many()
        for each in ended:
            each.end()

    def drop(self, connection: C) -> None:
        """Ends it: it cannot be lent again."""
        with self._lock:
            self._in_use.discard(connection)
        connection.end()

    def close(self) -> None:
        """Ends all of them, whoever uses them, and keeps none that comes back later."""
        with self._lock:
            self._closed = True
            every = [*self._idle, *self._in_use]
            self._idle.clear()
            self._in_use.clear()
        for each in every:
            each.end()

    def after_fork(self) -> None:
        """In a child: all of them are the parent's, which goes on using them."""
        # First of all a new lock: this one may be held by a thread that is not there.
        self._lock = threading.RLock()
        self._idle, self._in_use = {}, set()

    def _too_many(self) -> list[C]:
        """Takes those out that are idle for too long, or one too many."""
        most = 0 if self._closed else self._most_idle
        found: list[C] = []
        for oldest in list(self._idle):
            if len(self._idle) <= most and not self._is_old(oldest):
                break
            if self._is_out(oldest):
                found.append(oldest)
        return found

    def _is_out(self, connection: C) -> bool:
        """Whether it was idle until now. Not, if we were interrupted as above."""
        return self._idle.pop(connection, False) is None

    def _is_old(self, connection: C) -> bool:
        return self._now() - connection.idle_since >= self._expiry
