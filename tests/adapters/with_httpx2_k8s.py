"""How httpx2-k8s is asked, in either runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from httpx2_k8s import AsyncKubeClient, ConfigMap, KubeClient, WatchEvent

from kubeauth import ClientConfig
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.adapters.httpx2_k8s import async_client, client
from tests.adapters.driver import Side

PATH = "/api/v1/namespaces/{}/configmaps"


def names(kube: KubeClient) -> list[str | None]:
    return [each.metadata.name for each in kube.core_v1.list_namespace().items]


def config_maps(kube: KubeClient, namespace: str) -> list[str | None]:
    return [each.metadata.name for each in kube.core_v1.list_namespaced_config_map(namespace).items]


def events(kube: KubeClient, namespace: str) -> Iterator[tuple[str, str | None]]:
    for each in kube.watch(
        PATH.format(namespace), response_model=ConfigMap, resource_version="0", allow_bookmarks=False
    ):
        assert isinstance(each, WatchEvent)
        yield each.type, each.object.metadata.name


def execute(kube: KubeClient) -> str:
    return kube.core_v1.execute_namespaced_pod("web", "default", ["greet"]).stdout_text


async def aopen(config: ClientConfig, *, clock: Clock = SYSTEM_CLOCK) -> AsyncKubeClient:
    return async_client(config, clock=clock)


async def anames(kube: AsyncKubeClient) -> list[str | None]:
    return [each.metadata.name for each in (await kube.core_v1.list_namespace()).items]


async def aconfig_maps(kube: AsyncKubeClient, namespace: str) -> list[str | None]:
    return [each.metadata.name for each in (await kube.core_v1.list_namespaced_config_map(namespace)).items]


async def aevents(kube: AsyncKubeClient, namespace: str) -> AsyncIterator[tuple[str, str | None]]:
    async for each in kube.watch(
        PATH.format(namespace), response_model=ConfigMap, resource_version="0", allow_bookmarks=False
    ):
        assert isinstance(each, WatchEvent)
        yield each.type, each.object.metadata.name


async def aexecute(kube: AsyncKubeClient) -> str:
    return (await kube.core_v1.execute_namespaced_pod("web", "default", ["greet"])).stdout_text


SIDES = {
    "sync": Side(client, KubeClient.close, names, config_maps, events, execute),
    "async": Side(aopen, AsyncKubeClient.close, anames, aconfig_maps, aevents, aexecute),
}
