"""Values that come from files and are read again while requests go on (K53, K54, K62, K63)."""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from kubeauth._credentials._clock import Clock
from kubeauth._credentials._staying import Staying
from kubeauth._fork import call_after_fork
from kubeauth.errors import CredentialError, KubeAuthError

logger = logging.getLogger("kubeauth.credentials")

T = TypeVar("T")

# How long after its time a value may still be handed out, while somebody reads it again.
GRACE = 1.0


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
        except Exception as error:
            # Not in its own words: they may be those of the file.
            failure = CredentialError(f"a file cannot be read again ({type(error).__name__})")
        if failure is not None and str(failure) != str(self.error):
            logger.warning("%s. The one read before stays in use", str(failure).rstrip("."))
        self.error = failure
        if failure is None or not self._insistent:
            self.due = now + self._every


class Renewing(Staying, ABC, Generic[T]):
    """A value that is handed out without a lock, and read again by one caller when it is time.

    Others who come at that moment go on with what there is. But who comes long after, when nobody has asked
    for a while, waits: what was read then may be over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Guards reading again. Held over small files, never over `await`.
        self._renewing = threading.Lock()
        self._take()
        call_after_fork(self)

    def _take(self) -> None:
        self._value, self._due = self._made()
        self._is_constant = self._due == math.inf
        # By the calendar too: the other clock stands still while a laptop sleeps.
        self._due_date = self._clock.time() + self._due - self._clock.monotonic()

    @property
    def latest(self) -> T:
        """The value as it was read last, due or not."""
        return self._value

    def fresh(self, now: float) -> T | None:
        """The value, if it need not be looked at again yet. This is all that most requests do."""
        return self._value if self._is_constant or not self._is_due(now) else None

    def _is_due(self, now: float, grace: float = 0.0) -> bool:
        return now >= self._due + grace or self._clock.time() >= self._due_date + grace

    def get(self) -> T:
        """The value, read again if it is time. Reads small files; raises nothing."""
        must_wait = self._is_due(self._clock.monotonic(), GRACE)
        if self._renewing.acquire(blocking=must_wait):
            try:
                now = self._clock.monotonic()
                if self._is_due(now):
                    self._renew(now, overslept=self._clock.time() >= self._due_date)
                    self._take()
            finally:
                self._renewing.release()
        return self._value

    async def aget(self) -> T:
        """As `get`, off the event loop. Cancelling leaves the reading to its thread."""
        from anyio import WouldBlock  # for those alone who have an event loop

        from kubeauth._credentials._gate import aside, gate_of

        gate = gate_of(self)
        try:
            gate.acquire_nowait()
        except WouldBlock:
            if not self._is_due(self._clock.monotonic(), GRACE):
                return self._value
            await gate.acquire()
        try:
            if self._is_due(self._clock.monotonic()):
                await aside(self.get)
        finally:
            gate.release()
        return self._value

    def after_fork(self) -> None:
        """In a child the lock may be held by a thread that is not there."""
        self._renewing = threading.Lock()

    @abstractmethod
    def _made(self) -> tuple[T, float]:
        """The value as it is now, and when to look again."""

    @abstractmethod
    def _renew(self, now: float, *, overslept: bool) -> None:
        """Reads what is due; everything, if by the calendar it is. Called by one thread at a time."""


class WatchedFile(Renewing[T]):
    """One watched value on its own."""

    def __init__(self, watched: Watched[T], clock: Clock) -> None:
        self.watched = watched
        super().__init__(clock)

    def _made(self) -> tuple[T, float]:
        return self.watched.value, self.watched.due

    def _renew(self, now: float, *, overslept: bool) -> None:
        self.watched.renew(now)
