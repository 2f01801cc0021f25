"""One way to talk to a client of any runtime, so that callers are written once.

The callers are coroutines. On asyncio and trio they are just that; for a client that blocks, nothing they await ever
suspends, and a thread drives each from its start to its end in one go.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio


class Session(Protocol):
    """What callers use of a client."""

    async def request(self, method: str, url: str, **options: Any) -> Any: ...
    def stream(self, url: str, **options: Any) -> Any: ...
    async def sleep(self, seconds: float) -> None: ...
    async def patiently(self, seconds: float, asking: Coroutine[Any, Any, Any]) -> Any: ...


class BlockingSession:
    """For threads."""

    def __init__(self, client: Any, stop: threading.Event) -> None:
        self._client, self._stop = client, stop

    async def request(self, method: str, url: str, **options: Any) -> Any:
        return self._client.request(method, url, **options)

    @asynccontextmanager
    async def stream(self, url: str, **options: Any) -> AsyncIterator[tuple[Any, AsyncIterator[str]]]:
        with self._client.stream("GET", url, **options) as response:
            yield response, _suspending_never(response.iter_lines())

    async def sleep(self, seconds: float) -> None:
        self._stop.wait(seconds)

    async def patiently(self, seconds: float, asking: Coroutine[Any, Any, Any]) -> Any:
        """Threads cannot be told to give up."""
        return await asking


async def _suspending_never(lines: Any) -> AsyncIterator[str]:
    for line in lines:
        yield line


class AsyncSession:
    """For event loops."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def request(self, method: str, url: str, **options: Any) -> Any:
        return await self._client.request(method, url, **options)

    @asynccontextmanager
    async def stream(self, url: str, **options: Any) -> AsyncIterator[tuple[Any, AsyncIterator[str]]]:
        async with self._client.stream("GET", url, **options) as response:
            yield response, response.aiter_lines()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def patiently(self, seconds: float, asking: Coroutine[Any, Any, Any]) -> Any:
        """None if it took too long."""
        with anyio.move_on_after(seconds):
            return await asking
        return None


def drive(caller: Coroutine[Any, Any, None]) -> None:
    """Runs one that never suspends, to its end."""
    try:
        caller.send(None)
    except StopIteration:
        return
    raise RuntimeError("it waits for something that a thread cannot wait for")
