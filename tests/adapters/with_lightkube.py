"""How lightkube is asked, in either runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import lightkube
from lightkube.resources.core_v1 import ConfigMap, Namespace

from kubeauth import ClientConfig
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.adapters.lightkube import async_client, client
from tests.adapters.driver import Side


def names(kube: lightkube.Client) -> list[str | None]:
    return [each.metadata.name for each in kube.list(Namespace) if each.metadata]


def config_maps(kube: lightkube.Client, namespace: str) -> list[str | None]:
    return [each.metadata.name for each in kube.list(ConfigMap, namespace=namespace) if each.metadata]


def events(kube: lightkube.Client, namespace: str) -> Iterator[tuple[str, str | None]]:
    for kind, each in kube.watch(ConfigMap, namespace=namespace, resource_version="0"):
        assert each.metadata
        yield kind, each.metadata.name


def execute(kube: lightkube.Client) -> Any:
    return kube.exec("web", namespace="default", command="greet", stdout=True).stdout


async def aopen(config: ClientConfig, *, clock: Clock = SYSTEM_CLOCK) -> lightkube.AsyncClient:
    return async_client(config, clock=clock)


async def anames(kube: lightkube.AsyncClient) -> list[str | None]:
    return [each.metadata.name async for each in kube.list(Namespace) if each.metadata]


async def aconfig_maps(kube: lightkube.AsyncClient, namespace: str) -> list[str | None]:
    return [each.metadata.name async for each in kube.list(ConfigMap, namespace=namespace) if each.metadata]


async def aevents(kube: lightkube.AsyncClient, namespace: str) -> AsyncIterator[tuple[str, str | None]]:
    async for kind, each in kube.watch(ConfigMap, namespace=namespace, resource_version="0"):
        assert each.metadata
        yield kind, each.metadata.name


async def aexecute(kube: lightkube.AsyncClient) -> Any:
    return (await kube.exec("web", namespace="default", command="greet", stdout=True)).stdout


SIDES = {
    "sync": Side(client, lightkube.Client.close, names, config_maps, events, execute),
    "async": Side(aopen, lightkube.AsyncClient.aclose, anames, aconfig_maps, aevents, aexecute),
}
