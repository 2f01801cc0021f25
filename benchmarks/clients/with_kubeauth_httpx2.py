"""kubeauth's own clients, on httpx2."""

import kubeauth.httpx2
from benchmarks.clients.opened import AsyncOpened, Opened
from benchmarks.clients.with_kubeauth import aopened, opened


def sync(kubeconfig: str) -> Opened:
    return opened(kubeauth.httpx2.Client(kubeauth.load_config(kubeconfig)))


async def asyncio(kubeconfig: str) -> AsyncOpened:
    return aopened(kubeauth.httpx2.AsyncClient(kubeauth.load_config(kubeconfig)))
