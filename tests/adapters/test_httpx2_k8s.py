"""httpx2-k8s, through kubeauth.adapters.httpx2_k8s."""

from __future__ import annotations

from typing import Any

import pytest
from httpx2_k8s import APIError, RetryPolicy

from kubeauth.adapters.httpx2_k8s import async_client, client
from kubeauth.testing import Answer, APIServer
from tests.adapters.promises import Promises
from tests.adapters.with_httpx2_k8s import SIDES


class TestHttpx2K8s(Promises):
    sides = SIDES
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
