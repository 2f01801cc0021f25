"""One run of a plugin, or of whatever else is done once for all, and everybody who waits for it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

from kubeauth.errors import KubeAuthError

T = TypeVar("T")


class Flight(Generic[T]):
    """Whoever waited takes its outcome, whatever it is. Lands once."""

    def __init__(self) -> None:
        self.reason = ""
        self.key: Hashable = None
        """What it is for, where there are several at a time."""
        self.was_stopped = False
        self.pilot: int | None = None
        """The thread that does the work."""
        self._outcome: T | KubeAuthError | None = None
        self._has_landed = False
        # Guards the two above and the one below, for a few instructions. The garbage collector may interrupt
        # whoever holds it, and end the task that flies this.
        self._mu = threading.RLock()
        self._waiting: set[threading.Event] = set()

    @property
    def has_landed(self) -> bool:
        return self._has_landed

    def land(self, outcome: T | KubeAuthError | None) -> None:
        """Tells everybody. None: it came to nothing, and who waited must board another.

        The first outcome stays. After that it does no harm, and wakes whoever was missed when a signal came.
        """
        with self._mu:
            if not self._has_landed:
                self._outcome, self._has_landed = outcome, True
        for event in list(self._waiting):
            event.set()

    def taken(self) -> T | None:
        """Its outcome: what it was for, an error of one's own, or None if it came to nothing."""
        outcome = self._outcome
        if isinstance(outcome, KubeAuthError):
            raise again(outcome) from outcome.__cause__
        return outcome

    def wait(self, seconds: float | None = None) -> None:
        """Until it has landed, or for so long."""
        waiter = self._waiter()
        waiter.wait(seconds)
        with self._mu:
            self._waiting.discard(waiter)

    async def await_landing(self) -> None:
        """As `wait`, in a thread. Cancelling ends the thread at once, and nothing else."""
        from kubeauth._credentials._gate import aside  # for those alone who have an event loop

        waiter = self._waiter()
        try:
            await aside(waiter.wait)
        finally:
            # The thread must not outlive the wait: a process does not exit before such threads do.
            with self._mu:
                self._waiting.discard(waiter)
            waiter.set()

    def _waiter(self) -> threading.Event:
        waiter = threading.Event()
        with self._mu:
            if self._has_landed:
                waiter.set()
            else:
                self._waiting.add(waiter)
        return waiter


def again(error: KubeAuthError) -> KubeAuthError:
    """The same error for another caller: one object would collect the tracebacks of all."""
    return copy.copy(error)
