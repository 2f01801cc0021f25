"""httpx2-k8s, through kubeauth.adapters.httpx2_k8s."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest
from httpx2_k8s import APIError, AsyncKubeClient, ConfigMap, KubeClient, RetryPolicy

from kubeauth import ClientConfig
from kubeauth.adapters.httpx2_k8s import async_client, client
from kubeauth.testing import Answer, APIServer
from tests.adapters.driver import WATCHED, Side
from tests.adapters.promises import Promises


def names(kube: KubeClient) -> list[str | None]:
    return [each.metadata.name for each in kube.core_v1.list_namespace().items]


def events(kube: KubeClient) -> Iterator[str | None]:
    for each in kube.watch(WATCHED, response_model=ConfigMap):
        yield each.object.metadata.name  # type: ignore[union-attr]


def execute(kube: KubeClient) -> str:
    return kube.core_v1.execute_namespaced_pod("web", "default", ["greet"]).stdout_text


async def aopen(config: ClientConfig) -> AsyncKubeClient:
    return async_client(config)


async def anames(kube: AsyncKubeClient) -> list[str | None]:
    return [each.metadata.name for each in (await kube.core_v1.list_namespace()).items]


async def aevents(kube: AsyncKubeClient) -> AsyncIterator[str | None]:
    async for each in kube.watch(WATCHED, response_model=ConfigMap):
        yield each.object.metadata.name  # type: ignore[union-attr]


async def aexecute(kube: AsyncKubeClient) -> str:
    return (await kube.core_v1.execute_namespaced_pod("web", "default", ["greet"])).stdout_text


class TestHttpx2K8s(Promises):
    sides: ClassVar = {
        "sync": Side(client, KubeClient.close, names, events, execute),
        "async": Side(aopen, AsyncKubeClient.close, anames, aevents, aexecute),
    }
    Refused = APIError


def test_options_are_its_own(server: APIServer) -> None:
    server.on("GET", "/api/v1/namespaces", Answer(503, b"busy"))
    once = RetryPolicy(max_attempts=1)
    with client(server.config(token="alices-token"), retry_policy=once, timeout=5.0) as kube:
        with pytest.raises(APIError):
            kube.core_v1.list_namespace()
    assert len(server.requests) == 1


@pytest.mark.parametrize("option", ["transport", "verify", "cert"])
@pytest.mark.parametrize("make", [client, async_client])
def test_what_would_take_effect_beside_the_config_is_refused(
    make: Any, option: str, server: APIServer
) -> None:
    with pytest.raises(TypeError, match=f"{option}= "):
        make(server.config(), **{option: None})
