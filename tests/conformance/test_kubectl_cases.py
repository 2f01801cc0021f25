"""The cases of kubectl's test/cmd/authentication.sh (T66-T73), and kubeconfigs that are rejected (T92, T94)."""

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
from tests.conformance.plugins import V1BETA1, build_config, exec_entry, metrics_delta
from tests.support.kubeconfigs import V1
from tests.support.shell_plugin import ShellPlugin, credential

# A program that does not print an ExecCredential.
LS = exec_entry("ls")


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_token_takes_precedence_over_an_invalid_plugin_t66_i1(server: APIServer) -> None:
    with (
        metrics_delta() as metrics,
        kubeauth.Client(build_config(server, LS, {"token": "alices-token"})) as client,
    ):
        assert client.get("/version").status_code == 200
    assert (metrics.calls, metrics.policy) == ({}, {})


def test_invalid_output_is_an_error_t67_x31(server: APIServer) -> None:
    with kubeauth.Client(build_config(server, LS)) as client:
        with pytest.raises(PluginOutputError, match=r"\Agetting credentials: decoding stdout: "):
            client.get("/version")
    assert server.requests == []


def test_output_without_a_kind_is_accepted_t68_x34(server: APIServer) -> None:
    output = f'{{"apiVersion":"{V1}","status":{{"token":"alices-token"}}}}'
    with kubeauth.Client(build_config(server, exec_entry("echo", output))) as client:
        assert client.get("/version").status_code == 200


def test_an_invalid_password_takes_precedence_over_a_valid_plugin_t69_i1(
    server: APIServer, tmp_path: Path
) -> None:
    script = ShellPlugin(tmp_path, credential("alices-token"))
    config = build_config(server, exec_entry(script.path))
    from_flags = dataclasses.replace(config, username="bob", password=Secret("wrong"))
    from_kubeconfig = build_config(server, exec_entry(script.path), {"username": "bob", "password": "wrong"})

    for each in (from_flags, from_kubeconfig):
        with kubeauth.Client(each) as client:
            assert client.get("/version").status_code == 401

    assert script.exec_infos == []


def test_a_certificate_takes_precedence_over_an_invalid_plugin_t70_i1(server: APIServer) -> None:
    pair = server.authority.client("carol")
    user = {
        "client-certificate-data": encode_base64(pair.certificate),
        "client-key-data": encode_base64(pair.key),
    }
    from_flags = dataclasses.replace(
        build_config(server, LS), client_cert_data=pair.certificate, client_key_data=Secret(pair.key)
    )

    with metrics_delta() as metrics:
        for config in (build_config(server, LS, user), from_flags):
            with kubeauth.Client(config) as client:
                assert client.get("/version").status_code == 200

    assert [request.user for request in server.requests] == ["carol"] * 2
    assert (metrics.calls, metrics.policy) == ({}, {})


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_interactive_mode_is_required_in_v1_only_t73_x19(
    server: APIServer, tmp_path: Path, version: str
) -> None:
    script = ShellPlugin(tmp_path, credential("alices-token", version=version))
    entry = exec_entry(script.path, apiVersion=version)
    del entry["interactiveMode"]
    if version == V1:
        with pytest.raises(KubeConfigError, match="interactiveMode must be specified for tester"):
            build_config(server, entry)
        return
    with kubeauth.Client(build_config(server, entry)) as client:
        assert client.get("/version").status_code == 200


def test_a_context_with_an_unknown_user_is_an_error_t92(server: APIServer, tmp_path: Path) -> None:
    """client-go sends anonymous requests; neither runs the plugin of another user."""
    document = server.kubeconfig({"exec": LS})
    document["contexts"][0]["context"]["user"] = "typo"
    with pytest.raises(KubeConfigError, match="typo"):
        kubeauth.load_config(document)


def test_a_token_file_and_a_password_conflict_t94(server: APIServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    user: dict[str, Any] = {"tokenFile": str(tmp_path / "token"), "username": "u", "password": "p"}
    with pytest.raises(KubeConfigError, match="username/password or bearer token may be set, but not both"):
        build_config(server, LS, user)


def test_install_hint_is_shown_for_a_name_but_not_for_a_path_t81_x26(
    server: APIServer, tmp_path: Path
) -> None:
    for command, has_hint in (("no-such-plugin", True), (str(tmp_path / "no-such-plugin"), False)):
        config = build_config(server, exec_entry(command, installHint="brew install it"))
        with kubeauth.Client(config) as client, pytest.raises(PluginNotFound) as caught:
            client.get("/version")
        assert ("brew install it" in str(caught.value)) is has_hint
