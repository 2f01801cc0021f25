"""examples/sidecar.yaml: the proxy beside an app. That a cluster takes it is tested end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeauth._proxy._filter import Filter
from kubeauth._proxy._refusal import Refused
from kubeauth.cli._app import parser_of
from kubeauth.cli._proxy import Options

PATH = Path(__file__).parent.parent.parent / "examples" / "sidecar.yaml"


@pytest.fixture
def pod() -> dict[str, Any]:
    documents = list(yaml.safe_load_all(PATH.read_text()))
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def options(pod: dict[str, Any]) -> Options:
    (proxy,) = pod["initContainers"]
    assert proxy["command"] == ["kubeauth", "proxy"]
    given, unread = parser_of("proxy").read(proxy["args"], Options())
    assert unread == []
    return given


def test_its_flags_are_flags(options: Options, pod: dict[str, Any]) -> None:
    (proxy,) = pod["initContainers"]
    assert options.address == "127.0.0.1"
    (port,) = proxy["ports"]
    assert options.metrics_port == port["containerPort"]
    assert proxy["startupProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}


def test_the_app_can_ask_for_what_it_asks_for_and_nothing_else(options: Options, pod: dict[str, Any]) -> None:
    (app,) = pod["containers"]
    assert f"http://127.0.0.1:{options.port}/api/v1/namespaces/default/configmaps" in app["args"][0]
    filter = options.filter
    assert isinstance(filter, Filter)
    rules = filter.compiled()
    rules.check_caller(["127.0.0.1:8001"])
    rules.check_request("GET", "/api/v1/namespaces/default/configmaps")
    for method, path in [
        ("DELETE", "/api/v1/namespaces/default/configmaps/x"),
        ("GET", "/api/v1/namespaces/default/secrets"),
        ("GET", "/api/v1/namespaces/a/secrets/configmaps"),
        ("GET", "/x/api/v1/namespaces/a/configmaps"),
    ]:
        with pytest.raises(Refused):
            rules.check_request(method, path)


def test_only_the_proxy_has_the_token(pod: dict[str, Any]) -> None:
    assert pod["automountServiceAccountToken"] is False
    (app,), (proxy,) = pod["containers"], pod["initContainers"]
    assert "volumeMounts" not in app
    assert [each["name"] for each in proxy["volumeMounts"]] == ["token"]
