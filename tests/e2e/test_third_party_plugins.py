"""Plugins that nobody here wrote: kubeauth runs them as kubectl does, and what they give arrives the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubeauth
from kubeauth.testing import APIServer, Received
from tests.e2e import tools
from tests.e2e.plugin_setups import SETUPS, Setup
from tests.e2e.recorder import Recorder, first_on_path
from tests.support.clients import ClientVariant

NAMESPACES = "/api/v1/namespaces"
CLOUDS = ("AWS_", "AZURE_", "AAD_", "ARM_", "GOOGLE_", "CLOUDSDK_", "KUBECACHEDIR")
EXTENSION = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "e2e", "list": [1, None]}}


@dataclass
class Ground:
    """A plugin, the kubeconfig that names it, and a server that takes what it gives."""

    setup: Setup
    recorder: Recorder
    server: APIServer
    path: Path
    refused: set[str]

    def write(self, **changes: Any) -> None:
        """The kubeconfig that both read; `changes` replace parts of the stanza."""
        stanza = {"command": self.setup.command} | self.setup.exec_config | changes
        # No other test has this one, so that none is given what another one's plugin said.
        stanza["env"] = [*stanza.get("env", ()), {"name": "E2E_KUBECONFIG", "value": str(self.path)}]
        cluster = {"extensions": [EXTENSION]}
        self.path.write_text(yaml.safe_dump(self.server.kubeconfig({"exec": stanza}, cluster)))

    @property
    def bearers(self) -> list[str]:
        return [str(each.header("Authorization")).removeprefix("Bearer ") for each in self.server.requests]


@pytest.fixture(params=SETUPS)
def ground(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ground]:
    for name in [name for name in os.environ if name.startswith(CLOUDS)]:
        monkeypatch.delenv(name)
    refused: set[str] = set()

    def authenticate(received: Received) -> str | None:
        token = str(received.header("Authorization")).removeprefix("Bearer ")
        return None if token in refused else str(setup.reads(token))

    try:
        entered = SETUPS[request.param](tmp_path)
        with entered as setup, APIServer(authenticate=authenticate) as server:
            recorder = Recorder(tmp_path / "bin", setup.command, setup.program)
            monkeypatch.setenv("PATH", first_on_path(tmp_path / "bin"))
            monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
            ground = Ground(setup, recorder, server, tmp_path / "kubeconfig", refused)
            ground.write()
            yield ground
    except tools.Missing as missing:
        pytest.skip(str(missing))


def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In our own environment, so that all that differs is who runs the plugin."""
    return subprocess.run(
        [str(tools.kube()), "kubectl", *arguments],
        # Said, since C libraries may have put more in the one that is inherited than os.environ knows of.
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def difference(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """Names only: a developer's environment is nobody's business."""
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_it_is_run_as_kubectl_runs_it_and_the_server_sees_the_same(ground: Ground) -> None:
    with kubeauth.Client() as client:
        ours = client.get(NAMESPACES)
    theirs = kubectl("get", "--raw", NAMESPACES)
    assert (ours.status_code, theirs.returncode) == (200, 0), theirs.stderr
    first, second = ground.recorder.runs
    assert first.info == second.info
    assert (first.arguments, first.stdin) == (second.arguments, second.stdin)
    assert first.arguments == ground.setup.exec_config["args"]
    assert difference(first.environment, second.environment) == set()
    assert [first.token, second.token] == ground.bearers
    assert ground.setup.reads(first.token) == ground.setup.reads(second.token)
    if ground.setup.caches:
        assert first.token == second.token
    if ground.setup.differs:
        assert first.token != second.token


@pytest.mark.parametrize("provide", [False, True])
def test_what_it_is_told_about_the_cluster(ground: Ground, provide: bool) -> None:
    """As much as kubectl tells it. Whether it copes with all that is told is the same for both."""
    ground.write(provideClusterInfo=provide)
    with kubeauth.Client() as client:
        try:
            works = client.get(NAMESPACES).status_code == 200
        except kubeauth.errors.PluginError:
            works = False
    theirs = kubectl("get", "--raw", NAMESPACES)
    assert works == (theirs.returncode == 0), theirs.stderr
    assert works == (not provide or ground.setup.reads_any_config)
    first, second = ground.recorder.runs
    assert first.info == second.info
    assert first.info["apiVersion"] == ground.setup.exec_config["apiVersion"]
    if provide:
        assert first.info["spec"]["cluster"]["config"] == EXTENSION["extension"]
        assert first.info["spec"]["cluster"]["server"] == ground.server.url
    else:
        assert "cluster" not in first.info["spec"]


def test_one_run_is_enough_and_its_end_is_what_it_says(ground: Ground, variant: ClientVariant) -> None:
    with variant.client() as client:
        for _ in range(2):
            assert client.get(NAMESPACES).status_code == 200
        status = client.client.status()
    (run,) = ground.recorder.runs
    assert status.expires == run.expires
    assert ground.bearers == [run.token, run.token]


def test_after_a_401_it_is_run_again(ground: Ground, variant: ClientVariant) -> None:
    """If what it then gives is another token, the request is repeated with it; else the 401 is the answer."""
    with variant.client() as client:
        client.get(NAMESPACES)
        ground.refused.update(ground.bearers)
        answer = client.get(NAMESPACES)
    first, second = ground.recorder.runs
    if first.token == second.token:
        assert not ground.setup.differs
        assert answer.status_code == 401
        assert ground.bearers == [first.token, first.token]
    else:
        assert not ground.setup.caches
        assert answer.status_code == 200
        assert ground.bearers == [first.token, first.token, second.token]


def test_its_failure_is_told_in_its_own_words(
    ground: Ground, variant: ClientVariant, capfd: pytest.CaptureFixture[str]
) -> None:
    ground.write(**ground.setup.wrong)
    with variant.client() as client, pytest.raises(kubeauth.errors.PluginFailed) as failure:
        client.get(NAMESPACES)
    assert ground.setup.words in failure.value.stderr_tail
    assert ground.setup.words in str(failure.value)
    assert failure.value.exit_code > 0
    assert len(ground.recorder.runs) == 1
    # It also went where a person looks, as kubectl lets it.
    assert ground.setup.words in capfd.readouterr().err
    theirs = kubectl("get", "--raw", NAMESPACES)
    assert theirs.returncode != 0
    assert ground.setup.words in theirs.stderr
    assert f"exit code {failure.value.exit_code}" in theirs.stderr
    assert ground.server.requests == []


def test_where_it_is_not_installed_the_hint_is_shown(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.recorder.path.unlink()
    monkeypatch.setenv("PATH", str(ground.recorder.path.parent))
    hint = f"You get {ground.setup.command} from its vendor."
    ground.write(installHint=hint)
    with kubeauth.Client() as client, pytest.raises(kubeauth.errors.PluginNotFound) as failure:
        client.get(NAMESPACES)
    assert failure.value.install_hint == hint
    assert hint in str(failure.value)
    theirs = kubectl("get", "--raw", NAMESPACES)
    assert hint in theirs.stderr
    assert ground.server.requests == []
