"""One run of a plugin, and everybody who waits for it."""

from __future__ import annotations

import copy
import threading

from kubeauth._credentials._credential import Credential
from kubeauth.errors import KubeAuthError


class Flight:
    """Whoever waited takes its outcome, whatever it is. Lands once."""

    def __init__(self) -> None:
        self.reason = ""
        self.was_stopped = False
        self.pilot: int | None = None
        """The thread that runs the plugin."""
        self._outcome: Credential | KubeAuthError | None = None
        self._has_landed = False
        # Guards the two above and the one below, for a few instructions.
        self._mu = threading.Lock()
        self._waiting: set[threading.Event] = set()

    @property
    def has_landed(self) -> bool:
        return self._has_landed

    def land(self, outcome: Credential | KubeAuthError | None) -> None:
        """Tells everybody. None: it came to nothing, and who waited must board another.

        The first outcome stays. After that it does no harm, and wakes whoever was missed when a signal came.
        """
        with self._mu:
            if not self._has_landed:
                self._outcome, self._has_landed = outcome, True
        for event in list(self._waiting):
            event.set()

    def taken(self) -> Credential | None:
        """Its outcome: the credential, an error of one's own, or None if it came to nothing."""
        outcome = self._outcome
        if isinstance(outcome, KubeAuthError):
            raise again(outcome) from outcome.__cause__
        return outcome

    def wait(self) -> None:
        """Until it has landed."""
        self._waiter().wait()

    async def await_landing(self) -> None:
        """As `wait`, in a thread. Cancelling ends the thread at once, and nothing else."""
        from anyio import CapacityLimiter, to_thread  # for those alone who have an event loop

        waiter = self._waiter()
        try:
            # A limiter of its own: an application that keeps all threads busy must not hold us up.
            await to_thread.run_sync(waiter.wait, abandon_on_cancel=True, limiter=CapacityLimiter(1))
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
