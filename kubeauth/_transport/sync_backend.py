"""The verbs that differ by colour, for callers that may block. `_loops` has the same for event loops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Lock = threading.Lock


def new_lock() -> Lock:
    return Lock()


def run_blocking(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Does `work`, which may block."""
    return work(*args, **kwargs)


def shield() -> AbstractContextManager[object]:
    """What happens in here is not cut short. Nobody cancels a thread."""
    return nullcontext()
