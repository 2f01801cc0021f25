"""Values that come from files and are read again while requests go on (K53, K54, K62, K63)."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from kubeauth._credentials._clock import Clock
from kubeauth._credentials._fork import call_after_fork
from kubeauth.errors import KubeAuthError

logger = logging.getLogger("kubeauth.credentials")

T = TypeVar("T")


class Watched(Generic[T]):
    """A value read from files every so often. A failure keeps what there was."""

    def __init__(
        self,
        read: Callable[[], T],
        first: T,
        *,
        due: float,
        every: float,
        check: Callable[[T], None] = lambda _value: None,
        insistent: bool = False,
    ) -> None:
        """`check` raises for a value that must not be taken; `insistent`: after a failure, try each time."""
        self.value = first
        self.due = due
        self.error: KubeAuthError | None = None
        self._read = read
        self._check = check
        self._every = every
        self._insistent = insistent

    def renew(self, now: float) -> None:
        """Reads again. An equal value leaves the object that was there, so that `is` tells of a change."""
        failure: KubeAuthError | None = None
        try:
            value = self._read()
            if value != self.value:
                self._check(value)
                self.value = value
        except KubeAuthError as error:
            failure = error
        if failure is not None and str(failure) != str(self.error):
            logger.warning("%s. The one read before stays in use", str(failure).rstrip("."))
        self.error = failure
        if failure is None or not self._insistent:
            self.due = now + self._every


class Renewing(ABC, Generic[T]):
    """A value that is handed out without a lock, and renewed by one caller while the others go on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Guards renewing. Whoever finds it taken uses the value there is: files do not expire.
        self._renewing = threading.Lock()
        self._value, self._due = self._made()
        call_after_fork(self)

    @property
    def latest(self) -> T:
        """The value as it was read last, due or not."""
        return self._value

    def fresh(self, now: float) -> T | None:
        """The value, if it need not be looked at again yet. This is all that most requests do."""
        return self._value if now < self._due else None

    def get(self) -> T:
        """The value, read again if it is time. Reads small files; raises nothing."""
        if self._renewing.acquire(blocking=False):
            try:
                self._renew(self._clock.monotonic())
                self._value, self._due = self._made()
            finally:
                self._renewing.release()
        return self._value

    async def aget(self) -> T:
        """As `get`, off the event loop. Cancelling leaves the reading to its thread."""
        if not self._renewing.locked():
            # A limiter of its own: an application that keeps all threads busy must not hold us up.
            await to_thread.run_sync(self.get, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        return self._value

    def after_fork(self) -> None:
        """In a child the lock may be held by a thread that is not there."""
        self._renewing = threading.Lock()

    @abstractmethod
    def _made(self) -> tuple[T, float]:
        """The value as it is now, and when to look again."""

    @abstractmethod
    def _renew(self, now: float) -> None:
        """Reads what is due. Called by one thread at a time."""


class WatchedFile(Renewing[T]):
    """One watched value on its own."""

    def __init__(self, watched: Watched[T], clock: Clock) -> None:
        self.watched = watched
        super().__init__(clock)

    def _made(self) -> tuple[T, float]:
        return self.watched.value, self.watched.due

    def _renew(self, now: float) -> None:
        if now >= self.watched.due:
            self.watched.renew(now)
