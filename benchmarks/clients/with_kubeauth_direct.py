"""kubeauth's own clients, on the transport of kubeauth.transports below httpx."""

import kubeauth
import kubeauth.transports
from benchmarks.clients.opened import AsyncOpened, Opened
from benchmarks.clients.with_kubeauth import aopened, opened


def sync(kubeconfig: str) -> Opened:
    config = kubeauth.load_config(kubeconfig)
    return opened(kubeauth.Client(config, transport_factory=kubeauth.transports.DirectTransport))


async def asyncio(kubeconfig: str) -> AsyncOpened:
    config = kubeauth.load_config(kubeconfig)
    return aopened(kubeauth.AsyncClient(config, transport_factory=kubeauth.transports.AsyncDirectTransport))
