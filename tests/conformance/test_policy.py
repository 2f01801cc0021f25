"""Which plugins may be run (P4-P10, P14): upstream's matrix (T26), its metrics (T41-T44), kubectl's (T59-T62, T71)."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubeauth
from kubeauth import PluginPolicy
from kubeauth._exec.config import find_policy_problem
from kubeauth.errors import KubeAuthError, KubeConfigError, PluginNotAllowed, PluginNotFound
from kubeauth.testing import APIServer
from tests.conformance.plugins import Seen, ShellPlugin, counted, credential, exec_config, plugin, stanza_of

RELATIVE = "testdata/exec-plugin.sh"


@pytest.fixture
def binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on PATH, with one plugin in it."""
    (tmp_path / "bin").mkdir()
    ShellPlugin(tmp_path / "bin", name="plug")
    ShellPlugin(tmp_path / "bin", name="other")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path / "bin"


@pytest.fixture
def testdata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellPlugin:
    """A plugin at a relative path, as upstream has it."""
    (tmp_path / "testdata").mkdir()
    monkeypatch.chdir(tmp_path)
    return ShellPlugin(tmp_path / "testdata", credential("alices-token"), name="exec-plugin.sh")


POLICIES = ["", "AllowAll", "DenyAll", "Allowlist", "bogus"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_matrix_t26_p4_p5(binaries: Path, policy: str) -> None:
    """Whether the plugin and its entry exist, as a name or a path, in which list, under which policy: 320."""
    said: dict[str, int] = {}
    flags = (True, False)
    for plugin_exists, entry_exists, plugin_is_path, entry_is_path, length in itertools.product(
        flags, flags, flags, flags, (None, 0, 1, 3)
    ):
        name = "plug" if plugin_exists else "missing"
        command = str(binaries / name) if plugin_is_path else name
        entry_name = name if entry_exists else "nobody"
        entry = str(binaries / entry_name) if entry_is_path else entry_name
        entries = None if length is None else [[], [entry], [], ["/no/such", entry, "nothing"]][length]
        result = outcome(policy, entries, command)
        said[result] = said.get(result, 0) + 1
        assert result in expected(policy, entries, plugin_exists, entry_exists), (policy, entries, command)
    assert sum(said.values()) == 64
    assert len(said) > 1 or policy == "bogus"


def outcome(policy: str, entries: list[str] | None, command: str) -> str:
    if problem := find_policy_problem(policy, entries):
        return "unknown" if problem.startswith("unknown plugin policy") else "inconsistent"
    try:
        plugin(exec_config(command, policy=PluginPolicy(policy, tuple(entries or ())))).fetch()
    except PluginNotFound:
        return "not found"
    except PluginNotAllowed as error:
        for word in ('policy set to "DenyAll"', "is not permitted", "cannot be resolved"):
            if word in str(error):
                return word
        raise
    return "ok"


def expected(policy: str, entries: list[str] | None, plugin_exists: bool, entry_exists: bool) -> set[str]:
    if policy == "bogus":
        return {"unknown"}
    if policy != "Allowlist":
        if entries is not None:
            return {"inconsistent"}
        if policy == "DenyAll":
            return {'policy set to "DenyAll"'}
        return {"ok"} if plugin_exists else {"not found"}
    if not entries:
        return {"inconsistent"}
    if plugin_exists:
        return {"ok"} if entry_exists else {"is not permitted"}
    return {"not found", "cannot be resolved"}  # upstream wants some error


class TestMetrics:
    @pytest.mark.parametrize(
        ("policy", "allowed"),
        [
            pytest.param(PluginPolicy.allow_all(), True, id="T41"),
            pytest.param(PluginPolicy.deny_all(), False, id="T42"),
            pytest.param(PluginPolicy.allowlist(["foobar", RELATIVE]), True, id="T43"),
            pytest.param(PluginPolicy.allowlist(["foobar", "baz"]), False, id="T44"),
        ],
    )
    def test_each_answer_is_counted_t41_t42_t43_t44_m3_p9(
        self, testdata: ShellPlugin, policy: PluginPolicy, allowed: bool
    ) -> None:
        """By its cleaned form, and on every run; a denial starts nothing, and is no call."""
        seen = Seen()
        asked = plugin(exec_config(f"./{RELATIVE}", policy=policy), seen)
        for _ in range(2):
            if allowed:
                asked.fetch()
            else:
                with pytest.raises(PluginNotAllowed):
                    asked.fetch()
        assert seen.policy == [allowed] * 2
        assert len(seen.calls) == len(testdata.infos) == (2 if allowed else 0)

    def test_one_label_m5(self, server: APIServer, testdata: ShellPlugin) -> None:
        """client-go declares two names for it and gives one value, so that it is never exported."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        kubeauth.metrics.register(registry)
        config = server.config(exec=exec_config(testdata.path, policy=PluginPolicy.deny_all()))
        before = registry.get_sample_value("rest_client_exec_plugin_policy_call_total", {"status": "denied"})
        with kubeauth.Client(config) as client, pytest.raises(PluginNotAllowed):
            client.get("/version")
        after = registry.get_sample_value("rest_client_exec_plugin_policy_call_total", {"status": "denied"})
        assert before is not None
        assert after == before + 1
        assert b'rest_client_exec_plugin_policy_call_total{status="allowed"}' in generate_latest(registry)


# What the request ends with, calls, policy.
DENIED: tuple[dict[tuple[str, str], int], dict[str, int]] = ({}, {"denied": 1})
OK = ({("no_error", "0"): 1}, {"allowed": 1})


@pytest.mark.parametrize(
    ("command", "policy", "why", "count"),
    [
        pytest.param("does not exist", None, "exec: executable does not exist not found", ({("plugin_not_found_error", "1"): 1}, {"allowed": 1}), id="T56"),
        pytest.param("testdata/not-executable", None, "exec: testdata/not-executable: permission denied", ({("plugin_not_found_error", "1"): 1}, {"allowed": 1}), id="T57"),
        pytest.param("testdata/fails", None, "exec: executable testdata/fails failed with exit code 10", ({("plugin_execution_error", "10"): 1}, {"allowed": 1}), id="T58"),
        pytest.param(RELATIVE, PluginPolicy.deny_all(), f'plugin "{RELATIVE}" not allowed: policy set to "DenyAll"', DENIED, id="T59"),
        pytest.param(RELATIVE, PluginPolicy.allowlist(["foobar"]), f'plugin path "{RELATIVE}" is not permitted by the credential plugin allowlist', DENIED, id="T60"),
        pytest.param(RELATIVE, PluginPolicy.allow_all(), "", OK, id="T61"),
        pytest.param(RELATIVE, PluginPolicy.allowlist([RELATIVE]), "", OK, id="T62"),
    ],
)  # fmt: skip
def test_by_a_client_t56_t57_t58_t59_t60_t61_t62_p4_p5(
    server: APIServer, testdata: ShellPlugin, command: str, policy: PluginPolicy | None, why: str, count: Any
) -> None:
    ShellPlugin(testdata.path.parent, name="not-executable").path.chmod(0o600)
    ShellPlugin(testdata.path.parent, name="fails").says("", exit_code=10)
    config = server.config(exec=exec_config(command, policy=policy or PluginPolicy.allow_all()))
    with counted() as counts, kubeauth.Client(config) as client:
        if why:
            with pytest.raises(KubeAuthError) as caught:
                client.get("/version")
            assert str(caught.value).startswith(f"getting credentials: {why}")
        else:
            assert client.get("/version").status_code == 200
    assert (counts.calls, counts.policy) == count


class TestMatching:
    def fetch(self, command: str | Path, *entries: str | Path) -> None:
        plugin(exec_config(command, policy=PluginPolicy.allowlist([str(each) for each in entries]))).fetch()

    def test_text_and_nothing_else_p6(self, binaries: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(binaries / "plug")
        os.link(binaries / "plug", tmp_path / "hard")
        for entry in (tmp_path / "link", tmp_path / "hard", binaries / "PLUG"):
            with pytest.raises(PluginNotAllowed, match="is not permitted"):
                self.fetch(binaries / "plug", entry)
        self.fetch(tmp_path / "link", tmp_path / "link")

    def test_arguments_and_environment_have_no_part_p6(self, binaries: Path) -> None:
        policy = PluginPolicy.allowlist(["plug"])
        plugin(exec_config("plug", args=["--anything"], env={"A": "b"}, policy=policy)).fetch()

    def test_a_name_and_a_path_p5_p7(self, binaries: Path, tmp_path: Path) -> None:
        self.fetch("plug", "plug")  # whatever PATH leads to
        self.fetch(binaries / "plug", "plug")  # if PATH leads there
        self.fetch("plug", binaries / "plug")
        (tmp_path / "elsewhere").mkdir()
        elsewhere = ShellPlugin(tmp_path / "elsewhere", name="plug").path
        with pytest.raises(PluginNotAllowed, match="is not permitted"):
            self.fetch(elsewhere, "plug")
        with pytest.raises(PluginNotAllowed, match="is not permitted"):
            self.fetch("plug", elsewhere)
        with pytest.raises(PluginNotAllowed, match="is not permitted"):
            self.fetch("plug", "other")

    def test_what_is_not_there_p5(self, binaries: Path) -> None:
        """Listed literally, it passes and is not found; else it cannot be resolved."""
        with pytest.raises(PluginNotFound):
            self.fetch("missing", "missing")
        with pytest.raises(
            PluginNotAllowed,
            match='plugin path "missing" cannot be resolved for credential plugin allowlist check',
        ):
            self.fetch("missing", binaries / "missing")
        with pytest.raises(PluginNotAllowed, match="cannot be resolved"):
            self.fetch(binaries / "missing", "missing")

    def test_what_was_resolved_once_stays_allowed_p8(
        self, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = plugin(exec_config(binaries / "plug", policy=PluginPolicy.allowlist(["plug"])))
        asked.fetch()
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        asked.fetch()
        with pytest.raises(PluginNotAllowed):
            self.fetch(binaries / "plug", "plug")  # another plugin finds out for itself

    def test_what_was_allowed_is_what_is_run_p5(
        self, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And not what PATH of the plugin's environment has under that name."""
        (tmp_path / "evil").mkdir()
        ShellPlugin(tmp_path / "evil", credential("evil"), name="plug")
        env = {"PATH": f"{tmp_path}/evil:/usr/bin:/bin"}
        policy = PluginPolicy.allowlist([str(binaries / "plug")])
        answer = plugin(exec_config("plug", env=env, policy=policy)).fetch()
        assert answer.token is not None
        assert answer.token.reveal() == "foo-bar"

    def test_another_policy_is_another_source_p10(self, server: APIServer, binaries: Path) -> None:
        """A denial of one does not hold up the other, nor lends the other's token."""
        allowed = server.config(exec=exec_config("plug"))
        denied = server.config(exec=exec_config("plug", policy=PluginPolicy.deny_all()))
        with kubeauth.Client(allowed) as one, kubeauth.Client(denied) as two:
            one.get("/version")
            with pytest.raises(PluginNotAllowed):
                two.get("/version")
            one.get("/version")


class TestKuberc:
    @pytest.mark.parametrize(
        ("policy", "why"),
        [
            pytest.param({"credentialPluginPolicy": "DenyAll"}, 'policy set to "DenyAll"', id="deny"),
            pytest.param({"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "abc123"}, {"command": "foobar"}]}, "is not permitted", id="other"),
            pytest.param({"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "foobar"}, {"command": "plug"}]}, "", id="listed"),
            pytest.param({}, "", id="none"),
            pytest.param({"credentialPluginPolicy": "AllowAll"}, "", id="all"),
        ],
    )  # fmt: skip
    def test_the_users_own_policy_t71_p14(
        self, server: APIServer, binaries: Path, policy: dict[str, Any], why: str
    ) -> None:
        self.write(policy)
        # Whoever only looks at the configuration is not affected.
        config = kubeauth.load_config(server.kubeconfig({"exec": stanza_of("plug")}))
        with kubeauth.Client(config) as client:
            # Nor is a request that needs no plugin.
            client.get("/version", headers={"Authorization": "Bearer mine"})
            if why:
                with pytest.raises(PluginNotAllowed, match=why):
                    client.get("/version")
            else:
                client.get("/version")
        assert len(server.requests) == (1 if why else 2)

    def test_a_policy_that_is_none_t71(self, server: APIServer, binaries: Path) -> None:
        self.write({"credentialPluginPolicy": "AllowAll", "credentialPluginAllowlist": [{"command": "plug"}]})
        with pytest.raises(KubeConfigError, match="misconfigured credential plugin allowlist"):
            kubeauth.load_config(server.kubeconfig({"exec": stanza_of("plug")}))
        kubeauth.load_config(server.kubeconfig({"token": "t"}))

    def write(self, policy: dict[str, Any]) -> None:
        path = Path(os.environ["HOME"], ".kube", "kuberc")
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            yaml.safe_dump({"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference", **policy})
        )
