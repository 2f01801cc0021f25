"""For event loops: locks, one for each loop, since none works in two; and what must not hold a loop up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter, Lock, to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")

_gates: RunVar[WeakKeyDictionary[object, Lock]] = RunVar("kubeauth_gates")


def gate_of(owner: object) -> Lock:
    """The lock of `owner` in this event loop, so that of all its tasks at most one occupies a thread."""
    try:
        gates = _gates.get()
    except LookupError:
        gates = WeakKeyDictionary()
        _gates.set(gates)
    return gates.setdefault(owner, Lock())


async def aside(work: Callable[[], T]) -> T:
    """Does `work`, which may block, in a thread. Cancelling leaves it to its thread."""
    # A limiter of its own: an application that keeps all threads busy must not hold us up.
    return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=CapacityLimiter(1))
