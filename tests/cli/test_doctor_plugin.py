"""The doctor and the plugin: missing, forbidden, failing, and giving what is no use."""

from __future__ import annotations

import datetime
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth.cli._doctor_findings import Level
from kubeauth.testing import APIServer, Authority, PluginScript
from tests.cli.doctoring import SENTINEL, TOKEN, Report, examined, jwt, written
from tests.support.kubeconfigs import V1

NOW = datetime.datetime.now(datetime.UTC)
HOUR = datetime.timedelta(hours=1)
Look = Callable[..., Report]


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, tokens={TOKEN: "alice"}) as server:
        yield server


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    plugin = PluginScript(tmp_path, "acme-login")
    plugin.answer(token=TOKEN, expires_in=900)
    return plugin


@pytest.fixture
def look(server: APIServer, plugin: PluginScript, tmp_path: Path) -> Look:
    """At a user with the plugin, with other fields of `exec`. Its arguments and environment may be secrets."""

    def look(*arguments: str, **fields: Any) -> Report:
        secret: dict[str, Any] = {
            "args": [f"--password={SENTINEL}"],
            "env": [{"name": "PASSWORD", "value": SENTINEL}],
        }
        user = {"exec": plugin.exec_config(**(secret | fields))}
        return examined(*arguments, kubeconfig=written(tmp_path / "config", server.kubeconfig(user)))

    return look


def kuberc(home: Path, **fields: Any) -> Path:
    document = {"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference"} | fields
    return written(home / ".kube" / "kuberc", document)


def test_everything_is_well(look: Look, plugin: PluginScript) -> None:
    found = look(provideClusterInfo=True, interactiveMode="IfAvailable")
    found.fine()
    said = found.one("plugin")
    assert said.summary.startswith(f"{plugin.path}: v1, interactiveMode IfAvailable with ")
    assert said.summary.endswith("is told about the cluster")
    assert said.facts["found"] == str(plugin.path)
    assert found.one("credential").summary.startswith(f"token from plugin {plugin.path} in ")
    assert found.one("credential").summary.endswith("15 min left")
    assert found.one("credential").facts["kind"] == ["token"]
    assert found.one("whoami").summary == "alice"
    assert len(plugin.runs) == 1
    assert plugin.runs[0].info["spec"]["cluster"]["server"]


