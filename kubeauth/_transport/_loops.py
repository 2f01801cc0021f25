"""The verbs that differ by colour, for event loops. `_threads` has the same for callers that may block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
from anyio import to_thread

P = ParamSpec("P")
T = TypeVar("T")

Lock = anyio.Lock


async def run(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Does `work`, which may block, in a thread."""
    # A limiter of its own: an application that keeps all threads busy must not hold us up.
    limiter = anyio.CapacityLimiter(1)
    return await to_thread.run_sync(partial(work, *args, **kwargs), abandon_on_cancel=True, limiter=limiter)


def shielded() -> AbstractContextManager[object]:
    """What happens in here is not cut short by a cancelled task."""
    return anyio.CancelScope(shield=True)
