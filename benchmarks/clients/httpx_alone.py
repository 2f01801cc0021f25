"""httpx by itself."""

import httpx

from benchmarks.clients import plain
from benchmarks.clients.opened import AsyncOpened, Opened


def sync(kubeconfig: str) -> Opened:
    return plain.opened(httpx, kubeconfig)


async def asyncio(kubeconfig: str) -> AsyncOpened:
    return plain.aopened(httpx, kubeconfig)
