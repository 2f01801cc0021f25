"""Operations that differ between event loops and threads, for threads; `async_backend` is for event loops."""

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
    """Run `work` here."""
    return work(*args, **kwargs)


def shield() -> AbstractContextManager[object]:
    """Return a context that does nothing: threads are not cancelled."""
    return nullcontext()
