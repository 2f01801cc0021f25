"""The example plugins, run by kubectl: what kubeauth.plugin prints is what client-go takes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeauth.testing import Answer, APIServer, KeyPair, Received
from kubeauth.testing._authority import _encode_key

pytestmark = pytest.mark.oracle

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def everybody(server: APIServer) -> APIServer:
    def answer(_request: Received) -> Answer:
        return Answer(200, {"kind": "Status", "apiVersion": "v1"})

    server.on("GET", "/hello", answer)
    return server


def hello(
    kubectl: str, server: APIServer, directory: Path, name: str, arguments: list[str], **fields: Any
) -> None:
    stanza = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": sys.executable,
        "args": [str(EXAMPLES / name), *arguments],
        "provideClusterInfo": True,
        **fields,
    }
    path = directory / "config"
    path.write_text(yaml.safe_dump(server.kubeconfig({"exec": stanza})))
    subprocess.run(
        [kubectl, "get", "--raw", "/hello"],
        env={**os.environ, "KUBECONFIG": str(path)},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_kubectl_takes_the_token_x47(
    kubectl: str, everybody: APIServer, tmp_path: Path, version: str
) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    arguments = ["--key-file", str(tmp_path / "key"), "--user", "alice"]
    api_version = f"client.authentication.k8s.io/{version}"
    hello(kubectl, everybody, tmp_path, "token_plugin.py", arguments, apiVersion=api_version)
    header = everybody.requests[-1].header("authorization")
    assert header is not None
    claims = json.loads(base64.urlsafe_b64decode(header.removeprefix("Bearer ").split(".")[1] + "=="))
    # The address came from the kubeconfig, through kubectl, through what the plugin was told.
    assert (claims["sub"], claims["aud"]) == ("alice", everybody.url)


def test_kubectl_takes_the_certificate_x47(kubectl: str, everybody: APIServer, tmp_path: Path) -> None:
    files = tmp_path / "ca.pem", tmp_path / "ca.key"
    KeyPair(everybody.authority.pem, _encode_key(everybody.authority._key)).write(*files)
    arguments = ["--ca", str(files[0]), "--ca-key", str(files[1]), "--user", "carol"]
    hello(kubectl, everybody, tmp_path, "certificate_plugin.py", arguments)
    assert everybody.requests[-1].user == "carol"