def test_what_it_must_be_told_cannot_be_read(server: APIServer, plugin: PluginScript, tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    cluster = {"certificate-authority-data": "", "certificate-authority": "ca"}
    document = server.kubeconfig({"exec": plugin.exec_config(provideClusterInfo=True)}, cluster)
    found = examined(kubeconfig=written(tmp_path / "config", document))
    found.bad("tls", "ca", "credential")
    assert "failed to load CA bundle" in found.one("credential").summary


class TestFinding:
    def test_one_that_is_not_installed(self, look: Look) -> None:
        found = look(command="acme-login-not-installed", installHint="Get it at https://acme.example\x1b[31m")
        wrong = found.bad("plugin")
        assert wrong.summary == "acme-login-not-installed: executable file not found in $PATH"
        assert wrong.next_step == "Get it at https://acme.exampleU+001B[31m"
        assert found.one("credential").summary == "the plugin cannot be found"
        assert found.one("whoami").summary == "there is no credential to show"
        # What needs no credential is still known.
        assert found.levels["tls"] is found.levels["clock"] is Level.OK

    def test_one_that_is_not_installed_and_has_no_hint(self, look: Look) -> None:
        assert "PATH" in look(command="acme-login-not-installed").bad("plugin").next_step

    @pytest.mark.parametrize("command", ["acme-login", "./acme-login"])
    def test_one_with_its_arguments_behind_it(self, look: Look, command: str) -> None:
        found = look(command=f"{command} --password {SENTINEL}", installHint="Install it")
        wrong = found.bad("plugin")
        assert "put what comes behind its name into args" in wrong.next_step
        assert "acme-login <hidden>" in found.one("entries").summary

    def test_a_path_that_leads_nowhere(self, look: Look, tmp_path: Path) -> None:
        wrong = look(command="./bin/acme-login").bad("plugin")
        assert wrong.summary == f"{tmp_path}/bin/acme-login: no such file or directory"
        assert "the kubeconfig's directory" in wrong.next_step

    def test_one_that_may_not_be_executed(self, look: Look, plugin: PluginScript) -> None:
        plugin.path.chmod(0o600)
        wrong = look(installHint="Install it").bad("plugin")
        assert wrong.summary.endswith("permission denied")
        assert wrong.next_step == f"Run: chmod +x {shlex.quote(str(plugin.path))}"

    def test_a_directory_with_a_space_is_not_an_argument(self, look: Look, tmp_path: Path) -> None:
        directory = tmp_path / "Program Files of acme"
        directory.mkdir()
        locked = directory / "acme login"
        locked.touch(0o600)
        wrong = look(command=str(locked)).bad("plugin")
        assert wrong.next_step == f"Run: chmod +x {shlex.quote(str(locked))}"
        wrong = look(command=f"{directory}/missing/acme-login").bad("plugin")
        assert wrong.summary == f"{directory}/missing/acme-login: no such file or directory"
        found = look(command=f"{directory}/acme-login --password {SENTINEL}")
        assert found.bad("plugin").summary == f"{directory}/acme-login <hidden>: no such file or directory"
        assert "put what comes behind its name into args" in found.bad("plugin").next_step

    def test_one_on_the_path(self, look: Look, plugin: PluginScript, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(plugin.path.parent))
        assert look(command="acme-login").one("plugin").facts["found"] == str(plugin.path)

    def test_one_that_is_no_program(self, look: Look, plugin: PluginScript) -> None:
        plugin.path.write_text("no interpreter here")
        wrong = look().bad("credential")
        assert "exec format error" in wrong.summary
        assert "#!" in wrong.next_step

    def test_a_version_that_nobody_speaks(self, look: Look, plugin: PluginScript) -> None:
        found = look(apiVersion="client.authentication.k8s.io/v1alpha1")
        assert "v1alpha1" in found.bad("plugin").summary
        assert V1 in found.bad("plugin").next_step
        assert plugin.runs == []

    def test_one_that_needs_a_terminal(self, look: Look, plugin: PluginScript) -> None:
        if sys.__stdin__ is not None and sys.__stdin__.isatty():
            pytest.skip("there is one")
        found = look(interactiveMode="Always")
        wrong = found.bad("plugin")
        assert "standard input is not a terminal" in wrong.summary
        assert "Run this on a terminal" in wrong.next_step
        assert found.one("credential").summary == "the plugin cannot be run"
        assert plugin.runs == []


class TestPolicy:
    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        return tmp_path / "home"

    def test_none(self, look: Look, home: Path) -> None:
        assert (
            look().one("policy").summary
            == f"AllowAll: no kuberc at {home}/.kube/kuberc; every plugin may run"
        )

    def test_switched_off(self, look: Look, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kuberc(home, credentialPluginPolicy="DenyAll")
        monkeypatch.setenv("KUBERC", "off")
        assert look().one("policy").summary == "AllowAll: no kuberc (KUBERC=off); every plugin may run"
        monkeypatch.setenv("KUBECTL_KUBERC", "False")
        assert "no kuberc (KUBECTL_KUBERC=false)" in look().one("policy").summary

    def test_another_file(self, look: Look, home: Path, tmp_path: Path, plugin: PluginScript) -> None:
        kuberc(home, credentialPluginPolicy="DenyAll")
        path = kuberc(tmp_path, credentialPluginPolicy="AllowAll")
        assert look("--kuberc", str(path)).one("policy").summary == f"AllowAll: {path}; every plugin may run"
        assert len(plugin.runs) == 1

    def test_another_file_and_switched_off(
        self, look: Look, home: Path, monkeypatch: pytest.MonkeyPatch, plugin: PluginScript
    ) -> None:
        monkeypatch.setenv("KUBERC", "off")
        wrong = look("--kuberc", str(home)).bad("policy")
        assert "--kuberc and KUBERC=off are mutually exclusive; so no plugin is run" in wrong.summary
        assert plugin.runs == []

    def test_no_home(self, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HOME")
        assert "no kuberc, as there is no home directory" in look().one("policy").summary

    def test_deny_all(self, look: Look, home: Path, plugin: PluginScript) -> None:
        path = kuberc(home, credentialPluginPolicy="DenyAll")
        found = look()
        wrong = found.bad("policy")
        assert wrong.summary.startswith(f"DenyAll: {path}; plugin ")
        assert wrong.next_step == f"If it should run, change credentialPluginPolicy in {path}."
        assert found.one("credential").summary == "the policy does not allow the plugin"
        assert found.levels["plugin"] is Level.OK
        assert plugin.runs == []

    def test_an_allowlist_without_it(self, look: Look, home: Path, plugin: PluginScript) -> None:
        kuberc(home, credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{"command": "aws"}])
        wrong = look().bad("policy")
        assert wrong.summary.startswith("Allowlist (aws): ")
        assert f"command: {plugin.path}" in wrong.next_step
        assert plugin.runs == []

    def test_an_allowlist_with_it(self, look: Look, home: Path, plugin: PluginScript) -> None:
        allowed = [{"command": "aws"}, {"command": str(plugin.path)}]
        kuberc(home, credentialPluginPolicy="Allowlist", credentialPluginAllowlist=allowed)
        found = look()
        found.fine()
        assert found.one("policy").summary.endswith(f"{plugin.path} may run")

    def test_an_allowlist_for_what_is_not_there(self, look: Look, home: Path) -> None:
        kuberc(home, credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{"command": "aws"}])
        found = look(command="acme-login-not-installed")
        found.bad("plugin")
        assert found.levels["policy"] is Level.SKIPPED

    @pytest.mark.parametrize("text", ["[", "kind: Other", "credentialPluginPolicy: 5"])
    def test_one_that_cannot_be_read_allows_nothing(
        self, look: Look, home: Path, plugin: PluginScript, text: str
    ) -> None:
        written(home / ".kube" / "kuberc", text)
        found = look()
        wrong = found.bad("policy")
        assert "so no plugin is run" in wrong.summary
        assert "KUBERC=off" in wrong.next_step
        assert plugin.runs == []
        # The rest is looked at all the same.
        assert found.levels["tls"] is Level.OK

    def test_one_that_cannot_be_read_and_does_not_matter(
        self, server: APIServer, home: Path, tmp_path: Path
    ) -> None:
        written(home / ".kube" / "kuberc", "[")
        found = examined(kubeconfig=written(tmp_path / "config", server.kubeconfig({"token": TOKEN})))
        found.fine("policy")
        assert "no plugin is in use here" in found.warned("policy").summary


class TestRunning:
    def test_one_that_fails(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(exit_code=3, stderr="one\ntwo\nthree\x1b[2J\nyour session is over: run acme login\n")
        found = look()
        wrong = found.bad("credential")
        assert "failed with exit code 3; stderr: two / threeU+001B[2J / your session is over" in wrong.summary
        assert wrong.facts["exit_code"] == 3
        assert "by hand" in wrong.next_step
        assert found.one("whoami").summary == "there is no credential to show"

    @pytest.mark.parametrize(
        "args", [["--password", SENTINEL], [f"--password={SENTINEL}"], ["-p", f"x\n{SENTINEL}"]]
    )
    def test_one_that_repeats_what_it_was_told(
        self, look: Look, plugin: PluginScript, args: list[str]
    ) -> None:
        plugin.answer(exit_code=2, stderr=f"usage: login --password {SENTINEL} in {SENTINEL}-env\n")
        wrong = look(args=args, env=[{"name": "PASSWORD", "value": f"{SENTINEL}-env"}]).bad("credential")
        assert wrong.summary.endswith("stderr: usage: login --password <hidden> in <hidden>")

    def test_a_name_that_is_an_argument_too_is_shown(
        self, server: APIServer, plugin: PluginScript, tmp_path: Path
    ) -> None:
        document = server.kubeconfig({"exec": plugin.exec_config(["--cluster", "local-cluster"])})
        document["contexts"][0]["name"] = document["current-context"] = "local-cluster"
        found = examined(kubeconfig=written(tmp_path / "config", document))
        assert found.one("context").summary.startswith("local-cluster (")

    def test_one_that_fails_without_a_word(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(exit_code=1)
        wrong = look().bad("credential")
        assert wrong.summary.endswith("failed with exit code 1; its output, if any, is above")
        assert wrong.next_step == "Run the command of users[].user.exec by hand to see why."

    def test_one_that_is_ended_by_a_signal(self, look: Look, plugin: PluginScript) -> None:
        plugin.path.write_text("#!/bin/sh\nkill -9 $$\n")
        assert (
            look().bad("credential").summary.endswith("was killed by a signal; its output, if any, is above")
        )

    def test_one_that_repeats_the_token_it_was_given(
        self, server: APIServer, plugin: PluginScript, tmp_path: Path
    ) -> None:
        """Also a token of the kubeconfig that is not even in use."""
        plugin.answer(token=TOKEN, expires_in=-60, stderr=f"here it is: {TOKEN}\n")
        user = {"exec": plugin.exec_config()}
        examined(kubeconfig=written(tmp_path / "config", server.kubeconfig(user))).bad("credential")

    def test_one_that_hangs(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(sleep=20)
        wrong = look("--plugin-timeout=300ms").bad("credential")
        assert "timed out after 0.3 s" in wrong.summary
        assert "--plugin-timeout" in wrong.next_step

    def test_one_that_is_not_run(self, look: Look, plugin: PluginScript) -> None:
        found = look("--no-exec")
        found.fine()
        assert found.one("credential").summary == "--no-exec"
        assert found.levels["plugin"] is found.levels["tls"] is Level.OK
        assert look("--offline").one("credential").summary == "--offline"
        assert plugin.runs == []

    def test_one_that_is_never_asked(self, server: APIServer, plugin: PluginScript, tmp_path: Path) -> None:
        user = {"exec": plugin.exec_config(), "token": TOKEN}
        found = examined(kubeconfig=written(tmp_path / "config", server.kubeconfig(user)))
        found.fine()
        assert "never run: the user's own credential wins" in found.one("plugin").summary
        assert found.one("credential").summary.startswith("token: ")
        assert plugin.runs == []


class TestAnswers:
    def test_garbage(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(stdout=f"Welcome! {SENTINEL}\n")
        assert "one ExecCredential" in look().bad("credential").next_step

    def test_nothing(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(stdout="")
        assert "one ExecCredential" in look().bad("credential").next_step

    def test_another_version(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(token=TOKEN, api_version="client.authentication.k8s.io/v1beta1")
        wrong = look().bad("credential")
        assert "plugin returned version client.authentication.k8s.io/v1beta1" in wrong.summary
        assert "apiVersion" in wrong.next_step

    def test_a_certificate_without_its_key(
        self, look: Look, plugin: PluginScript, authority: Authority
    ) -> None:
        plugin.answer(certificate=authority.client("alice").certificate)
        assert "only certificate or key" in look().bad("credential").summary

    def test_a_key_that_is_another_s(self, look: Look, plugin: PluginScript, authority: Authority) -> None:
        plugin.answer(certificate=authority.client("alice").certificate, key=authority.client("bob").key)
        assert "the private key does not match the certificate" in look().bad("credential").summary

    def test_a_token_that_cannot_be_sent(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(token=f"{TOKEN}\n")
        assert "line break" in look().bad("credential").summary

    def test_over_on_arrival(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(token=TOKEN, expires_in=-180)
        wrong = look().bad("credential")
        assert "the credential ended 3 min ago" in wrong.summary
        assert "Log in again" in wrong.next_step

    def test_no_end(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(token=TOKEN)
        found = look()
        found.fine("credential")
        assert "does not say when it ends, so it is kept until" in found.warned("credential").summary

    def test_an_end_that_is_near(self, look: Look, plugin: PluginScript) -> None:
        plugin.answer(token=TOKEN, expires_in=20)
        found = look()
        found.fine("credential")
        assert "only " in found.warned("credential").summary

    def test_a_certificate(self, look: Look, plugin: PluginScript, authority: Authority) -> None:
        pair = authority.client("alice", not_after=NOW + 2 * HOUR)
        plugin.answer(certificate=pair.certificate, key=pair.key, expires_in=3600)
        found = look()
        found.fine()
        assert found.one("credential").summary.startswith("client certificate from plugin ")
        assert found.one("credential").summary.endswith("; the key belongs to the certificate")
        assert found.one("credential").facts["key_matches"] is True
        assert found.one("whoami").summary == "alice"

    def test_a_certificate_that_ends_before_it_is_said_to(
        self, look: Look, plugin: PluginScript, authority: Authority
    ) -> None:
        pair = authority.client("alice", not_after=NOW + HOUR)
        plugin.answer(certificate=pair.certificate, key=pair.key, expires_in=3 * 3600)
        found = look()
        found.fine("credential")
        assert "the certificate in it ends 2 hours before" in found.warned("credential").summary

    def test_a_certificate_that_says_more_than_the_plugin(
        self, look: Look, plugin: PluginScript, authority: Authority
    ) -> None:
        pair = authority.client("alice", not_after=NOW + 3 * HOUR)
        plugin.answer(certificate=pair.certificate, key=pair.key)
        assert "(the certificate in it 3 hours left)" in look().warned("credential").summary

    @pytest.mark.parametrize(
        ("begins", "ends", "said"),
        [(NOW - 3 * HOUR, NOW - 2 * HOUR, "the certificate in it ended 2 hours ago"),
         (NOW + HOUR, NOW + 2 * HOUR, "the certificate in it begins only at ")],
    )  # fmt: skip
    def test_a_certificate_that_does_not_count_now(
        self,
        look: Look,
        plugin: PluginScript,
        authority: Authority,
        begins: datetime.datetime,
        ends: datetime.datetime,
        said: str,
    ) -> None:
        pair = authority.client("alice", not_before=begins, not_after=ends)
        plugin.answer(certificate=pair.certificate, key=pair.key, expires_in=3600)
        found = look()
        assert said in found.one("credential").summary
        found.bad("credential", "whoami")

    def test_a_token_that_ends_before_it_is_said_to(
        self, server: APIServer, look: Look, plugin: PluginScript
    ) -> None:
        token = jwt(exp=time.time() + 3600)
        server.tokens[token] = "alice"
        plugin.answer(token=token, expires_in=3 * 3600)
        assert "the token in it ends 2 hours before" in look().warned("credential").summary
