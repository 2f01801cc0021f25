"""How kr8s is asked, in either runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import kr8s
from kr8s.asyncio.objects import Pod as AsyncPod
from kr8s.objects import Pod

from kubeauth.adapters.kr8s import Api, AsyncApi, aapi, api
from tests.adapters.driver import Side
from tests.adapters.promises import POD


def names(kube: Api) -> list[str]:
    return [each.name for each in kr8s.get("namespaces", api=kube)]


def config_maps(kube: Api, namespace: str) -> list[str]:
    return [each.name for each in kr8s.get("configmaps", namespace=namespace, api=kube)]


def events(kube: Api, namespace: str) -> Iterator[tuple[str, str]]:
    for kind, each in kr8s.watch("configmaps", namespace=namespace, since="0", api=kube):
        yield kind, each.name


def execute(kube: Api) -> str:
    return Pod(POD, api=kube).exec(["greet"]).stdout.decode()


async def anames(kube: AsyncApi) -> list[str]:
    return [each.name async for each in kr8s.asyncio.get("namespaces", api=kube)]


async def aconfig_maps(kube: AsyncApi, namespace: str) -> list[str]:
    return [each.name async for each in kr8s.asyncio.get("configmaps", namespace=namespace, api=kube)]


async def aevents(kube: AsyncApi, namespace: str) -> AsyncIterator[tuple[str, str]]:
    async for kind, each in kr8s.asyncio.watch("configmaps", namespace=namespace, since="0", api=kube):
        yield kind, each.name


async def aexecute(kube: AsyncApi) -> str:
    done = await AsyncPod(POD, api=kube).exec(["greet"])
    return done.stdout.decode()


SIDES = {
    "sync": Side(api, Api.close, names, config_maps, events, execute),
    "async": Side(aapi, AsyncApi.aclose, anames, aconfig_maps, aevents, aexecute),
}
