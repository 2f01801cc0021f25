"""One run of a plugin: what it is told, where it is found, what its end means (X1-X28, T2-T25, T81-T91, T97).

The tables of client-go's exec_test.go (TestRefreshCreds), each row under its number.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth import ExecOptions, PluginPolicy
from kubeauth._exec.codec import ProviderCredential
from kubeauth._exec.config import ExecCluster
from kubeauth._exec.lookup import HintLimit
from kubeauth._exec.plugin import Plugin
from kubeauth.errors import (
    ConfigError,
    KubeConfigError,
    PluginError,
    PluginFailed,
    PluginNeedsTerminal,
    PluginNotAllowed,
    PluginNotFound,
    PluginNotStarted,
    PluginOutputError,
    PluginTimeout,
)
from kubeauth.testing import APIServer, Authority, FakeClock, PluginScript
from tests.conformance.plugins import (
    V1,
    V1BETA1,
    Seen,
    ShellPlugin,
    config_of,
    configured,
    credential,
    exec_config,
    plugin,
    stanza_of,
)
from tests.support.cases import each_case

NOT_INTERACTIVE = {"kind": "ExecCredential", "apiVersion": V1BETA1, "spec": {"interactive": False}}
INTERACTIVE = {"kind": "ExecCredential", "apiVersion": V1BETA1, "spec": {"interactive": True}}
CLUSTER = ExecCluster(
    server="foo", tls_server_name="bar", certificate_authority_data=b"baz",
    config={"apiVersion": "group/v1", "kind": "PluginConfig", "spec": {"audience": "snorlax"}},
)  # fmt: skip
PAIR = Authority().client("carol")


def token(answer: ProviderCredential) -> str | None:
    return answer.token.reveal() if answer.token else None


def beta(path: Path, **fields: Any) -> Any:
    return exec_config(path, **({"api_version": V1BETA1} | fields))


class TestRefresh:
    def test_a_certificate_t2_x40(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path, credential(None, PAIR, version=V1BETA1))
        answer = plugin(beta(script.path)).fetch()
        assert answer.token is None
        assert answer.key is not None
        assert (answer.certificate, answer.key.reveal()) == (PAIR.certificate, PAIR.key)
        assert [json.loads(info) for info in script.infos] == [NOT_INTERACTIVE]

    @pytest.mark.parametrize(
        ("status", "why"),
        [
            pytest.param({"clientKeyData": "foo", "clientCertificateData": "bar"}, "failed parsing client key/certificate", id="T3"),
            pytest.param({"clientCertificateData": PAIR.certificate.decode()}, "only certificate or key, not both", id="T4"),
            pytest.param({}, "didn't return a token or cert/key pair", id="T19"),
        ],
    )  # fmt: skip
    def test_what_is_no_credential_t3_t4_t19(
        self, server: APIServer, tmp_path: Path, status: dict[str, Any], why: str
    ) -> None:
        script = ShellPlugin(tmp_path, credential(version=V1BETA1, **status))
        with kubeauth.Client(config_of(server, script, apiVersion=V1BETA1)) as client:
            with pytest.raises(PluginOutputError, match=why) as caught:
                client.get("/version")
        assert str(caught.value).startswith("getting credentials: ")
        assert server.requests == []

    @each_case(
        ("mode", "tty", "unavailable", "info"),
        [
            pytest.param("IfAvailable", False, False, NOT_INTERACTIVE, id="T5"),
            pytest.param("Never", False, False, NOT_INTERACTIVE, id="T6"),
            pytest.param("Never", False, True, NOT_INTERACTIVE, id="T7"),
            pytest.param("IfAvailable", False, False, NOT_INTERACTIVE, id="T8"),
            pytest.param("IfAvailable", False, True, NOT_INTERACTIVE, id="T9"),
            pytest.param("IfAvailable", True, False, INTERACTIVE, id="T10"),
            pytest.param("IfAvailable", True, True, NOT_INTERACTIVE, id="T11"),
            pytest.param("Always", True, False, INTERACTIVE, id="T15"),
        ],
    )
    def test_the_token_and_what_it_was_told_t5_t6_t7_t8_t9_t10_t11_t15_x3_x5(
        self, tmp_path: Path, mode: str, tty: bool, unavailable: bool, info: dict[str, Any]
    ) -> None:
        script = ShellPlugin(tmp_path, credential("foo-bar", version=V1BETA1))
        options = ExecOptions(stdin_unavailable=unavailable)
        asked = plugin(beta(script.path, interactive_mode=mode, options=options), tty=tty)
        for _ in range(2):  # on every run
            assert token(asked.fetch()) == "foo-bar"
        assert [json.loads(each) for each in script.infos] == [info] * 2

    @each_case(
        ("mode", "tty", "options", "why"),
        [
            pytest.param("Always", False, ExecOptions(), "standard input is not a terminal", id="T12"),
            pytest.param("Always", True, ExecOptions(stdin_unavailable=True), "standard input is unavailable", id="T13"),
            pytest.param("Always", True, ExecOptions(stdin_unavailable=True, stdin_unavailable_message="some message"), "standard input is unavailable: some message", id="T14"),
            pytest.param("Always", True, ExecOptions(stdin_unavailable=True, stdin_unavailable_message="used by stdin resource manifest reader"), "standard input is unavailable: used by stdin resource manifest reader", id="T72"),
            pytest.param("Always", False, ExecOptions(stdin_unavailable=True, stdin_unavailable_message="m"), "standard input is not a terminal", id="X20"),
            pytest.param("", False, ExecOptions(), 'unknown interactiveMode: ""', id="T25"),
            pytest.param("Sometimes", True, ExecOptions(), 'unknown interactiveMode: "Sometimes"', id="unknown"),
        ],
    )  # fmt: skip
    def test_what_needs_somebody_who_is_not_there_t12_t13_t14_t25_t72_x20_x21_x22_m3(
        self, tmp_path: Path, mode: str, tty: bool, options: ExecOptions, why: str
    ) -> None:
        script, seen = ShellPlugin(tmp_path), Seen()
        with pytest.raises(PluginNeedsTerminal) as caught:
            plugin(exec_config(script.path, interactive_mode=mode, options=options), seen, tty=tty).fetch()
        expected = f"getting credentials: exec plugin cannot support interactive mode: {why}. "
        assert str(caught.value).startswith(expected)
        # Not started, and not counted: neither as a call nor by the policy.
        assert (script.infos, seen.calls, seen.policy) == ([], [], [])

    def test_an_end_that_is_past_t16_x45(self, tmp_path: Path) -> None:
        output = credential("foo-bar", version=V1BETA1, expirationTimestamp="2006-01-02T15:04:05Z")
        script = ShellPlugin(tmp_path, output)
        answer = plugin(beta(script.path)).fetch()
        assert (token(answer), answer.expires) == ("foo-bar", 1136214245)

    @pytest.mark.parametrize(
        ("document", "why"),
        [
            pytest.param({"kind": "ExecCredential", "status": {"token": "foo-bar"}}, f"configured to use API version {V1BETA1}, plugin returned version none", id="T17"),
            pytest.param({"kind": "ExecCredential", "apiVersion": V1BETA1}, "didn't return a status field", id="T18"),
        ],
    )  # fmt: skip
    def test_what_is_missing_t17_t18_x33_x36(
        self, tmp_path: Path, document: dict[str, Any], why: str
    ) -> None:
        script = ShellPlugin(tmp_path, json.dumps(document))
        with pytest.raises(PluginOutputError, match=why):
            plugin(beta(script.path)).fetch()

    def test_an_unknown_binary_t20_x24(self) -> None:
        with pytest.raises(PluginNotFound) as caught:
            plugin(beta(Path("does not exist"), install_hint="some install hint")).fetch()
        text = str(caught.value)
        assert text.startswith("getting credentials: exec: executable does not exist not found\n\n")
        assert text.endswith("\n\nsome install hint")
        assert caught.value.install_hint == "some install hint"

    def test_a_binary_that_fails_t21_x25(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        script.says("", exit_code=73)
        with pytest.raises(PluginFailed) as caught:
            plugin(beta(script.path)).fetch()
        assert f"exec: executable {script.path} failed with exit code 73" in str(caught.value)
        assert caught.value.exit_code == 73

    @pytest.mark.parametrize("told", [pytest.param(True, id="T22"), pytest.param(False, id="T23")])
    def test_the_cluster_t22_t23_x6(self, tmp_path: Path, told: bool) -> None:
        script = ShellPlugin(tmp_path, credential("foo-bar", version=V1BETA1))
        plugin(beta(script.path, provide_cluster_info=told), cluster=CLUSTER).fetch()
        spec: dict[str, Any] = {"interactive": False}
        if told:
            spec["cluster"] = {
                "server": "foo",
                "tls-server-name": "bar",
                "certificate-authority-data": base64.b64encode(b"baz").decode(),
                "config": CLUSTER.config,
            }
        (info,) = script.infos
        assert json.loads(info) == {**NOT_INTERACTIVE, "spec": spec}

    @pytest.mark.parametrize("version", [pytest.param(V1, id="T24"), pytest.param(V1BETA1, id="T5")])
    def test_both_versions_are_one_shape_t24_x2(self, tmp_path: Path, version: str) -> None:
        script = ShellPlugin(tmp_path, credential("foo-bar", version=version))
        assert token(plugin(exec_config(script.path, api_version=version)).fetch()) == "foo-bar"
        (info,) = script.infos
        assert json.loads(info) == {**NOT_INTERACTIVE, "apiVersion": version}


class TestWhatItIsTold:
    def test_one_line_in_gos_order_and_escapes_x4_x7_t97(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        cluster = ExecCluster(
            server="https://h/<&>",
            insecure_skip_tls_verify=True,
            proxy_url="http://p",
            disable_compression=True,
        )
        plugin(exec_config(script.path, provide_cluster_info=True), cluster=cluster).fetch()
        # Where there is no extension, it is null and not left out.
        assert script.infos == [
            f'{{"kind":"ExecCredential","apiVersion":"{V1}","spec":{{"cluster":{{'
            '"server":"https://h/\\u003c\\u0026\\u003e","insecure-skip-tls-verify":true,'
            '"proxy-url":"http://p","disable-compression":true,"config":null},"interactive":false}}\n'
        ]

    @each_case(
        ("value", "written"),
        [
            ({"b": 1, "a": [None, True]}, '{"a":[null,true],"b":1}'),
            (1e3, "1000"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (1.5e-7, "1.5e-7"), (1e-6, "0.000001"),
            (-0.0, "-0"), (0.1, "0.1"), (2**64 - 1, "18446744073709551615"),
            ("<\u2028>\x7f\t\x01é😀", '"\\u003c\\u2028\\u003e\x7f\\t\\u0001é😀"'),
            ("", '""'), ([], "[]"), ({}, "{}"),
        ],
    )  # fmt: skip
    def test_the_extension_is_passed_on_as_go_writes_it_x7(
        self, tmp_path: Path, value: Any, written: str
    ) -> None:
        script = ShellPlugin(tmp_path)
        cluster = ExecCluster(server="s", config=value)
        plugin(exec_config(script.path, provide_cluster_info=True), cluster=cluster).fetch()
        assert f',"config":{written}}},"interactive"' in script.infos[0]

    def test_the_final_config_is_told_x8(
        self, server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The address without its query, the CA of a file, and no proxy that only the environment names."""
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        (tmp_path / "ca.pem").write_bytes(server.authority.pem)
        document = server.kubeconfig(
            {"exec": stanza_of("./plugin", provideClusterInfo=True)},
            {"server": f"{server.url}/prefix/?q=1#f", "certificate-authority": "ca.pem"},
        )
        del document["clusters"][0]["cluster"]["certificate-authority-data"]
        (tmp_path / "config").write_text(json.dumps(document))
        script = ShellPlugin(tmp_path)
        with kubeauth.Client(kubeauth.load_config(tmp_path / "config")) as client:
            client.get("/version")
        told = json.loads(script.infos[0])["spec"]["cluster"]
        assert told == {
            "server": f"{server.url}/prefix/",
            "certificate-authority-data": base64.b64encode(server.authority.pem).decode(),
            "config": None,
        }

    def test_a_ca_that_cannot_be_read_fails_when_the_client_is_built_x8(
        self, server: APIServer, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path)
        plug = exec_config(script.path, provide_cluster_info=True)
        config = server.config(ca_data=None, ca_file=str(tmp_path / "no"), exec=plug)
        with pytest.raises(KubeConfigError, match="failed to load CA bundle for execProvider"):
            kubeauth.Client(config)

    def test_the_ca_is_read_once_x9(self, server: APIServer, tmp_path: Path, clock: FakeClock) -> None:
        path = tmp_path / "ca.pem"
        path.write_bytes(server.authority.pem)
        script = ShellPlugin(tmp_path, credential("alices-token", expires=clock.time() + 60))
        plug = exec_config(script.path, provide_cluster_info=True)
        config = server.config(ca_data=None, ca_file=str(path), exec=plug)
        with kubeauth.Client(config, clock=clock) as client:
            client.get("/version")
            path.write_bytes(server.authority.pem + Authority("another").pem)
            clock.advance(1000)
            script.says(credential("alices-token", expires=clock.time() + 60))
            client.get("/version")
        first, second = script.infos
        assert first == second


