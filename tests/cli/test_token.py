"""`kubeauth token`: what a request would be signed with, for people and as a plugin for other clients."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubeauth
from kubeauth.cli._ends import Status
from kubeauth.testing import APIServer, Authority, KeyPair, PluginScript
from tests.cli.conftest import Run
from tests.cli.programs import KUBEAUTH, environ, ran
from tests.cli.programs import kubeauth as program
from tests.support.oidc import settings, write_kubeconfig
from tests.support.oidc_issuer import Issuer

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def carol() -> KeyPair:
    return Authority().client("carol", ["dev"])


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def pair_of(carol: KeyPair) -> dict[str, str]:
    return {"client-certificate-data": encoded(carol.certificate), "client-key-data": encoded(carol.key)}


@pytest.fixture
def as_user(api: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kubeconfig for that user."""

    def made(user: dict[str, Any]) -> Path:
        path = tmp_path / "kubeconfig-of-user"
        path.write_text(json.dumps(api.kubeconfig(user)))
        monkeypatch.setenv("KUBECONFIG", str(path))
        return path

    return made


def test_it_is_no_worker_of_somebodys_server(as_user: Any, tmp_path: Path) -> None:
    """What their environment says about metrics is not for us: nothing is written, and nothing is complained of."""
    plugin = PluginScript(tmp_path)
    plugin.answer(token="t-2")
    as_user({"exec": plugin.exec_config()})
    (tmp_path / "shared").mkdir()
    for directory in ("shared", "none"):
        env = environ(PROMETHEUS_MULTIPROC_DIR=str(tmp_path / directory))
        assert program("token", env=env) == (0, "t-2\n", "")
    assert list((tmp_path / "shared").iterdir()) == []


