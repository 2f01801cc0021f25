"""kr8s: objects around parsed JSON, on httpx; its sync side is its async one in a thread of its own."""

from __future__ import annotations

import kr8s
import kr8s.asyncio

from benchmarks.clients.opened import AsyncOpened, Opened


def sync(kubeconfig: str) -> Opened:
    api = kr8s.api(kubeconfig=kubeconfig)
    return Opened(lambda: sum(1 for _ in kr8s.get("namespaces", api=api)), lambda: None)


async def asyncio(kubeconfig: str) -> AsyncOpened:
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)

    async def ask() -> int:
        return len([each async for each in kr8s.asyncio.get("namespaces", api=api)])

    async def close() -> None:
        """It has nothing to close it with."""

    return AsyncOpened(ask, close)
