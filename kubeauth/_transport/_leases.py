"""Who still uses which connections, so that a rotation cuts nobody off (C16, K53, K54).

A pool is the inner transport of one client certificate and one trust. A rotation replaces it by a new pool
and retires the old one, which is closed when its last response is. Nothing here does any I/O: methods return
what must be closed, and the caller closes it.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Generic, Protocol, TypeVar

from kubeauth._credentials.credential import ClientCertificate
from kubeauth._transport._tls import Trust

Inner = TypeVar("Inner")


class Lease(Protocol):
    """Somebody's use of a pool."""

    def cut(self) -> None:
        """Ends it, though it is in use."""
        ...


class Pool(Generic[Inner]):
    """An inner transport, and the leases on it.

    Lending and giving back take no lock: adding to a set is atomic. A borrower adds its lease first and
    looks at `_retired` after; a rotation sets `_retired` first and looks at the leases after. So at least
    one of the two sees the other, and only then the lock decides. (The GIL keeps that order.)
    """

    __slots__ = (
        "__weakref__", "_closing", "_leases", "_lock", "_retired", "answered", "client_certificate", "inner",
        "retired_at", "trust",
    )  # fmt: skip

    def __init__(
        self, inner: Inner, client_certificate: ClientCertificate | None, trust: Trust | None
    ) -> None:
        self.inner = inner
        self.client_certificate = client_certificate
        self.trust = trust
        self.answered = False
        self.retired_at = math.inf
        self._leases: set[Lease] = set()
        self._retired = False
        self._closing = False
        # Guards _closing: that a pool is closed once, and never lent after. The garbage collector may
        # interrupt whoever holds it, and find a response that gives its lease back.
        self._lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        """Whether its inner transport has not been closed, nor is about to be."""
        return not self._closing

    def serves(self, client_certificate: ClientCertificate | None, trust: Trust) -> bool:
        """Whether its connections are what these two call for."""
        return self.client_certificate is client_certificate and self.trust is trust

    def lend(self, lease: Lease) -> bool:
        """Whether `lease` may use the inner transport; if not, it is closed and another is current."""
        self._leases.add(lease)
        if not self._retired:
            return True
        with self._lock:
            if not self._closing:
                return True
        self._leases.discard(lease)
        return False

    def leases(self) -> list[Lease]:
        """Who uses it now."""
        return list(self._leases)

    def give_back(self, lease: Lease) -> Inner | None:
        """Ends a lease, once or more often. Returns the inner transport if it must be closed now."""
        self._leases.discard(lease)
        return self._unless_in_use() if self._retired else None

    def retire(self, now: float) -> Inner | None:
        """No new leases. Returns the inner transport if it must be closed now."""
        self.retired_at = now
        self._retired = True
        return self._unless_in_use()

    def close(self) -> Inner | None:
        """The inner transport, to be closed whoever uses it; None if that was done. Serves nobody after."""
        self.trust = None
        self._retired = True
        with self._lock:
            closing, self._closing = self._closing, True
        return None if closing else self.inner

    def _unless_in_use(self) -> Inner | None:
        with self._lock:
            if self._leases or self._closing:
                return None
            self._closing = True
        return self.inner

    def forget(self) -> None:
        """In a forked child: the connections are the parent's. Serves nobody, and is not closed."""
        # First of all a new lock: this one may be held by a thread that is not there.
        self._lock = threading.RLock()
        if self.close() is not None:
            del self.inner


class Ledger(Generic[Inner]):
    """The pool in use, and those that wait for their last response."""

    __slots__ = ("_drain_timeout", "_lock", "_retired", "current", "deadline")

    def __init__(self, pool: Pool[Inner], drain_timeout: float | None) -> None:
        self.current = pool
        self.deadline = math.inf
        """When the next retired pool is cut off though it is in use; never, unless there is a limit."""
        self._drain_timeout = drain_timeout
        # Weakly: if all that use a pool are garbage, so is the pool.
        self._retired: weakref.WeakSet[Pool[Inner]] = weakref.WeakSet()
        # Guards _retired and deadline.
        self._lock = threading.Lock()

    def lend(self, lease: Lease) -> Pool[Inner]:
        """The current pool, with `lease` on it."""
        while not (pool := self.current).lend(lease):
            if pool is self.current:
                raise RuntimeError("the client was closed while this request was on its way")
            # Rotated between these two: there is a newer one by now.
        return pool

    def swap(self, pool: Pool[Inner], now: float) -> list[Inner]:
        """Makes `pool` the current one and retires the one before. Returns what must be closed now."""
        before, self.current = self.current, pool
        if before.trust is None:  # closed, or forgotten
            return []
        if (closing := before.retire(now)) is not None:
            return [closing]
        with self._lock:
            self._retired.add(before)
            self._set_deadline()
        return []

    def overdue(self, now: float) -> list[Lease]:
        """Leases on what was retired longer ago than the limit, to be cut now. The last closes the pool."""
        limit = now - (self._drain_timeout or 0)
        with self._lock:
            late = [pool for pool in self._retired if pool.retired_at <= limit]
            self._retired.difference_update(late)
            self._set_deadline()
        return [lease for pool in late for lease in pool.leases()]

    def everything(self) -> list[Inner]:
        """What is not closed yet, to be closed now. The next request makes new connections."""
        with self._lock:
            retired = list(self._retired)
            self._retired.clear()
            self.deadline = math.inf
        return [inner for pool in (self.current, *retired) if (inner := pool.close()) is not None]

    def forget(self) -> None:
        """In a forked child: nothing of this is ours."""
        for pool in (self.current, *self._retired):
            pool.forget()
        self._retired.clear()
        self._lock = threading.Lock()
        self.deadline = math.inf

    def _set_deadline(self) -> None:
        if self._drain_timeout is not None:
            first = min((pool.retired_at for pool in self._retired), default=math.inf)
            self.deadline = first + self._drain_timeout