class TestToken:
    def test_of_the_kubeconfig(self, as_user: Any, run: Run, api: APIServer) -> None:
        as_user({"token": "t-1"})
        assert run("token") == (0, "t-1\n", "")
        assert not api.requests

    def test_of_the_flag(self, as_user: Any, run: Run) -> None:
        as_user({"token": "t-1"})
        assert run("token", "--token=t-2").out == "t-2\n"

    def test_of_a_file(self, as_user: Any, run: Run, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(" from-a-file\n")
        as_user({"tokenFile": str(tmp_path / "token")})
        assert run("token").out == "from-a-file\n"

    def test_of_a_plugin(self, as_user: Any, run: Run, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(token="from-a-plugin", expires_in=900)
        as_user({"exec": plugin.exec_config()})
        assert run("token").out == "from-a-plugin\n"
        assert len(plugin.runs) == 1

    def test_of_an_issuer_renewed_and_written_back(self, api: APIServer, run: Run, tmp_path: Path) -> None:
        with Issuer() as issuer:
            tokens = {"id_token": issuer.id_token("alice", -60), "refresh_token": issuer.new_refresh_token()}
            kubeconfig = write_kubeconfig(api, tmp_path / "oidc", settings(issuer, **tokens))
            printed = run("token", "--kubeconfig", kubeconfig.path).out
            again = json.loads(run("token", "--kubeconfig", kubeconfig.path, "-o", "json").out)["status"]
            assert issuer.refreshes == 1
        assert printed == kubeconfig.entry()["id-token"] + "\n" == again["token"] + "\n"
        assert datetime.fromisoformat(again["expirationTimestamp"]) > datetime.now(UTC)

    def test_a_plugin_that_fails(self, as_user: Any, run: Run, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(exit_code=3, stderr="no luck\n")
        as_user({"exec": plugin.exec_config()})
        ran = run("token", "-o", "json")
        assert (ran.status, ran.out) == (Status.CREDENTIAL, "")
        assert "failed with exit code 3" in ran.err

    def test_a_plugin_that_gives_what_is_over(self, as_user: Any, run: Run, tmp_path: Path) -> None:
        """A request would be signed with it, too. Whoever wonders why it is refused is told."""
        plugin = PluginScript(tmp_path)
        plugin.answer(token="the-plugins", expires_in=-60)
        as_user({"exec": plugin.exec_config()})
        ran = run("token")
        assert (ran.status, ran.out) == (Status.OK, "the-plugins\n")
        assert ran.err.startswith("warning: getting credentials: exec plugin returned an expired credential.")


class TestNoToken:
    """What there is instead, and what to do."""

    @pytest.mark.parametrize("flags", [[], ["-o", "json"]])
    def test_a_name_and_a_password(self, flags: list[str], as_user: Any, run: Run) -> None:
        as_user({"username": "bob", "password": "bobs-password"})
        assert run("token", *flags) == (
            Status.CREDENTIAL,
            "",
            "error: the credential is a name and a password (username and password), and has no token. No other "
            "client takes that from a plugin. Choose another user with --user or --context.\n",
        )

    @pytest.mark.parametrize("flags", [[], ["-o", "yaml"]])
    def test_nothing(self, flags: list[str], as_user: Any, run: Run) -> None:
        as_user({})
        assert run("token", *flags) == (
            Status.CREDENTIAL,
            "",
            "error: the user of this kubeconfig has no credential: requests are sent without one. Choose another "
            "with --user or --context.\n",
        )

    def test_a_certificate(self, as_user: Any, run: Run, carol: KeyPair) -> None:
        as_user(pair_of(carol))
        ran = run("token")
        assert ran == (
            Status.CREDENTIAL,
            "",
            "error: the credential is a client certificate (client certificate), and has no token. "
            "`kubeauth token -o json` prints the certificate, with its key.\n",
        )


class TestExecCredential:
    def test_of_a_token(self, as_user: Any, run: Run) -> None:
        as_user({"token": "t-1"})
        expected = {"kind": "ExecCredential", "apiVersion": V1, "status": {"token": "t-1"}}
        assert json.loads(run("token", "-o", "json").out) == expected
        assert yaml.safe_load(run("token", "-o", "yaml").out) == expected

    def test_of_a_plugin_with_its_end(self, as_user: Any, run: Run, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(token="t", expires_in=900)
        as_user({"exec": plugin.exec_config()})
        found = json.loads(run("token", "-o", "json").out)["status"]
        left = datetime.fromisoformat(found["expirationTimestamp"]) - datetime.now(UTC)
        assert timedelta(minutes=14) < left <= timedelta(minutes=15)

    def test_of_a_certificate(self, as_user: Any, run: Run, carol: KeyPair, tmp_path: Path) -> None:
        as_user(pair_of(carol))
        inline = json.loads(run("token", "-o", "json").out)["status"]
        assert inline["clientCertificateData"] == carol.certificate.decode()
        assert inline["clientKeyData"] == carol.key.decode()
        assert inline["expirationTimestamp"].endswith("Z")
        assert "token" not in inline
        (tmp_path / "cert").write_bytes(carol.certificate)
        (tmp_path / "key").write_bytes(carol.key)
        as_user({"client-certificate": str(tmp_path / "cert"), "client-key": str(tmp_path / "key")})
        assert json.loads(run("token", "-o", "json").out)["status"] == inline

    def test_of_both(self, as_user: Any, run: Run, carol: KeyPair) -> None:
        as_user({**pair_of(carol), "token": "t-1"})
        found = json.loads(run("token", "-o", "json").out)["status"]
        assert found["token"] == "t-1"
        assert found["clientKeyData"] == carol.key.decode()
        assert run("token").out == "t-1\n"

    @pytest.mark.parametrize("version", [V1, V1BETA1])
    def test_in_the_version_that_was_asked_for(
        self, version: str, as_user: Any, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        as_user({"token": "t-1"})
        asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        monkeypatch.setenv("KUBERNETES_EXEC_INFO", json.dumps(asked))
        monkeypatch.setenv("KUBEAUTH_TOKEN_DEPTH", "0")  # so that it is put back
        assert json.loads(run("token", "-o", "json").out)["apiVersion"] == version

    def test_a_question_that_makes_no_sense(
        self, as_user: Any, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        as_user({"token": "t-1"})
        monkeypatch.setenv("KUBERNETES_EXEC_INFO", "{")
        monkeypatch.setenv("KUBEAUTH_TOKEN_DEPTH", "0")  # so that it is put back
        ran = run("token", "-o", "json")
        assert (ran.status, ran.out) == (Status.CONFIG, "")
        assert "KUBERNETES_EXEC_INFO" in ran.err or "ExecCredential" in ran.err


def plugin_stanza(kubeconfig: Path, version: str = V1) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "command": sys.executable,
        "args": [*KUBEAUTH[1:], "token", "-o", "json", "--kubeconfig", str(kubeconfig)],
        "interactiveMode": "IfAvailable",
    }


class TestAsAPlugin:
    """Other clients get their credential from this command."""

    @pytest.fixture
    def inner(self, api: APIServer, tmp_path: Path) -> Path:
        """Whose plugin gives alice's token."""
        plugin = PluginScript(tmp_path)
        plugin.answer(token="alices-token", expires_in=900)
        path = tmp_path / "inner"
        path.write_text(json.dumps(api.kubeconfig({"exec": plugin.exec_config()})))
        return path

    @pytest.mark.parametrize("version", [V1, V1BETA1])
    def test_of_kubeauth(self, version: str, api: APIServer, inner: Path) -> None:
        config = kubeauth.load_config(api.kubeconfig({"exec": plugin_stanza(inner, version)}))
        with kubeauth.Client(config) as client:
            assert client.get("/version").status_code == 200
            status = client.status()
        assert api.requests[-1].user == "alice"
        assert status.kind == "token"
        assert status.expires is not None

    def test_of_kubeauth_with_a_certificate(self, api: APIServer, ca: Authority, tmp_path: Path) -> None:
        dave = ca.client("dave")
        inner = tmp_path / "inner"
        inner.write_text(json.dumps(api.kubeconfig(pair_of(dave))))
        with kubeauth.Client(kubeauth.load_config(api.kubeconfig({"exec": plugin_stanza(inner)}))) as client:
            assert client.get("/version").status_code == 200
        assert api.requests[-1].user == "dave"

    @pytest.mark.oracle
    @pytest.mark.parametrize("version", [V1, V1BETA1])
    def test_of_kubectl(
        self, version: str, api: APIServer, inner: Path, kubectl: str, tmp_path: Path
    ) -> None:
        outer = tmp_path / "outer"
        outer.write_text(json.dumps(api.kubeconfig({"exec": plugin_stanza(inner, version)})))
        asked = ran(kubectl, "get", "--raw", "/version", f"--kubeconfig={outer}")
        assert asked.status == 0, asked.err
        assert api.requests[-1].user == "alice"

    def test_a_plugin_of_ours_is_told_that_nobody_is_there(self, api: APIServer, tmp_path: Path) -> None:
        """On a terminal, that a client says is not for us: neither is it for the plugin that we run."""
        plugin = PluginScript(tmp_path)
        inner = tmp_path / "inner"
        inner.write_text(
            json.dumps(api.kubeconfig({"exec": plugin.exec_config(interactiveMode="IfAvailable")}))
        )
        for interactive in (False, True):
            asked = {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": interactive}}
            self.on_a_terminal(inner, json.dumps(asked))
        assert [run.info["spec"]["interactive"] for run in plugin.runs] == [False, True]

    def on_a_terminal(self, inner: Path, asked: str) -> None:
        import pty

        ours, theirs = pty.openpty()
        subprocess.run(
            [*KUBEAUTH, "token", "-o", "json", "--kubeconfig", str(inner)],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            env=environ(KUBERNETES_EXEC_INFO=asked),
            check=True,
            timeout=60,
        )
        os.close(theirs)
        os.close(ours)

    def test_of_itself_more_often_than_anybody_means(
        self, api: APIServer, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KUBERNETES_EXEC_INFO", "{}")
        monkeypatch.setenv("KUBEAUTH_TOKEN_DEPTH", "3")
        ran = run("token", "-o", "json")
        assert (ran.status, ran.out) == (Status.CONFIG, "")
        assert "it is the plugin of the very user whose token it is to print" in ran.err

    def test_of_itself_comes_to_an_end(self, api: APIServer, tmp_path: Path) -> None:
        """A kubeconfig whose plugin prints the token of that kubeconfig would start processes without end."""
        path = tmp_path / "itself"
        path.write_text(json.dumps(api.kubeconfig({"exec": plugin_stanza(path)})))
        ran = program("get", "/version", "--kubeconfig", str(path))
        assert (ran.status, ran.out) == (Status.CREDENTIAL, "")
        assert "kubeauth token was run by itself 3 times over" in ran.err
