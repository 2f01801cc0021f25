"""lightkube, through kubeauth.adapters.lightkube."""

from __future__ import annotations

from typing import Any

import httpx2
import lightkube
import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

from kubeauth.adapters.lightkube import async_client, client
from kubeauth.testing import Answer, APIServer
from tests.adapters.promises import Promises
from tests.adapters.with_lightkube import SIDES


class TestLightkube(Promises):
    sides = SIDES
    Refused = lightkube.ApiError


def test_options_are_lightkubes_own(server: APIServer) -> None:
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