class TestEnvironment:
    def test_the_parents_then_the_configs_then_ours_x10_x3_t90(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = PluginScript(tmp_path)
        env = {"SHARED": "config", "ONLY_CONFIG": "", "KUBERNETES_EXEC_INFO": "forged"}
        asked = plugin(exec_config(script.path, env=env))
        monkeypatch.setenv("SHARED", "parent")
        monkeypatch.setenv("KUBERNETES_EXEC_INFO", "inherited")
        monkeypatch.setenv("ONLY_PARENT", "1")
        asked.fetch()
        monkeypatch.setenv("ONLY_PARENT", "2")  # the parent's is read again for each run
        asked.fetch()
        for number, run in enumerate(script.runs, start=1):
            assert run.environment["SHARED"] == "config"
            assert run.environment["ONLY_CONFIG"] == ""
            assert run.environment["ONLY_PARENT"] == str(number)
            assert run.info["kind"] == "ExecCredential"

    def test_nothing_is_expanded_x11(self, tmp_path: Path) -> None:
        script = PluginScript(tmp_path)
        words = ["$HOME", "~", "%PATH%", "`id`", "a b", "", "*", "ünï"]
        plugin(exec_config(script.path, args=words, env={"V": "$HOME ~"})).fetch()
        (run,) = script.runs
        assert run.arguments == words
        assert run.environment["V"] == "$HOME ~"

    @pytest.mark.parametrize("fields", [{"env": {"A": "b\0c"}}, {"env": {"A\0": "b"}}, {"args": ("a\0b",)}])
    def test_a_nul_byte_is_an_internal_error_x11_m1(self, tmp_path: Path, fields: dict[str, Any]) -> None:
        script, seen = ShellPlugin(tmp_path), Seen()
        with pytest.raises(PluginNotStarted, match="NUL byte"):
            plugin(exec_config(script.path, **fields), seen).fetch()
        assert seen.calls == [("client_internal_error", 1)]
        assert seen.policy == [True]

    def test_bytes_that_are_no_text_are_passed_on_x10(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        script.path.write_text(
            f'#!/bin/sh\nprintf "%s" "$ODD" >"{tmp_path}/odd"\nprintf \'{credential("t")}\'\n'
        )
        os.environb[b"ODD"] = b"\xff\xfe"
        try:
            plugin(exec_config(script.path)).fetch()
        finally:
            del os.environb[b"ODD"]
        assert (tmp_path / "odd").read_bytes() == b"\xff\xfe"


class TestWhereItIs:
    def test_a_bare_name_by_our_own_path_x12_t91(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("ours", "theirs"):
            (tmp_path / name).mkdir()
        ShellPlugin(tmp_path / "ours", credential("ours"), name="plug")
        ShellPlugin(tmp_path / "theirs", credential("theirs"), name="plug")
        monkeypatch.setenv("PATH", f"{tmp_path}/ours:/usr/bin:/bin")
        env = {"PATH": f"{tmp_path}/theirs:/usr/bin:/bin"}
        assert token(plugin(exec_config("plug", env=env)).fetch()) == "ours"
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        with pytest.raises(PluginNotFound):
            plugin(exec_config("plug", env=env)).fetch()

    def test_the_first_that_can_be_run_x12(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("a", "b", "c"):
            (tmp_path / name).mkdir()
        (tmp_path / "a" / "plug").mkdir()
        ShellPlugin(tmp_path / "b", name="plug").path.chmod(0o600)
        ShellPlugin(tmp_path / "c", credential("c"), name="plug")
        monkeypatch.setenv("PATH", f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c:/usr/bin:/bin")
        assert token(plugin(exec_config("plug")).fetch()) == "c"

    def test_a_path_counts_from_the_working_directory_x12(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "bin").mkdir()
        ShellPlugin(tmp_path / "bin")
        monkeypatch.chdir(tmp_path)
        for command in ("bin/plugin", "./bin//plugin", "bin/../bin/plugin"):
            assert token(plugin(exec_config(command)).fetch()) == "foo-bar"

    def test_a_dot_in_front_is_cleaned_away_x13(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Surprising, and as client-go since 1.35: what is not in a file's directory is looked for on PATH."""
        ShellPlugin(tmp_path)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(PluginNotFound, match="executable plugin not found"):
            plugin(exec_config("./plugin")).fetch()

    @each_case("entry", [".", "", "bin", "./bin"])
    def test_not_by_a_relative_entry_of_path_x14(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
    ) -> None:
        (tmp_path / "bin").mkdir()
        for directory in (tmp_path, tmp_path / "bin"):
            ShellPlugin(directory, name="plug")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", f"{entry}:/usr/bin:/bin")
        with pytest.raises(PluginNotFound, match="current directory"):
            plugin(exec_config("plug")).fetch()

    def test_called_by_the_name_it_was_configured_with_x15(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither its group nor its session are ours: those are different on purpose."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        for command, name in (("sh", "sh"), ("/bin/sh", "/bin/sh"), ("//bin/.//sh", "/bin/sh")):
            prints = credential("%s %s %s").replace('"', '\\"')
            args = ["-c", f'printf "{prints}" "$0" "$(pwd)" "$(id -u)"']
            answer = plugin(exec_config(command, args=args)).fetch()
            assert token(answer) == f"{name} {tmp_path} {os.getuid()}"


class TestStreams:
    def test_stderr_goes_on_to_ours_and_its_end_is_in_the_error_x16(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """client-go puts nothing of it into the error."""
        script = PluginScript(tmp_path)
        script.answer(token="t", stderr="just saying\n")
        assert token(plugin(exec_config(script.path)).fetch()) == "t"
        assert capfd.readouterr().err == "just saying\n"
        script.answer(stderr="x" * 5000 + "\nlog in first \x1b[31m\n", exit_code=1)
        with pytest.raises(PluginFailed) as caught:
            plugin(exec_config(script.path)).fetch()
        assert capfd.readouterr().err == "x" * 5000 + "\nlog in first \x1b[31m\n"
        assert caught.value.stderr_tail == "log in first U+001B[31m"
        assert "  log in first U+001B[31m" in str(caught.value)

    def test_stdin_is_null_x17(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        script.path.write_text(f"#!/bin/sh\ncat >\"{tmp_path}/heard\"\nprintf '{credential('t')}'\n")
        assert token(plugin(exec_config(script.path)).fetch()) == "t"
        assert (tmp_path / "heard").read_bytes() == b""

    def test_too_much_output_x16(self, tmp_path: Path) -> None:
        """client-go would keep all of it."""
        script, seen = ShellPlugin(tmp_path), Seen()
        script.path.write_text("#!/bin/sh\nexec yes\n")
        with pytest.raises(PluginOutputError, match="more than 1 MiB"):
            plugin(exec_config(script.path), seen).fetch()
        assert seen.calls == [("plugin_execution_error", -1)]

    def test_as_much_as_may_be_x16(self, tmp_path: Path) -> None:
        text = credential("t")
        script = ShellPlugin(tmp_path, text + " " * (2**20 - len(text)))
        assert token(plugin(exec_config(script.path)).fetch()) == "t"

    def test_a_plugin_that_does_not_end_x18(self, tmp_path: Path) -> None:
        """client-go would wait for ever."""
        script, seen = ShellPlugin(tmp_path), Seen()
        script.path.write_text("#!/bin/sh\nexec sleep 600\n")
        with pytest.raises(PluginTimeout) as caught:
            plugin(exec_config(script.path, options=ExecOptions(timeout=0.05)), seen).fetch()
        assert caught.value.timeout == 0.05
        assert seen.calls == [("plugin_execution_error", -1)]

    def test_a_child_that_keeps_stdout_open_is_not_awaited_x18(self, tmp_path: Path) -> None:
        """client-go would wait until the grandchild ends."""
        script = ShellPlugin(tmp_path)
        script.path.write_text(f"#!/bin/sh\nsleep 15 &\nprintf '{credential('t')}'\n")
        assert token(plugin(exec_config(script.path)).fetch()) == "t"


class TestOrder:
    def test_first_the_terminal_then_the_policy_then_the_run_then_the_output_x23(
        self, tmp_path: Path
    ) -> None:
        script, seen = ShellPlugin(tmp_path, "nonsense"), Seen()
        deny = PluginPolicy.deny_all()
        with pytest.raises(PluginNeedsTerminal):
            plugin(exec_config("missing", interactive_mode="Always", policy=deny), seen).fetch()
        assert (seen.policy, seen.calls) == ([], [])
        with pytest.raises(PluginNotAllowed):
            plugin(exec_config("missing", policy=deny), seen).fetch()
        assert (seen.policy, seen.calls) == ([False], [])
        with pytest.raises(PluginNotFound):
            plugin(exec_config("missing"), seen).fetch()
        assert (seen.policy, seen.calls) == ([False, True], [("plugin_not_found_error", 1)])
        with pytest.raises(PluginOutputError):
            plugin(exec_config(script.path), seen).fetch()
        assert seen.calls[1:] == [("no_error", 0)]

    def test_what_the_output_says_is_no_part_of_the_count_m2(self, tmp_path: Path) -> None:
        for output in ("", "nonsense", "{}", credential()):
            seen = Seen()
            with pytest.raises(PluginOutputError):
                plugin(exec_config(ShellPlugin(tmp_path, output).path), seen).fetch()
            assert seen.calls == [("no_error", 0)]


class TestHowItEnds:
    def test_calls_are_counted_by_their_exit_codes_t39_m1(self, tmp_path: Path) -> None:
        script, seen = ShellPlugin(tmp_path), Seen()
        for code in (0, 1, 2, 0):
            script.says(credential("t") if code == 0 else "", exit_code=code)
            asked = plugin(exec_config(script.path), seen)
            for _ in range(2):
                if code:
                    with pytest.raises(PluginFailed, match=f"failed with exit code {code}"):
                        asked.fetch()
                else:
                    asked.fetch()
        ok, one, two = ("no_error", 0), ("plugin_execution_error", 1), ("plugin_execution_error", 2)
        assert seen.calls == [ok, ok, one, one, two, two, ok, ok]

    @pytest.mark.parametrize("command", ["does-not-exist", "./does/not/exist", "/does/not/exist"])
    def test_what_is_not_there_t40_t81_m1_x26(self, command: str) -> None:
        """A path gets no install hint, and no page about plugins: as client-go, and surprising."""
        seen = Seen()
        with pytest.raises(PluginNotFound) as caught:
            plugin(exec_config(command, install_hint="install it"), seen).fetch()
        assert seen.calls == [("plugin_not_found_error", 1)]
        assert ("install it" in str(caught.value)) == ("/" not in command)
        assert ("https://kubernetes.io" in str(caught.value)) == ("/" not in command)
        if "/" in command:
            assert str(caught.value).startswith(
                f"getting credentials: exec: {os.path.normpath(command)}: no such file"
            )
            assert isinstance(caught.value.__cause__, FileNotFoundError)

    def test_what_cannot_be_started_t57_x26_m1(self, tmp_path: Path) -> None:
        def asked(mode: int, text: str) -> tuple[PluginError, Seen]:
            script, seen = ShellPlugin(tmp_path), Seen()
            script.path.write_text(text)
            script.path.chmod(mode)
            with pytest.raises(PluginNotStarted) as caught:
                plugin(exec_config(script.path, install_hint="install it"), seen).fetch()
            return caught.value, seen

        for mode, text, why in (
            (0o600, "#!/bin/sh\n", "permission denied"),
            (0o700, "#!/no/such/interpreter\n", "no such file or directory"),
            (0o700, "\x7fELF", "exec format error"),
        ):
            error, seen = asked(mode, text)
            assert str(error).startswith(f"getting credentials: exec: {tmp_path}/plugin: {why}. ")
            assert "install it" not in str(error)
            assert (seen.calls, seen.policy) == ([("plugin_not_found_error", 1)], [True])

    def test_a_directory_is_not_to_be_made_executable_x26(self, tmp_path: Path) -> None:
        """The system says "permission denied", as of a file without its bit; but it has it."""
        with pytest.raises(PluginNotStarted, match=r"permission denied\..*it is a directory") as caught:
            plugin(exec_config(tmp_path)).fetch()
        assert "chmod" not in str(caught.value)
        assert caught.value.errno == errno.EACCES

    def test_more_than_the_system_passes_on_x26_x6(self, tmp_path: Path) -> None:
        """A CA bundle of a megabyte does not fit an environment."""
        script, seen = ShellPlugin(tmp_path), Seen()
        cluster = ExecCluster(server="s", certificate_authority_data=b"x" * 2**20)
        with pytest.raises(PluginNotStarted, match="Reduce certificate-authority"):
            plugin(exec_config(script.path, provide_cluster_info=True), seen, cluster=cluster).fetch()
        assert seen.calls == [("plugin_not_found_error", 1)]

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
    def test_a_signal_is_minus_one_t82_x25_m1(self, tmp_path: Path, number: signal.Signals) -> None:
        script, seen = ShellPlugin(tmp_path), Seen()
        script.path.write_text(f"#!/bin/sh\nulimit -c 0\nkill -{number.value} $$\n")
        with pytest.raises(PluginFailed, match="failed with exit code -1") as caught:
            plugin(exec_config(script.path), seen).fetch()
        assert caught.value.exit_code == -1
        assert seen.calls == [("plugin_execution_error", -1)]

    def test_typed_and_chained_x27(self, server: APIServer, tmp_path: Path) -> None:
        """client-go flattens everything to text."""
        config = configured(server, stanza_of(tmp_path / "missing"))
        with kubeauth.Client(config) as client:
            with pytest.raises(PluginNotFound, match=r"\Agetting credentials: exec: ") as caught:
                client.get("/version")
        assert caught.value.command == str(tmp_path / "missing")
        assert isinstance(caught.value.__cause__, FileNotFoundError)


class TestHints:
    def test_up_to_the_threshold_t31_x28(self, clock: FakeClock) -> None:
        limit = HintLimit(clock.monotonic, max_shown=2, interval=1.0)
        assert [limit.allows() for _ in range(10)].count(True) == 2

    def test_after_the_interval_the_threshold_resets_t32_x28(self, clock: FakeClock) -> None:
        limit = HintLimit(clock.monotonic, max_shown=2, interval=5.0)
        shown = []
        for _ in range(10):
            shown.append(limit.allows())
            clock.advance(1.0)
        assert shown == [True, True, False, False, False] * 2

    def test_ten_an_hour_and_by_plugin_x28(self, clock: FakeClock) -> None:
        def hints(asked: Plugin) -> int:
            shown = 0
            for _ in range(12):
                with pytest.raises(PluginNotFound) as caught:
                    asked.fetch()
                shown += "\n\nthe hint" in str(caught.value)
            return shown

        config = exec_config("missing", install_hint="the hint")
        first, second = (Plugin(config, None, Seen(), now=clock.monotonic) for _ in range(2))
        assert [hints(first), hints(second)] == [10, 10]
        clock.advance(3599.0)
        assert hints(first) == 0
        clock.advance(1.0)
        assert hints(first) == 10

    def test_a_hint_cannot_steer_a_terminal_x29(self) -> None:
        with pytest.raises(PluginNotFound) as caught:
            plugin(exec_config("missing", install_hint="\x1b[2Jrun\tthis\n\x07")).fetch()
        assert str(caught.value).endswith("U+001B[2Jrun\tthis\nU+0007")


class TestWhatIsRefusedBefore:
    def test_versions_that_are_gone_x1_c4(self, server: APIServer, tmp_path: Path) -> None:
        """An error of the constructor is not remembered: what is right afterwards works."""
        script = ShellPlugin(tmp_path, credential("alices-token"))
        for version in ("client.authentication.k8s.io/v1alpha1", "v1", ""):
            with pytest.raises(ConfigError, match=f'exec plugin: invalid apiVersion "{version}"'):
                kubeauth.Client(server.config(exec=exec_config(script.path, api_version=version)))
            # Beside a static credential it would not be run; it is refused all the same.
            with pytest.raises(ConfigError, match=f'exec plugin: invalid apiVersion "{version}"'):
                kubeauth.Client(server.config(token="t", exec=exec_config(script.path, api_version=version)))
        with kubeauth.Client(server.config(exec=exec_config(script.path))) as client:
            assert client.get("/version").status_code == 200

    def test_beside_an_auth_provider_i2(self, server: APIServer, tmp_path: Path) -> None:
        user = {"auth-provider": {"name": "oidc", "config": {}}}
        with pytest.raises(KubeConfigError, match=r"auth-provider|authProvider"):
            configured(server, stanza_of(tmp_path / "p"), user)

    def test_a_transport_of_the_callers_own_i3(self, server: APIServer, tmp_path: Path) -> None:
        config = config_of(server, ShellPlugin(tmp_path))
        with pytest.raises(TypeError, match="transport= "):
            kubeauth.Client(config, transport=None)  # type: ignore[call-arg]
