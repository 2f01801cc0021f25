"""Operations that differ between event loops and threads, for event loops; `sync_backend` is for threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

import anyio  # loads its parts when they are first used: sync clients need none of them

P = ParamSpec("P")
T = TypeVar("T")

Lock: TypeAlias = "anyio.Lock"


def new_lock() -> Lock:
    return anyio.Lock()


async def run_blocking(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run short `work` in a thread. Not abandoned when cancelled: its result must be closed."""
    from anyio import to_thread

    # A limiter of its own: an application may keep all of anyio's threads busy.
    return await to_thread.run_sync(partial(work, *args, **kwargs), limiter=anyio.CapacityLimiter(1))


def shield() -> AbstractContextManager[object]:
    """Return a context in which cancellation is deferred."""
    return anyio.CancelScope(shield=True)
