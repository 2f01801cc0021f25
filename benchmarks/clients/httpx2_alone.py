"""httpx2 by itself."""

import httpx2

from benchmarks.clients import plain
from benchmarks.clients.opened import AsyncOpened, Opened


def sync(kubeconfig: str) -> Opened:
    return plain.opened(httpx2, kubeconfig)


async def asyncio(kubeconfig: str) -> AsyncOpened:
    return plain.aopened(httpx2, kubeconfig)
