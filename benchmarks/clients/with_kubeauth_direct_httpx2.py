"""kubeauth's own clients, on the transport of kubeauth.transports below httpx2."""

import kubeauth.httpx2
import kubeauth.transports.httpx2
from benchmarks.clients.opened import AsyncOpened, Opened
from benchmarks.clients.with_kubeauth import aopened, opened


def sync(kubeconfig: str) -> Opened:
    config = kubeauth.load_config(kubeconfig)
    return opened(
        kubeauth.httpx2.Client(config, transport_factory=kubeauth.transports.httpx2.DirectTransport)
    )


async def asyncio(kubeconfig: str) -> AsyncOpened:
    config = kubeauth.load_config(kubeconfig)
    return aopened(
        kubeauth.httpx2.AsyncClient(config, transport_factory=kubeauth.transports.httpx2.AsyncDirectTransport)
    )
