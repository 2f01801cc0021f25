"""httpx2-k8s: pydantic models, on httpx2."""

from __future__ import annotations

from httpx2_k8s import AsyncKubeClient, KubeClient, load_kubeconfig

from benchmarks.clients.opened import AsyncOpened, Opened


def sync(kubeconfig: str) -> Opened:
    client = KubeClient.from_kubeconfig(kubeconfig)
    return Opened(lambda: len(client.core_v1.list_namespace().items), client.close)


async def asyncio(kubeconfig: str) -> AsyncOpened:
    client = AsyncKubeClient.from_kubeconfig(kubeconfig)

    async def ask() -> int:
        return len((await client.core_v1.list_namespace()).items)

    return AsyncOpened(ask, client.close)


def load(kubeconfig: str) -> object:
    return load_kubeconfig(kubeconfig)
