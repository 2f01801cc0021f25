"""PluginPolicy (P4-P10, P14): client-go's matrix (T26) and metrics (T41-T44), kubectl's cases (T59-T62, T71)."""

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
from tests.conformance.plugins import RecordingObserver, exec_config, exec_entry, make_plugin, metrics_delta
from tests.support.shell_plugin import ShellPlugin, credential

RELATIVE = "testdata/exec-plugin.sh"


@pytest.fixture
def binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on PATH with two plugins."""
    (tmp_path / "bin").mkdir()
    ShellPlugin(tmp_path / "bin", name="plug")
    ShellPlugin(tmp_path / "bin", name="other")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path / "bin"


@pytest.fixture
def testdata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellPlugin:
    """A plugin at a relative path, as in the tests of client-go."""
    (tmp_path / "testdata").mkdir()
    monkeypatch.chdir(tmp_path)
    return ShellPlugin(tmp_path / "testdata", credential("alices-token"), name="exec-plugin.sh")


POLICIES = ["", "AllowAll", "DenyAll", "Allowlist", "bogus"]


@pytest.mark.parametrize("policy", POLICIES)
def test_policy_matrix_t26_p4_p5(binaries: Path, policy: str) -> None:
    """Plugin and allowlist entry exist or not, are names or paths, in lists of several lengths: 64 cases a policy."""
    outcomes: dict[str, int] = {}
    flags = (True, False)

    for plugin_exists, entry_exists, plugin_is_path, entry_is_path, length in itertools.product(
        flags, flags, flags, flags, (None, 0, 1, 3)
    ):
        name = "plug" if plugin_exists else "missing"
        command = str(binaries / name) if plugin_is_path else name
        entry_name = name if entry_exists else "absent"
        entry = str(binaries / entry_name) if entry_is_path else entry_name
        entries = None if length is None else [[], [entry], [], ["/no/such", entry, "nothing"]][length]
        result = run_with_policy(policy, entries, command)
        outcomes[result] = outcomes.get(result, 0) + 1
        assert result in expected_outcomes(policy, entries, plugin_exists, entry_exists), (
            policy,
            entries,
            command,
        )

    assert sum(outcomes.values()) == 64
    assert len(outcomes) > 1 or policy == "bogus"


def run_with_policy(policy: str, entries: list[str] | None, command: str) -> str:
    if problem := find_policy_problem(policy, entries):
        return "unknown" if problem.startswith("unknown plugin policy") else "inconsistent"
    try:
        make_plugin(exec_config(command, policy=PluginPolicy(policy, tuple(entries or ())))).fetch()
    except PluginNotFound:
        return "not found"
    except PluginNotAllowed as error:
        for text in ('policy set to "DenyAll"', "is not permitted", "cannot be resolved"):
            if text in str(error):
                return text
        raise
    return "ok"


def expected_outcomes(
    policy: str, entries: list[str] | None, plugin_exists: bool, entry_exists: bool
) -> set[str]:
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
    return {"not found", "cannot be resolved"}  # client-go expects any error


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
    def test_each_policy_check_is_counted_t41_t42_t43_t44_m3_p9(
        self, testdata: ShellPlugin, policy: PluginPolicy, allowed: bool
    ) -> None:
        """The cleaned path is compared on every run; a denied plugin is not started and not counted as a call."""
        observer = RecordingObserver()
        plugin = make_plugin(exec_config(f"./{RELATIVE}", policy=policy), observer)

        for _ in range(2):
            if allowed:
                plugin.fetch()
            else:
                with pytest.raises(PluginNotAllowed):
                    plugin.fetch()

        assert observer.policy_checks == [allowed] * 2
        assert len(observer.calls) == len(testdata.exec_infos) == (2 if allowed else 0)

    def test_policy_metric_is_exported_with_one_label_m5(
        self, server: APIServer, testdata: ShellPlugin
    ) -> None:
        """client-go declares two labels but sets one, so that its metric is never exported."""
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


# Calls by status and exit code, and policy checks.
DENIED: tuple[dict[tuple[str, str], int], dict[str, int]] = ({}, {"denied": 1})
OK = ({("no_error", "0"): 1}, {"allowed": 1})


@pytest.mark.parametrize(
    ("command", "policy", "error", "expected"),
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
def test_client_applies_the_policy_t56_t57_t58_t59_t60_t61_t62_p4_p5(
    server: APIServer,
    testdata: ShellPlugin,
    command: str,
    policy: PluginPolicy | None,
    error: str,
    expected: Any,
) -> None:
    ShellPlugin(testdata.path.parent, name="not-executable").path.chmod(0o600)
    ShellPlugin(testdata.path.parent, name="fails").set_output("", exit_code=10)
    config = server.config(exec=exec_config(command, policy=policy or PluginPolicy.allow_all()))

    with metrics_delta() as metrics, kubeauth.Client(config) as client:
        if error:
            with pytest.raises(KubeAuthError) as caught:
                client.get("/version")
            assert str(caught.value).startswith(f"getting credentials: {error}")
        else:
            assert client.get("/version").status_code == 200

    assert (metrics.calls, metrics.policy) == expected


class TestAllowlist:
    def fetch(self, command: str | Path, *entries: str | Path) -> None:
        make_plugin(
            exec_config(command, policy=PluginPolicy.allowlist([str(each) for each in entries]))
        ).fetch()

    def test_entries_are_compared_as_text_p6(self, binaries: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(binaries / "plug")
        os.link(binaries / "plug", tmp_path / "hard")

        for entry in (tmp_path / "link", tmp_path / "hard", binaries / "PLUG"):
            with pytest.raises(PluginNotAllowed, match="is not permitted"):
                self.fetch(binaries / "plug", entry)
        self.fetch(tmp_path / "link", tmp_path / "link")

    def test_arguments_and_environment_are_ignored_p6(self, binaries: Path) -> None:
        policy = PluginPolicy.allowlist(["plug"])
        make_plugin(exec_config("plug", args=["--anything"], env={"A": "b"}, policy=policy)).fetch()

    def test_a_name_matches_the_path_it_resolves_to_p5_p7(self, binaries: Path, tmp_path: Path) -> None:
        self.fetch("plug", "plug")
        self.fetch(binaries / "plug", "plug")
        self.fetch("plug", binaries / "plug")
        (tmp_path / "not-on-path").mkdir()
        not_on_path = ShellPlugin(tmp_path / "not-on-path", name="plug").path

        with pytest.raises(PluginNotAllowed, match="is not permitted"):
            self.fetch(not_on_path, "plug")
        with pytest.raises(PluginNotAllowed, match="is not permitted"):
            self.fetch("plug", not_on_path)
        with pytest.raises(PluginNotAllowed, match="is not permitted"):
            self.fetch("plug", "other")

    def test_a_missing_command_is_not_found_or_cannot_be_resolved_p5(self, binaries: Path) -> None:
        """Not found if the entry is the same text; otherwise it cannot be resolved to compare it."""
        with pytest.raises(PluginNotFound):
            self.fetch("missing", "missing")
        with pytest.raises(
            PluginNotAllowed,
            match='plugin path "missing" cannot be resolved for credential plugin allowlist check',
        ):
            self.fetch("missing", binaries / "missing")
        with pytest.raises(PluginNotAllowed, match="cannot be resolved"):
            self.fetch(binaries / "missing", "missing")

    def test_a_resolved_command_stays_allowed_p8(
        self, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plugin = make_plugin(exec_config(binaries / "plug", policy=PluginPolicy.allowlist(["plug"])))
        plugin.fetch()
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        plugin.fetch()

        with pytest.raises(PluginNotAllowed):
            self.fetch(binaries / "plug", "plug")  # another Plugin resolves it again

    def test_the_allowed_path_is_the_one_that_runs_p5(
        self, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rather than the file that PATH in the environment of the plugin finds."""
        (tmp_path / "evil").mkdir()
        ShellPlugin(tmp_path / "evil", credential("evil"), name="plug")
        env = {"PATH": f"{tmp_path}/evil:/usr/bin:/bin"}
        policy = PluginPolicy.allowlist([str(binaries / "plug")])
        fetched = make_plugin(exec_config("plug", env=env, policy=policy)).fetch()

        assert fetched.token is not None
        assert fetched.token.reveal() == "foo-bar"

    def test_different_policies_have_different_sources_p10(self, server: APIServer, binaries: Path) -> None:
        """A denied client neither blocks an allowed one nor uses its token."""
        allowed = server.config(exec=exec_config("plug"))
        denied = server.config(exec=exec_config("plug", policy=PluginPolicy.deny_all()))

        with kubeauth.Client(allowed) as one, kubeauth.Client(denied) as two:
            one.get("/version")
            with pytest.raises(PluginNotAllowed):
                two.get("/version")
            one.get("/version")


