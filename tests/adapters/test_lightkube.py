"""lightkube, through kubeauth.adapters.lightkube."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import httpx2
import lightkube
import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace

from kubeauth import ClientConfig
from kubeauth.adapters.lightkube import async_client, client
from kubeauth.testing import Answer, APIServer
from tests.adapters.driver import WATCHED, Side
from tests.adapters.promises import Promises


def names(kube: lightkube.Client) -> list[str | None]:
    return [each.metadata.name for each in kube.list(Namespace) if each.metadata]


def events(kube: lightkube.Client) -> Iterator[str | None]:
    for _, each in kube.watch(ConfigMap, namespace="default"):
        assert each.metadata
        yield each.metadata.name


def execute(kube: lightkube.Client) -> Any:
    return kube.exec("web", namespace="default", command="greet", stdout=True).stdout


async def aopen(config: ClientConfig) -> lightkube.AsyncClient:
    return async_client(config)


async def anames(kube: lightkube.AsyncClient) -> list[str | None]:
    return [each.metadata.name async for each in kube.list(Namespace) if each.metadata]


async def aevents(kube: lightkube.AsyncClient) -> AsyncIterator[str | None]:
    async for _, each in kube.watch(ConfigMap, namespace="default"):
        assert each.metadata
        yield each.metadata.name


async def aexecute(kube: lightkube.AsyncClient) -> Any:
    return (await kube.exec("web", namespace="default", command="greet", stdout=True)).stdout


class TestLightkube(Promises):
    sides: ClassVar = {
        "sync": Side(client, lightkube.Client.close, names, events, execute),
        "async": Side(aopen, lightkube.AsyncClient.aclose, anames, aevents, aexecute),
    }
    Refused = lightkube.ApiError


def test_options_are_lightkubes_own(server: APIServer) -> None:
    server.on("PATCH", f"{WATCHED}/settings", lambda request: Answer(200, request.body))
    path = "/api/v1/namespaces/{}/configmaps/settings"
    for namespace in ("web", "shop"):
        server.on("PATCH", path.format(namespace), lambda request: Answer(200, request.body))
    config = server.config(token="alices-token", namespace="web")
    settings = ConfigMap(metadata=ObjectMeta(name="settings"))
    with client(config, field_manager="me") as kube:
        assert kube.namespace == "web"
        kube.apply(settings)
    with client(config, namespace="shop", field_manager="me", timeout=httpx2.Timeout(5.0)) as kube:
        assert kube.namespace == "shop"
        kube.apply(settings)
    assert [request.path.partition("?")[0] for request in server.requests] == [
        path.format("web"),
        path.format("shop"),
    ]
    assert all("fieldManager=me" in request.path for request in server.requests)


@pytest.mark.parametrize("option", ["transport", "proxy"])
@pytest.mark.parametrize("make", [client, async_client])
def test_what_would_take_effect_beside_the_config_is_refused(
    make: Any, option: str, server: APIServer
) -> None:
    with pytest.raises(TypeError, match=f"{option}= "):
        make(server.config(), **{option: None})


def test_lightkube_is_given_no_credential(server: APIServer) -> None:
    with client(server.config(token="alices-token")) as kube:
        assert kube.config.user is not None
        assert (kube.config.user.token, kube.config.user.exec) == (None, None)
        assert "alices-token" not in repr(kube.config)
