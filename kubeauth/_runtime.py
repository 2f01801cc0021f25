"""Processes, threads and event loops: fork hooks, clocks, locks per event loop."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from time import monotonic, time
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    from anyio import Lock
    from anyio.lowlevel import RunVar

T = TypeVar("T")


class Forkable(Protocol):
    """An object that must be reset in a forked child."""

    def after_fork(self) -> None:
        """Called in the child, before any other code runs."""
        ...


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()


def call_after_fork(forkable: Forkable) -> None:
    """Call `forkable.after_fork()` in every child that is forked during its lifetime."""
    _registered.add(forkable)


# Held during an import in a function: a child forked meanwhile would wait forever for the import lock, whose
# owner does not exist there. Reentrant: an imported module may fork.
no_fork = threading.RLock()


def _after_fork() -> None:
    no_fork.release()
    for forkable in list(_registered):
        forkable.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=no_fork.acquire, after_in_parent=no_fork.release, after_in_child=_after_fork)


class ProcessBound:
    """A base class for objects that cannot be pickled or copied. The error says what to send instead."""

    __slots__ = ()

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise ConfigError(
            f"{type(self).__name__} cannot be pickled or copied: it holds connections, locks or a live "
            "credential. Send its ClientConfig, which is pickled without secrets, or the path of the "
            "kubeconfig and the name of the context, and create a new one in the other process."
        )


class Clock(Protocol):
    """The wall clock and the monotonic clock."""

    def time(self) -> float:
        """Seconds since 1970. Can go back when the clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment. Never goes back; may stop while the machine sleeps."""
        ...


class SystemClock:
    """The clocks of this machine."""

    # The built-in functions, not wrappers: they are called on every request.
    time = staticmethod(time)
    monotonic = staticmethod(monotonic)


SYSTEM_CLOCK = SystemClock()

_loop_locks: RunVar[weakref.WeakKeyDictionary[object, Lock]] | None = None


def loop_lock(owner: object) -> Lock:
    """Return the lock of `owner` in this event loop, so that only one task of the loop waits in a thread."""
    from anyio import Lock  # only callers with an event loop need anyio
    from anyio.lowlevel import RunVar

    global _loop_locks
    if _loop_locks is None:
        with no_fork:
            if _loop_locks is None:  # another thread may have set it
                _loop_locks = RunVar("kubeauth_loop_locks")
    try:
        locks = _loop_locks.get()
    except LookupError:
        locks = weakref.WeakKeyDictionary()
        _loop_locks.set(locks)
    return locks.setdefault(owner, Lock())


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run blocking `work` in a thread. When cancelled, return at once; the thread completes on its own."""
    from anyio import CapacityLimiter, to_thread

    # A separate limiter: the application may use all worker threads of the default one.
    return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=CapacityLimiter(1))
