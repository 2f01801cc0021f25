"""Single flight: callers that need the same value at the same time share one run, in threads and event loops.

A call to `SingleFlight.run` or `arun` **uses** a cached value, **waits** for the run of another caller, or
**leads**: it does the work, and all callers that wait get its result. The subclass decides which of them,
under its own lock, with the same function for sync and async callers. No lock is held during the work.
"""

from __future__ import annotations

import copy
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from kubeauth._compat import is_out_of_threads
from kubeauth._runtime import loop_lock, run_in_thread
from kubeauth.errors import KubeAuthError

T = TypeVar("T")


class Call(Generic[T]):
    """One run, and the callers that wait for it. Completed once."""

    def __init__(self) -> None:
        self.reason = ""
        self.key: Hashable = None
        """The key of the run, for subclasses with several runs in progress."""
        self.cancelled = False
        self.leader_thread: int | None = None
        self._result: T | KubeAuthError | None = None
        self._is_done = False
        # Guards the two above and the waiters, for a few instructions. Reentrant: the garbage collector may
        # run while it is held, and destroy the task that leads this call.
        self._lock = threading.RLock()
        self._waiters: set[threading.Event] = set()

    @property
    def is_done(self) -> bool:
        return self._is_done

    def complete(self, result: T | KubeAuthError | None) -> None:
        """Set the result, and wake all waiters. With None there is no result, and each waiter decides again.

        The first call sets the result. Later calls only wake waiters that an interrupted call has missed.
        """
        with self._lock:
            if not self._is_done:
                self._result, self._is_done = result, True
        for waiter in list(self._waiters):
            waiter.set()

    def result(self) -> T | None:
        """Return the result; None if the run had none. Raise a copy of the error if it failed."""
        result = self._result
        if isinstance(result, KubeAuthError):
            raise copy_error(result) from result.__cause__
        return result

    def wait(self, seconds: float | None = None) -> None:
        """Block until it is done, or for that long."""
        waiter = self._add_waiter()
        waiter.wait(seconds)
        with self._lock:
            self._waiters.discard(waiter)

    async def await_done(self) -> None:
        """Wait in a thread until it is done. Cancelling stops that thread, not the run."""
        waiter = self._add_waiter()
        try:
            await run_in_thread(waiter.wait)
        finally:
            # The thread must not outlive the wait: the process would not exit before the thread.
            with self._lock:
                self._waiters.discard(waiter)
            waiter.set()

    def _add_waiter(self) -> threading.Event:
        waiter = threading.Event()
        with self._lock:
            if self._is_done:
                waiter.set()
            else:
                self._waiters.add(waiter)
        return waiter


@dataclass(frozen=True, slots=True)
class Use(Generic[T]):
    """The caller uses this cached value."""

    value: T


@dataclass(frozen=True, slots=True)
class Wait(Generic[T]):
    """Another caller leads this call."""

    call: Call[T]


@dataclass(frozen=True, slots=True)
class Lead(Generic[T]):
    """The caller leads its own call."""

    call: Call[T]


Decision: TypeAlias = Use[T] | Wait[T] | Lead[T]
Decide: TypeAlias = Callable[[Call[T]], Decision[T]]
"""Receives a new call, which other callers can find if the decision is to lead it."""
Work: TypeAlias = Callable[[Call[T]], None]
"""Does the work of a call and completes it, whatever happens."""


class SingleFlight(ABC, Generic[T]):
    """Runs the work of concurrent callers once. Subclasses know which calls are in progress."""

    def run(self, decide: Decide[T], work: Work[T]) -> T:
        """Return the cached value or the result of a run. KubeAuthError if the run failed."""
        while True:
            own: Call[T] = Call()
            # Before other callers can find it: one of them may be a signal handler of this thread.
            own.leader_thread = threading.get_ident()
            try:
                decision = decide(own)
                if isinstance(decision, Use):
                    return decision.value
                if isinstance(decision, Lead):
                    work(own)
                else:
                    self._wait(decision.call)
            except BaseException:
                self._cancel(own)
                raise
            if (result := decision.call.result()) is not None:
                return result

    async def arun(self, decide: Decide[T], work: Work[T]) -> T:
        """As `run`, without blocking the event loop. A cancelled caller does not stop the run."""
        while True:
            own: Call[T] = Call()
            try:
                decision = decide(own)
                if isinstance(decision, Use):
                    return decision.value
                if isinstance(decision, Lead):
                    self._work_in_background(own, work)
            except BaseException:
                self._cancel(own)
                raise
            # Only one task of an event loop waits in a thread; the others then find that the call is done.
            async with loop_lock(decision.call):
                if not decision.call.is_done:
                    await self._await_done(decision.call)
            if (result := decision.call.result()) is not None:
                return result

    def _work_in_background(self, call: Call[T], work: Work[T]) -> None:
        """Run `work` in a daemon thread, so that neither exit nor a cancelled caller waits for it."""
        thread = threading.Thread(target=work, args=(call,), name="kubeauth-refresh", daemon=True)
        call.leader_thread = None  # `work` sets it
        try:
            thread.start()
        except RuntimeError as error:
            if not is_out_of_threads(error):
                raise
            self._fail(call, self._out_of_threads())

    def _wait(self, call: Call[T]) -> None:
        if call.leader_thread == threading.get_ident():
            raise self._error(
                f"this thread is already waiting for {self._name}: a signal handler cannot wait for the code "
                "that it interrupted. Make the request from another thread."
            )
        call.wait()

    async def _await_done(self, call: Call[T]) -> None:
        try:
            await call.await_done()
        except RuntimeError as error:
            if not is_out_of_threads(error):
                raise
            raise self._out_of_threads() from None

    def _out_of_threads(self) -> KubeAuthError:
        return self._error(
            f"cannot start a thread for {self._name}: this process has too many. Raise its limit "
            "(ulimit -u), or look for a leak."
        )

    def _internal_error(self, error: Exception) -> KubeAuthError:
        return self._error(
            f"{self._name} failed unexpectedly ({type(error).__name__}). This is a bug in kubeauth: please "
            "report it, with the log."
        )

    @property
    @abstractmethod
    def _name(self) -> str:
        """The name of what is run, for messages."""

    @abstractmethod
    def _error(self, message: str) -> KubeAuthError:
        """Return an error of the subclass's type."""

    @abstractmethod
    def _fail(self, call: Call[T], error: KubeAuthError) -> None:
        """Complete a call with an error."""

    @abstractmethod
    def _cancel(self, call: Call[T]) -> None:
        """Complete a call without a result, if it is not done: the callers that wait decide again.

        A signal handler can raise between any two instructions, as Ctrl-C does. Then the leader calls this,
        since other callers may already wait for its call.
        """


def copy_error(error: KubeAuthError) -> KubeAuthError:
    """Return a copy for another caller: a shared error would collect the tracebacks of all callers."""
    return copy.copy(error)


def traceback_locations(error: Exception) -> str:
    """Return the files and lines of a traceback, for the log. The message may contain secrets."""
    return "".join(traceback.format_tb(error.__traceback__))
