"""lightkube: models, decoded when they are looked at, on httpx2."""

from __future__ import annotations

import lightkube
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import Namespace

from benchmarks.clients.opened import AsyncOpened, Opened


def sync(kubeconfig: str) -> Opened:
    client = lightkube.Client(KubeConfig.from_file(kubeconfig))
    return Opened(lambda: sum(1 for _ in client.list(Namespace)), client.close)


async def asyncio(kubeconfig: str) -> AsyncOpened:
    client = lightkube.AsyncClient(KubeConfig.from_file(kubeconfig))

    async def ask() -> int:
        return len([each async for each in client.list(Namespace)])

    return AsyncOpened(ask, client.aclose)


def load(kubeconfig: str) -> object:
    return KubeConfig.from_file(kubeconfig).get()
