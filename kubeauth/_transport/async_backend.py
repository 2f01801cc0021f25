"""The verbs that differ by colour, for event loops. `_threads` has the same for callers that may block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

import anyio  # it loads its parts when they are first used: who has no event loop needs none

P = ParamSpec("P")
T = TypeVar("T")

Lock: TypeAlias = "anyio.Lock"


def new_lock() -> Lock:
    return anyio.Lock()


async def run_blocking(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Does `work`, which takes a moment, in a thread. To its end: what it makes must find an owner."""
    from anyio import to_thread

    # A limiter of its own: an application that keeps all threads busy must not hold us up.
    return await to_thread.run_sync(partial(work, *args, **kwargs), limiter=anyio.CapacityLimiter(1))


def shield() -> AbstractContextManager[object]:
    """What happens in here is not cut short by a cancelled task."""
    return anyio.CancelScope(shield=True)
