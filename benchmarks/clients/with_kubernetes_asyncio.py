"""kubernetes_asyncio: models of every object, on aiohttp."""

from __future__ import annotations

from typing import Any

from kubernetes_asyncio import client, config

from benchmarks.clients.opened import AsyncOpened


async def asyncio(kubeconfig: str) -> AsyncOpened:
    configuration = client.Configuration()
    await config.load_kube_config(kubeconfig, client_configuration=configuration)
    api = client.ApiClient(configuration)
    core: Any = client.CoreV1Api(api)

    async def ask() -> int:
        return len((await core.list_namespace()).items)

    return AsyncOpened(ask, api.close)


async def load(kubeconfig: str) -> object:
    configuration = client.Configuration()
    await config.load_kube_config(kubeconfig, client_configuration=configuration)
    return configuration
