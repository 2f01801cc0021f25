"""A client that is ready to be asked, whatever its library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple


class Opened(NamedTuple):
    ask: Callable[[], int]
    """Lists the namespaces, and returns how many there are."""
    close: Callable[[], object]


class AsyncOpened(NamedTuple):
    ask: Callable[[], Awaitable[int]]
    close: Callable[[], Awaitable[object]]
