"""Kubeconfigs that the vendors' own tools write: read as they are, and their plugins run as they say."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest
import yaml

import kubeauth
from kubeauth.testing import Answer, APIServer
from tests.e2e import third_party, tools
from tests.e2e.clouds import signed_by_aws
from tests.e2e.plugin_setups import AWS_ALONE, AWS_KEY
from tests.e2e.recorder import Recorder, first_on_path

NAMESPACES = "/api/v1/namespaces"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in command],
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_aws_eks_update_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        recorder = Recorder(tmp_path / "bin", "aws", third_party.aws())
    except tools.Missing as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("PATH", first_on_path(recorder.path.parent))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    for name, value in (AWS_ALONE | AWS_KEY).items():
        monkeypatch.setenv(name, value)
    with APIServer() as server, APIServer(tls=False) as eks:
        authority = {"data": base64.b64encode(server.authority.pem).decode()}
        cluster: dict[str, object] = {
            "name": "e2e",
            "arn": "arn:aws:eks:eu-central-1:111122223333:cluster/e2e",
            "status": "ACTIVE",
        }
        cluster |= {"endpoint": server.url, "certificateAuthority": authority}
        eks.on("GET", "/clusters/e2e", Answer(body={"cluster": cluster}))
        options = ["--name", "e2e", "--region", "eu-central-1", "--endpoint-url", eks.url]
        wrote = run(recorder.path, "eks", "update-kubeconfig", *options)
        assert wrote.returncode == 0, wrote.stderr
        with kubeauth.Client() as client:
            assert client.get(NAMESPACES).status_code == 200
        theirs = run(tools.kube(), "kubectl", "get", "--raw", NAMESPACES)
        assert theirs.returncode == 0, theirs.stderr
        ours, its = (str(each.header("Authorization")).removeprefix("Bearer ") for each in server.requests)
    _, first, second = recorder.runs
    assert (ours, its) == (first.token, second.token)
    assert (first.info, first.arguments, first.stdin) == (second.info, second.arguments, second.stdin)
    secret = AWS_KEY["AWS_SECRET_ACCESS_KEY"]
    said = signed_by_aws(ours, cluster="e2e", secret=secret)
    assert said == signed_by_aws(its, cluster="e2e", secret=secret)
    assert said["host"] == "sts.eu-central-1.amazonaws.com"


def test_azure_kubelogin_convert_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it writes is read, `env: null` and all, and where it is not installed its hint is shown."""
    try:
        program = third_party.azure_kubelogin()
    except tools.Missing as missing:
        pytest.skip(str(missing))
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    arguments = [
        "get-token",
        "--login",
        "devicecode",
        "--server-id",
        "the-server",
        "--client-id",
        "the-client",
    ]
    arguments += ["--tenant-id", "the-tenant", "--environment", "AzurePublicCloud"]
    version = "client.authentication.k8s.io/v1beta1"
    with APIServer() as server:
        user = {"exec": {"apiVersion": version, "command": "kubelogin", "args": arguments}}
        path.write_text(yaml.safe_dump(server.kubeconfig(user)))
        wrote = run(program, "convert-kubeconfig", "--login", "workloadidentity", "--kubeconfig", path)
        assert wrote.returncode == 0, wrote.stderr
        (written,) = yaml.safe_load(path.read_text())["users"]
        config = kubeauth.load_config()
        assert config.exec is not None
        assert list(config.exec.args) == written["user"]["exec"]["args"]
        assert "workloadidentity" in config.exec.args
        monkeypatch.setenv("PATH", str(tmp_path))
        with kubeauth.Client(config) as client, pytest.raises(kubeauth.errors.PluginNotFound) as failure:
            client.get(NAMESPACES)
        theirs = run(tools.kube(), "kubectl", "get", "--raw", NAMESPACES)
    hint = "kubelogin is not installed which is required to connect to AAD enabled cluster."
    assert hint in str(failure.value)
    assert hint in theirs.stderr
