"""kubectl's own script of cases (test/cmd/authentication.sh, T66-T73), and what a kubeconfig may not say (T92, T94)."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth import Secret
from kubeauth.errors import KubeConfigError, PluginNotFound, PluginOutputError
from kubeauth.testing import APIServer
from tests.conformance.plugins import V1, V1BETA1, ShellPlugin, configured, counted, credential, stanza_of

LS = stanza_of("ls")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_an_invalid_plugin_beside_a_token_t66_i1(server: APIServer) -> None:
    with counted() as count, kubeauth.Client(configured(server, LS, {"token": "alices-token"})) as client:
        assert client.get("/version").status_code == 200
    assert (count.calls, count.policy) == ({}, {})


def test_an_invalid_plugin_alone_t67_x31(server: APIServer) -> None:
    with kubeauth.Client(configured(server, LS)) as client:
        with pytest.raises(PluginOutputError, match=r"\Agetting credentials: decoding stdout: "):
            client.get("/version")
    assert server.requests == []


def test_echo_without_a_kind_t68_x34(server: APIServer) -> None:
    said = f'{{"apiVersion":"{V1}","status":{{"token":"alices-token"}}}}'
    with kubeauth.Client(configured(server, stanza_of("echo", said))) as client:
        assert client.get("/version").status_code == 200


def test_a_bad_password_over_a_valid_plugin_t69_i1(server: APIServer, tmp_path: Path) -> None:
    script = ShellPlugin(tmp_path, credential("alices-token"))
    config = configured(server, stanza_of(script.path))
    flags = dataclasses.replace(config, username="bob", password=Secret("wrong"))
    stanza = configured(server, stanza_of(script.path), {"username": "bob", "password": "wrong"})
    for each in (flags, stanza):
        with kubeauth.Client(each) as client:
            assert client.get("/version").status_code == 401
    assert script.infos == []


def test_a_certificate_over_an_invalid_plugin_t70_i1(server: APIServer) -> None:
    pair = server.authority.client("carol")
    stanza = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
    flags = dataclasses.replace(
        configured(server, LS), client_cert_data=pair.certificate, client_key_data=Secret(pair.key)
    )
    with counted() as count:
        for config in (configured(server, LS, stanza), flags):
            with kubeauth.Client(config) as client:
                assert client.get("/version").status_code == 200
    assert [request.user for request in server.requests] == ["carol"] * 2
    assert (count.calls, count.policy) == ({}, {})


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_missing_interactive_mode_t73_x19(server: APIServer, tmp_path: Path, version: str) -> None:
    script = ShellPlugin(tmp_path, credential("alices-token", version=version))
    stanza = stanza_of(script.path, apiVersion=version)
    del stanza["interactiveMode"]
    if version == V1:
        with pytest.raises(KubeConfigError, match="interactiveMode must be specified for tester"):
            configured(server, stanza)
        return
    with kubeauth.Client(configured(server, stanza)) as client:
        assert client.get("/version").status_code == 200


def test_a_context_whose_user_is_missing_t92(server: APIServer, tmp_path: Path) -> None:
    """client-go goes on as nobody; the plugin that was meant is not run either way."""
    document = server.kubeconfig({"exec": LS})
    document["contexts"][0]["context"]["user"] = "typo"
    with pytest.raises(KubeConfigError, match="typo"):
        kubeauth.load_config(document)


def test_a_token_file_beside_a_password_t94(server: APIServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    user: dict[str, Any] = {"tokenFile": str(tmp_path / "token"), "username": "u", "password": "p"}
    with pytest.raises(KubeConfigError, match="username/password or bearer token may be set, but not both"):
        configured(server, LS, user)


def test_the_hint_is_for_a_name_and_not_for_a_path_t81_x26(server: APIServer, tmp_path: Path) -> None:
    for command, has_hint in (("no-such-plugin", True), (str(tmp_path / "no-such-plugin"), False)):
        config = configured(server, stanza_of(command, installHint="brew install it"))
        with kubeauth.Client(config) as client, pytest.raises(PluginNotFound) as caught:
            client.get("/version")
        assert ("brew install it" in str(caught.value)) is has_hint