class TestKuberc:
    @pytest.mark.parametrize(
        ("policy", "error"),
        [
            pytest.param({"credentialPluginPolicy": "DenyAll"}, 'policy set to "DenyAll"', id="DenyAll"),
            pytest.param({"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "abc123"}, {"command": "foobar"}]}, "is not permitted", id="not listed"),
            pytest.param({"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": "foobar"}, {"command": "plug"}]}, "", id="listed"),
            pytest.param({}, "", id="no policy"),
            pytest.param({"credentialPluginPolicy": "AllowAll"}, "", id="AllowAll"),
        ],
    )  # fmt: skip
    def test_kuberc_policy_is_applied_t71_p14(
        self, server: APIServer, binaries: Path, policy: dict[str, Any], error: str
    ) -> None:
        self.write_kuberc(policy)
        # Loading the configuration does not apply the policy.
        config = kubeauth.load_config(server.kubeconfig({"exec": exec_entry("plug")}))

        with kubeauth.Client(config) as client:
            # Nor does a request that needs no plugin.
            client.get("/version", headers={"Authorization": "Bearer mine"})
            if error:
                with pytest.raises(PluginNotAllowed, match=error):
                    client.get("/version")
            else:
                client.get("/version")

        assert len(server.requests) == (1 if error else 2)

    def test_an_invalid_kuberc_policy_is_an_error_t71(self, server: APIServer, binaries: Path) -> None:
        self.write_kuberc(
            {"credentialPluginPolicy": "AllowAll", "credentialPluginAllowlist": [{"command": "plug"}]}
        )
        with pytest.raises(KubeConfigError, match="misconfigured credential plugin allowlist"):
            kubeauth.load_config(server.kubeconfig({"exec": exec_entry("plug")}))
        kubeauth.load_config(server.kubeconfig({"token": "t"}))

    def write_kuberc(self, policy: dict[str, Any]) -> None:
        path = Path(os.environ["HOME"], ".kube", "kuberc")
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            yaml.safe_dump({"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference", **policy})
        )
