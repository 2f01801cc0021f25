"""Connection pools and the responses that use them: a rotation interrupts no response (C16, K53, K54).

A pool has one underlying transport, with one client certificate and one CA. A rotation replaces the pool by a
new one and retires it; it is closed with its last response. Nothing here does I/O: methods return the
transports to close, and the caller closes them.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Generic, Protocol, TypeVar

from kubeauth._credentials.credential import ClientCertificate
from kubeauth._transport.tls import Trust

Transport = TypeVar("Transport")


class Lease(Protocol):
    """A request or response that uses a pool."""

    def abort(self) -> None:
        """Abort it while it is in use."""
        ...


class Pool(Generic[Transport]):
    """An underlying transport, and the leases on it.

    Checkout and checkin take no lock: adding to a set is atomic. A checkout adds its lease first and reads
    `_retired` after; a rotation sets `_retired` first and reads the leases after. So at least one of the two
    sees the other, and only then the lock decides. (The GIL keeps that order.)
    """

    __slots__ = (
        "__weakref__", "_is_closed", "_leases", "_lock", "_retired", "client_certificate", "has_responded",
        "retired_at", "transport", "trust",
    )  # fmt: skip

    def __init__(
        self, transport: Transport, client_certificate: ClientCertificate | None, trust: Trust | None
    ) -> None:
        self.transport = transport
        self.client_certificate = client_certificate
        self.trust = trust
        self.has_responded = False
        self.retired_at = math.inf
        self._leases: set[Lease] = set()
        self._retired = False
        self._is_closed = False
        # Guards _is_closed: a pool is closed once, and never checked out after. Reentrant: the garbage
        # collector may interrupt the thread that holds it, and check in the lease of a response.
        self._lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        """Whether its transport is neither closed nor about to be."""
        return not self._is_closed

    def matches(self, client_certificate: ClientCertificate | None, trust: Trust) -> bool:
        """Whether its connections have this certificate and this CA."""
        return self.client_certificate is client_certificate and self.trust is trust

    def checkout(self, lease: Lease) -> bool:
        """Add `lease`. False if the pool is closed: then another one is current."""
        self._leases.add(lease)
        if not self._retired:
            return True
        with self._lock:
            if not self._is_closed:
                return True
        self._leases.discard(lease)
        return False

    def leases(self) -> list[Lease]:
        """Return the leases on it."""
        return list(self._leases)

    def checkin(self, lease: Lease) -> Transport | None:
        """Remove `lease`; may be called again. Return the transport if it must be closed now."""
        self._leases.discard(lease)
        return self._close_if_unused() if self._retired else None

    def retire(self, now: float) -> Transport | None:
        """Accept no more leases. Return the transport if it must be closed now."""
        self.retired_at = now
        self._retired = True
        return self._close_if_unused()

    def close(self) -> Transport | None:
        """Return the transport, to be closed even if in use; None if it was closed. Matches nothing after."""
        self.trust = None
        self._retired = True
        with self._lock:
            closing, self._is_closed = self._is_closed, True
        return None if closing else self.transport

    def _close_if_unused(self) -> Transport | None:
        with self._lock:
            if self._leases or self._is_closed:
                return None
            self._is_closed = True
        return self.transport

    def discard_after_fork(self) -> None:
        """In a forked child the connections belong to the parent: match nothing, and close nothing."""
        # A new lock first: this one may be held by a thread that does not exist here.
        self._lock = threading.RLock()
        if self.close() is not None:
            del self.transport


class PoolManager(Generic[Transport]):
    """The current pool, and retired ones that wait for their last response."""

    __slots__ = ("_drain_timeout", "_lock", "_retired", "current", "deadline")

    def __init__(self, pool: Pool[Transport], drain_timeout: float | None) -> None:
        self.current = pool
        self.deadline = math.inf
        """When responses on a retired pool are aborted; infinite without a drain timeout."""
        self._drain_timeout = drain_timeout
        # Weak: if all responses of a pool are garbage, so is the pool.
        self._retired: weakref.WeakSet[Pool[Transport]] = weakref.WeakSet()
        # Guards _retired and deadline.
        self._lock = threading.Lock()

    def checkout(self, lease: Lease) -> Pool[Transport]:
        """Check `lease` out of the current pool, and return that pool."""
        while not (pool := self.current).checkout(lease):
            if pool is self.current:
                raise RuntimeError("the client was closed while this request was in progress")
            # Rotated in between: there is a newer pool now.
        return pool

    def swap(self, pool: Pool[Transport], now: float) -> list[Transport]:
        """Make `pool` the current one and retire the previous one. Return the transports to close."""
        before, self.current = self.current, pool
        if before.trust is None:  # closed, or discarded after a fork
            return []
        if (closing := before.retire(now)) is not None:
            return [closing]
        with self._lock:
            self._retired.add(before)
            self._set_deadline()
        return []

    def expired_leases(self, now: float) -> list[Lease]:
        """Return the leases to abort: of pools retired longer ago than the drain timeout."""
        limit = now - (self._drain_timeout or 0)
        with self._lock:
            expired = [pool for pool in self._retired if pool.retired_at <= limit]
            self._retired.difference_update(expired)
            self._set_deadline()
        return [lease for pool in expired for lease in pool.leases()]

    def close_all(self) -> list[Transport]:
        """Return all transports that are not closed yet. The next request builds a new pool."""
        with self._lock:
            retired = list(self._retired)
            self._retired.clear()
            self.deadline = math.inf
        return [transport for pool in (self.current, *retired) if (transport := pool.close()) is not None]

    def discard_after_fork(self) -> None:
        """In a forked child all connections belong to the parent."""
        for pool in (self.current, *self._retired):
            pool.discard_after_fork()
        self._retired.clear()
        self._lock = threading.Lock()
        self.deadline = math.inf

    def _set_deadline(self) -> None:
        if self._drain_timeout is not None:
            first = min((pool.retired_at for pool in self._retired), default=math.inf)
            self.deadline = first + self._drain_timeout
