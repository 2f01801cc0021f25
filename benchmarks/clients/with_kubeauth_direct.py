"""kubeauth's own clients, on the transport of kubeauth.inner below httpx."""

import kubeauth
import kubeauth.inner
from benchmarks.clients.opened import AsyncOpened, Opened
from benchmarks.clients.with_kubeauth import aopened, opened


def sync(kubeconfig: str) -> Opened:
    config = kubeauth.load_config(kubeconfig)
    return opened(kubeauth.Client(config, inner=kubeauth.inner.DirectTransport))


async def asyncio(kubeconfig: str) -> AsyncOpened:
    config = kubeauth.load_config(kubeconfig)
    return aopened(kubeauth.AsyncClient(config, inner=kubeauth.inner.AsyncDirectTransport))
