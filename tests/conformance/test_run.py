"""One run of a plugin: its input, how it is found, its streams and its exit status (X1-X28, T2-T25, T81-T91, T97).

Includes the table of TestRefreshCreds in client-go's exec_test.go, with the number of each row.
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
    V1BETA1,
    RecordingObserver,
    build_config,
    exec_config,
    exec_entry,
    make_plugin,
    plugin_config,
)
from tests.support.cases import each_case
from tests.support.kubeconfigs import V1
from tests.support.shell_plugin import ShellPlugin, credential

NOT_INTERACTIVE = {"kind": "ExecCredential", "apiVersion": V1BETA1, "spec": {"interactive": False}}
INTERACTIVE = {"kind": "ExecCredential", "apiVersion": V1BETA1, "spec": {"interactive": True}}
CLUSTER = ExecCluster(
    server="foo", tls_server_name="bar", certificate_authority_data=b"baz",
    config={"apiVersion": "group/v1", "kind": "PluginConfig", "spec": {"audience": "snorlax"}},
)  # fmt: skip
PAIR = Authority().client("carol")


def token_of(credential: ProviderCredential) -> str | None:
    return credential.token.reveal() if credential.token else None


def v1beta1_config(path: Path, **fields: Any) -> Any:
    return exec_config(path, **({"api_version": V1BETA1} | fields))


class TestFetch:
    def test_a_certificate_is_returned_t2_x40(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path, credential(None, PAIR, version=V1BETA1))
        fetched = make_plugin(v1beta1_config(script.path)).fetch()

        assert fetched.token is None
        assert fetched.key is not None
        assert (fetched.certificate, fetched.key.reveal()) == (PAIR.certificate, PAIR.key)
        assert [json.loads(info) for info in script.exec_infos] == [NOT_INTERACTIVE]

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            pytest.param({"clientKeyData": "foo", "clientCertificateData": "bar"}, "failed parsing client key/certificate", id="T3"),
            pytest.param({"clientCertificateData": PAIR.certificate.decode()}, "only certificate or key, not both", id="T4"),
            pytest.param({}, "didn't return a token or cert/key pair", id="T19"),
        ],
    )  # fmt: skip
    def test_an_invalid_credential_is_an_output_error_t3_t4_t19(
        self, server: APIServer, tmp_path: Path, status: dict[str, Any], error: str
    ) -> None:
        script = ShellPlugin(tmp_path, credential(version=V1BETA1, **status))

        with kubeauth.Client(plugin_config(server, script, apiVersion=V1BETA1)) as client:
            with pytest.raises(PluginOutputError, match=error) as caught:
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
    def test_exec_info_says_whether_the_plugin_is_interactive_t5_t6_t7_t8_t9_t10_t11_t15_x3_x5(
        self, tmp_path: Path, mode: str, tty: bool, unavailable: bool, info: dict[str, Any]
    ) -> None:
        script = ShellPlugin(tmp_path, credential("foo-bar", version=V1BETA1))
        options = ExecOptions(stdin_unavailable=unavailable)
        plugin = make_plugin(v1beta1_config(script.path, interactive_mode=mode, options=options), tty=tty)

        for _ in range(2):
            assert token_of(plugin.fetch()) == "foo-bar"

        assert [json.loads(each) for each in script.exec_infos] == [info] * 2

    @each_case(
        ("mode", "tty", "options", "reason"),
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
    def test_a_plugin_that_needs_a_terminal_is_not_started_t12_t13_t14_t25_t72_x20_x21_x22_m3(
        self, tmp_path: Path, mode: str, tty: bool, options: ExecOptions, reason: str
    ) -> None:
        script, observer = ShellPlugin(tmp_path), RecordingObserver()

        with pytest.raises(PluginNeedsTerminal) as caught:
            make_plugin(
                exec_config(script.path, interactive_mode=mode, options=options), observer, tty=tty
            ).fetch()

        expected = f"getting credentials: exec plugin cannot support interactive mode: {reason}. "
        assert str(caught.value).startswith(expected)
        # Neither a call nor a policy check is counted.
        assert (script.exec_infos, observer.calls, observer.policy_checks) == ([], [], [])

    def test_an_expired_token_is_returned_t16_x45(self, tmp_path: Path) -> None:
        output = credential("foo-bar", version=V1BETA1, expirationTimestamp="2006-01-02T15:04:05Z")
        script = ShellPlugin(tmp_path, output)
        fetched = make_plugin(v1beta1_config(script.path)).fetch()
        assert (token_of(fetched), fetched.expires) == ("foo-bar", 1136214245)

    @pytest.mark.parametrize(
        ("document", "error"),
        [
            pytest.param({"kind": "ExecCredential", "status": {"token": "foo-bar"}}, f"configured to use API version {V1BETA1}, plugin returned version none", id="T17"),
            pytest.param({"kind": "ExecCredential", "apiVersion": V1BETA1}, "didn't return a status field", id="T18"),
        ],
    )  # fmt: skip
    def test_missing_fields_are_an_output_error_t17_t18_x33_x36(
        self, tmp_path: Path, document: dict[str, Any], error: str
    ) -> None:
        script = ShellPlugin(tmp_path, json.dumps(document))
        with pytest.raises(PluginOutputError, match=error):
            make_plugin(v1beta1_config(script.path)).fetch()

    def test_an_unknown_command_is_not_found_t20_x24(self) -> None:
        with pytest.raises(PluginNotFound) as caught:
            make_plugin(v1beta1_config(Path("does not exist"), install_hint="some install hint")).fetch()
        text = str(caught.value)

        assert text.startswith("getting credentials: exec: executable does not exist not found\n\n")
        assert text.endswith("\n\nsome install hint")
        assert caught.value.install_hint == "some install hint"

    def test_a_nonzero_exit_code_is_an_error_t21_x25(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        script.set_output("", exit_code=73)

        with pytest.raises(PluginFailed) as caught:
            make_plugin(v1beta1_config(script.path)).fetch()

        assert f"exec: executable {script.path} failed with exit code 73" in str(caught.value)
        assert caught.value.exit_code == 73

    @pytest.mark.parametrize("is_requested", [pytest.param(True, id="T22"), pytest.param(False, id="T23")])
    def test_cluster_info_is_passed_only_if_requested_t22_t23_x6(
        self, tmp_path: Path, is_requested: bool
    ) -> None:
        script = ShellPlugin(tmp_path, credential("foo-bar", version=V1BETA1))
        make_plugin(v1beta1_config(script.path, provide_cluster_info=is_requested), cluster=CLUSTER).fetch()
        spec: dict[str, Any] = {"interactive": False}
        if is_requested:
            spec["cluster"] = {
                "server": "foo",
                "tls-server-name": "bar",
                "certificate-authority-data": base64.b64encode(b"baz").decode(),
                "config": CLUSTER.config,
            }
        (info,) = script.exec_infos

        assert json.loads(info) == {**NOT_INTERACTIVE, "spec": spec}

    @pytest.mark.parametrize("version", [pytest.param(V1, id="T24"), pytest.param(V1BETA1, id="T5")])
    def test_both_api_versions_have_the_same_fields_t24_x2(self, tmp_path: Path, version: str) -> None:
        script = ShellPlugin(tmp_path, credential("foo-bar", version=version))
        assert token_of(make_plugin(exec_config(script.path, api_version=version)).fetch()) == "foo-bar"
        (info,) = script.exec_infos
        assert json.loads(info) == {**NOT_INTERACTIVE, "apiVersion": version}


class TestExecInfo:
    def test_exec_info_is_one_line_as_go_encodes_it_x4_x7_t97(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        cluster = ExecCluster(
            server="https://h/<&>",
            insecure_skip_tls_verify=True,
            proxy_url="http://p",
            disable_compression=True,
        )
        make_plugin(exec_config(script.path, provide_cluster_info=True), cluster=cluster).fetch()
        # Without an extension, config is null rather than absent.
        assert script.exec_infos == [
            f'{{"kind":"ExecCredential","apiVersion":"{V1}","spec":{{"cluster":{{'
            '"server":"https://h/\\u003c\\u0026\\u003e","insecure-skip-tls-verify":true,'
            '"proxy-url":"http://p","disable-compression":true,"config":null},"interactive":false}}\n'
        ]

    @each_case(
        ("value", "encoded"),
        [
            ({"b": 1, "a": [None, True]}, '{"a":[null,true],"b":1}'),
            (1e3, "1000"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (1.5e-7, "1.5e-7"), (1e-6, "0.000001"),
            (-0.0, "-0"), (0.1, "0.1"), (2**64 - 1, "18446744073709551615"),
            ("<\u2028>\x7f\t\x01é😀", '"\\u003c\\u2028\\u003e\x7f\\t\\u0001é😀"'),
            ("", '""'), ([], "[]"), ({}, "{}"),
        ],
    )  # fmt: skip
    def test_cluster_extension_is_encoded_as_by_go_x7(self, tmp_path: Path, value: Any, encoded: str) -> None:
        script = ShellPlugin(tmp_path)
        cluster = ExecCluster(server="s", config=value)
        make_plugin(exec_config(script.path, provide_cluster_info=True), cluster=cluster).fetch()
        assert f',"config":{encoded}}},"interactive"' in script.exec_infos[0]

    def test_cluster_info_has_the_resolved_values_x8(
        self, server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server URL without query, the contents of the CA file, and no proxy of the environment."""
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        (tmp_path / "ca.pem").write_bytes(server.authority.pem)
        document = server.kubeconfig(
            {"exec": exec_entry("./plugin", provideClusterInfo=True)},
            {"server": f"{server.url}/prefix/?q=1#f", "certificate-authority": "ca.pem"},
        )
        del document["clusters"][0]["cluster"]["certificate-authority-data"]
        (tmp_path / "config").write_text(json.dumps(document))
        script = ShellPlugin(tmp_path)

        with kubeauth.Client(kubeauth.load_config(tmp_path / "config")) as client:
            client.get("/version")
        cluster = json.loads(script.exec_infos[0])["spec"]["cluster"]

        assert cluster == {
            "server": f"{server.url}/prefix/",
            "certificate-authority-data": base64.b64encode(server.authority.pem).decode(),
            "config": None,
        }

    def test_an_unreadable_ca_file_is_an_error_of_the_constructor_x8(
        self, server: APIServer, tmp_path: Path
    ) -> None:
        script = ShellPlugin(tmp_path)
        entry = exec_config(script.path, provide_cluster_info=True)
        config = server.config(ca_data=None, ca_file=str(tmp_path / "no"), exec=entry)
        with pytest.raises(KubeConfigError, match="failed to load CA bundle for execProvider"):
            kubeauth.Client(config)

    def test_ca_file_is_read_once_x9(self, server: APIServer, tmp_path: Path, clock: FakeClock) -> None:
        path = tmp_path / "ca.pem"
        path.write_bytes(server.authority.pem)
        script = ShellPlugin(tmp_path, credential("alices-token", expires=clock.time() + 60))
        entry = exec_config(script.path, provide_cluster_info=True)
        config = server.config(ca_data=None, ca_file=str(path), exec=entry)

        with kubeauth.Client(config, clock=clock) as client:
            client.get("/version")
            path.write_bytes(server.authority.pem + Authority("another").pem)
            clock.advance(1000)
            script.set_output(credential("alices-token", expires=clock.time() + 60))
            client.get("/version")
        first, second = script.exec_infos

        assert first == second


class TestEnvironment:
    def test_config_overrides_the_parent_and_exec_info_overrides_both_x10_x3_t90(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = PluginScript(tmp_path)
        env = {"SHARED": "config", "ONLY_CONFIG": "", "KUBERNETES_EXEC_INFO": "forged"}
        plugin = make_plugin(exec_config(script.path, env=env))
        monkeypatch.setenv("SHARED", "parent")
        monkeypatch.setenv("KUBERNETES_EXEC_INFO", "inherited")
        monkeypatch.setenv("ONLY_PARENT", "1")
        plugin.fetch()
        monkeypatch.setenv("ONLY_PARENT", "2")  # read again for each run
        plugin.fetch()

        for number, run in enumerate(script.runs, start=1):
            assert run.environment["SHARED"] == "config"
            assert run.environment["ONLY_CONFIG"] == ""
            assert run.environment["ONLY_PARENT"] == str(number)
            assert run.info["kind"] == "ExecCredential"

    def test_arguments_and_variables_are_not_expanded_x11(self, tmp_path: Path) -> None:
        script = PluginScript(tmp_path)
        arguments = ["$HOME", "~", "%PATH%", "`id`", "a b", "", "*", "ünï"]
        make_plugin(exec_config(script.path, args=arguments, env={"V": "$HOME ~"})).fetch()
        (run,) = script.runs

        assert run.arguments == arguments
        assert run.environment["V"] == "$HOME ~"

    @pytest.mark.parametrize("fields", [{"env": {"A": "b\0c"}}, {"env": {"A\0": "b"}}, {"args": ("a\0b",)}])
    def test_a_nul_byte_is_counted_as_an_internal_error_x11_m1(
        self, tmp_path: Path, fields: dict[str, Any]
    ) -> None:
        script, observer = ShellPlugin(tmp_path), RecordingObserver()
        with pytest.raises(PluginNotStarted, match="NUL byte"):
            make_plugin(exec_config(script.path, **fields), observer).fetch()
        assert observer.calls == [("client_internal_error", 1)]
        assert observer.policy_checks == [True]

    def test_variables_that_are_not_utf8_are_passed_on_x10(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        script.path.write_text(
            f'#!/bin/sh\nprintf "%s" "$ODD" >"{tmp_path}/odd"\nprintf \'{credential("t")}\'\n'
        )
        os.environb[b"ODD"] = b"\xff\xfe"

        try:
            make_plugin(exec_config(script.path)).fetch()
        finally:
            del os.environb[b"ODD"]

        assert (tmp_path / "odd").read_bytes() == b"\xff\xfe"


class TestLookup:
    def test_a_name_is_looked_up_on_the_path_of_the_parent_x12_t91(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("parent", "configured"):
            (tmp_path / name).mkdir()
        ShellPlugin(tmp_path / "parent", credential("parent"), name="plug")
        ShellPlugin(tmp_path / "configured", credential("configured"), name="plug")
        monkeypatch.setenv("PATH", f"{tmp_path}/parent:/usr/bin:/bin")
        env = {"PATH": f"{tmp_path}/configured:/usr/bin:/bin"}
        assert token_of(make_plugin(exec_config("plug", env=env)).fetch()) == "parent"
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        with pytest.raises(PluginNotFound):
            make_plugin(exec_config("plug", env=env)).fetch()

    def test_the_first_executable_file_on_path_is_run_x12(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("a", "b", "c"):
            (tmp_path / name).mkdir()
        (tmp_path / "a" / "plug").mkdir()
        ShellPlugin(tmp_path / "b", name="plug").path.chmod(0o600)
        ShellPlugin(tmp_path / "c", credential("c"), name="plug")
        monkeypatch.setenv("PATH", f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c:/usr/bin:/bin")

        assert token_of(make_plugin(exec_config("plug")).fetch()) == "c"

    def test_a_relative_path_is_relative_to_the_working_directory_x12(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "bin").mkdir()
        ShellPlugin(tmp_path / "bin")
        monkeypatch.chdir(tmp_path)
        for command in ("bin/plugin", "./bin//plugin", "bin/../bin/plugin"):
            assert token_of(make_plugin(exec_config(command)).fetch()) == "foo-bar"

    def test_a_leading_dot_slash_is_removed_x13(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As client-go since 1.35: the cleaned command has no directory, so it is looked up on PATH."""
        ShellPlugin(tmp_path)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(PluginNotFound, match="executable plugin not found"):
            make_plugin(exec_config("./plugin")).fetch()

    @each_case("entry", [".", "", "bin", "./bin"])
    def test_relative_entries_of_path_are_ignored_x14(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
    ) -> None:
        (tmp_path / "bin").mkdir()

        for directory in (tmp_path, tmp_path / "bin"):
            ShellPlugin(directory, name="plug")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", f"{entry}:/usr/bin:/bin")
        with pytest.raises(PluginNotFound, match="current directory"):
            make_plugin(exec_config("plug")).fetch()

    def test_argv0_is_the_configured_command_x15(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Working directory and user are inherited; the process group and session differ on purpose."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", "/usr/bin:/bin")

        for command, name in (("sh", "sh"), ("/bin/sh", "/bin/sh"), ("//bin/.//sh", "/bin/sh")):
            prints = credential("%s %s %s").replace('"', '\\"')
            args = ["-c", f'printf "{prints}" "$0" "$(pwd)" "$(id -u)"']
            fetched = make_plugin(exec_config(command, args=args)).fetch()
            assert token_of(fetched) == f"{name} {tmp_path} {os.getuid()}"


class TestStreams:
    def test_stderr_is_forwarded_and_its_tail_is_in_the_error_x16(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """client-go has no stderr in its errors."""
        script = ShellPlugin(tmp_path)
        script.answer(token="t", stderr="a warning\n")
        assert token_of(make_plugin(exec_config(script.path)).fetch()) == "t"
        assert capfd.readouterr().err == "a warning\n"
        script.answer(stderr="x" * 5000 + "\nlog in first \x1b[31m\n", exit_code=1)
        with pytest.raises(PluginFailed) as caught:
            make_plugin(exec_config(script.path)).fetch()

        assert capfd.readouterr().err == "x" * 5000 + "\nlog in first \x1b[31m\n"
        assert caught.value.stderr_tail == "log in first U+001B[31m"
        assert "  log in first U+001B[31m" in str(caught.value)

    def test_stdin_is_empty_x17(self, tmp_path: Path) -> None:
        script = ShellPlugin(tmp_path)
        script.path.write_text(f"#!/bin/sh\ncat >\"{tmp_path}/stdin\"\nprintf '{credential('t')}'\n")
        assert token_of(make_plugin(exec_config(script.path)).fetch()) == "t"
        assert (tmp_path / "stdin").read_bytes() == b""

    def test_output_above_the_limit_is_an_error_x16(self, tmp_path: Path) -> None:
        """client-go has no limit."""
        script, observer = ShellPlugin(tmp_path), RecordingObserver()
        script.path.write_text("#!/bin/sh\nexec yes\n")

        with pytest.raises(PluginOutputError, match="more than 1 MiB"):
            make_plugin(exec_config(script.path), observer).fetch()

        assert observer.calls == [("plugin_execution_error", -1)]

    def test_output_of_exactly_the_limit_is_accepted_x16(self, tmp_path: Path) -> None:
        text = credential("t")
        script = ShellPlugin(tmp_path, text + " " * (2**20 - len(text)))
        assert token_of(make_plugin(exec_config(script.path)).fetch()) == "t"

    def test_a_plugin_that_does_not_exit_times_out_x18(self, tmp_path: Path) -> None:
        """client-go has no timeout."""
        script, observer = ShellPlugin(tmp_path), RecordingObserver()
        script.path.write_text("#!/bin/sh\nexec sleep 600\n")

        with pytest.raises(PluginTimeout) as caught:
            make_plugin(exec_config(script.path, options=ExecOptions(timeout=0.05)), observer).fetch()

        assert caught.value.timeout == 0.05
        assert observer.calls == [("plugin_execution_error", -1)]

    def test_a_grandchild_that_holds_stdout_open_is_not_waited_for_x18(self, tmp_path: Path) -> None:
        """client-go waits until the grandchild exits."""
        script = ShellPlugin(tmp_path)
        # The grandchild exits once the plugin's credential was returned, or its directory is removed.
        released = tmp_path / "released"
        wait = f'while [ -e "{tmp_path}" ] && [ ! -e "{released}" ]; do sleep 0.1; done'
        script.path.write_text(f"#!/bin/sh\n({wait}) &\nprintf '{credential('t')}'\n")

        fetched = make_plugin(exec_config(script.path, options=ExecOptions(timeout=30))).fetch()
        released.touch()

        assert token_of(fetched) == "t"


class TestOrder:
    def test_order_is_terminal_policy_run_output_x23(self, tmp_path: Path) -> None:
        script, observer = ShellPlugin(tmp_path, "not json"), RecordingObserver()
        deny = PluginPolicy.deny_all()

        with pytest.raises(PluginNeedsTerminal):
            make_plugin(exec_config("missing", interactive_mode="Always", policy=deny), observer).fetch()
        assert (observer.policy_checks, observer.calls) == ([], [])
        with pytest.raises(PluginNotAllowed):
            make_plugin(exec_config("missing", policy=deny), observer).fetch()
        assert (observer.policy_checks, observer.calls) == ([False], [])
        with pytest.raises(PluginNotFound):
            make_plugin(exec_config("missing"), observer).fetch()
        assert (observer.policy_checks, observer.calls) == ([False, True], [("plugin_not_found_error", 1)])
        with pytest.raises(PluginOutputError):
            make_plugin(exec_config(script.path), observer).fetch()

        assert observer.calls[1:] == [("no_error", 0)]

    def test_invalid_output_is_counted_as_no_error_m2(self, tmp_path: Path) -> None:
        for output in ("", "not json", "{}", credential()):
            observer = RecordingObserver()
            with pytest.raises(PluginOutputError):
                make_plugin(exec_config(ShellPlugin(tmp_path, output).path), observer).fetch()
            assert observer.calls == [("no_error", 0)]


class TestExitStatus:
    def test_calls_are_counted_by_exit_code_t39_m1(self, tmp_path: Path) -> None:
        script, observer = ShellPlugin(tmp_path), RecordingObserver()

        for code in (0, 1, 2, 0):
            script.set_output(credential("t") if code == 0 else "", exit_code=code)
            plugin = make_plugin(exec_config(script.path), observer)
            for _ in range(2):
                if code:
                    with pytest.raises(PluginFailed, match=f"failed with exit code {code}"):
                        plugin.fetch()
                else:
                    plugin.fetch()
        ok, exit_1, exit_2 = ("no_error", 0), ("plugin_execution_error", 1), ("plugin_execution_error", 2)

        assert observer.calls == [ok, ok, exit_1, exit_1, exit_2, exit_2, ok, ok]

    @pytest.mark.parametrize("command", ["does-not-exist", "./does/not/exist", "/does/not/exist"])
    def test_a_missing_command_is_not_found_t40_t81_m1_x26(self, command: str) -> None:
        """As in client-go, the error for a path has neither the install hint nor the link to the documentation."""
        observer = RecordingObserver()

        with pytest.raises(PluginNotFound) as caught:
            make_plugin(exec_config(command, install_hint="install it"), observer).fetch()
        assert observer.calls == [("plugin_not_found_error", 1)]
        assert ("install it" in str(caught.value)) == ("/" not in command)
        assert ("https://kubernetes.io" in str(caught.value)) == ("/" not in command)
        if "/" in command:
            assert str(caught.value).startswith(
                f"getting credentials: exec: {os.path.normpath(command)}: no such file"
            )
            assert isinstance(caught.value.__cause__, FileNotFoundError)

    def test_a_file_that_cannot_be_executed_is_an_error_t57_x26_m1(self, tmp_path: Path) -> None:
        def fetch_error(mode: int, text: str) -> tuple[PluginError, RecordingObserver]:
            script, observer = ShellPlugin(tmp_path), RecordingObserver()
            script.path.write_text(text)
            script.path.chmod(mode)
            with pytest.raises(PluginNotStarted) as caught:
                make_plugin(exec_config(script.path, install_hint="install it"), observer).fetch()
            return caught.value, observer

        for mode, text, reason in (
            (0o600, "#!/bin/sh\n", "permission denied"),
            (0o700, "#!/no/such/interpreter\n", "no such file or directory"),
            (0o700, "\x7fELF", "exec format error"),
        ):
            error, observer = fetch_error(mode, text)
            assert str(error).startswith(f"getting credentials: exec: {tmp_path}/plugin: {reason}. ")
            assert "install it" not in str(error)
            assert (observer.calls, observer.policy_checks) == ([("plugin_not_found_error", 1)], [True])

    def test_the_error_for_a_directory_does_not_suggest_chmod_x26(self, tmp_path: Path) -> None:
        """The errno is that of a file without the executable bit, but a directory has the bit."""
        with pytest.raises(PluginNotStarted, match=r"permission denied\..*it is a directory") as caught:
            make_plugin(exec_config(tmp_path)).fetch()
        assert "chmod" not in str(caught.value)
        assert caught.value.errno == errno.EACCES

    def test_cluster_info_that_exceeds_the_environment_is_an_error_x26_x6(self, tmp_path: Path) -> None:
        """A CA bundle of a megabyte does not fit into the environment."""
        script, observer = ShellPlugin(tmp_path), RecordingObserver()
        cluster = ExecCluster(server="s", certificate_authority_data=b"x" * 2**20)

        with pytest.raises(PluginNotStarted, match="Reduce certificate-authority"):
            make_plugin(
                exec_config(script.path, provide_cluster_info=True), observer, cluster=cluster
            ).fetch()

        assert observer.calls == [("plugin_not_found_error", 1)]

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
    def test_exit_code_is_minus_one_after_a_signal_t82_x25_m1(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        script, observer = ShellPlugin(tmp_path), RecordingObserver()
        script.path.write_text(f"#!/bin/sh\nulimit -c 0\nkill -{number.value} $$\n")

        with pytest.raises(PluginFailed, match="failed with exit code -1") as caught:
            make_plugin(exec_config(script.path), observer).fetch()

        assert caught.value.exit_code == -1
        assert observer.calls == [("plugin_execution_error", -1)]

    def test_errors_are_typed_and_have_a_cause_x27(self, server: APIServer, tmp_path: Path) -> None:
        """client-go returns errors as text."""
        config = build_config(server, exec_entry(tmp_path / "missing"))

        with kubeauth.Client(config) as client:
            with pytest.raises(PluginNotFound, match=r"\Agetting credentials: exec: ") as caught:
                client.get("/version")

        assert caught.value.command == str(tmp_path / "missing")
        assert isinstance(caught.value.__cause__, FileNotFoundError)


class TestInstallHints:
    def test_hints_are_shown_up_to_the_threshold_t31_x28(self, clock: FakeClock) -> None:
        limit = HintLimit(clock.monotonic, max_shown=2, interval=1.0)
        assert [limit.allows() for _ in range(10)].count(True) == 2

    def test_the_threshold_resets_after_the_interval_t32_x28(self, clock: FakeClock) -> None:
        limit = HintLimit(clock.monotonic, max_shown=2, interval=5.0)
        shown = []

        for _ in range(10):
            shown.append(limit.allows())
            clock.advance(1.0)

        assert shown == [True, True, False, False, False] * 2

    def test_ten_hints_per_hour_for_each_plugin_x28(self, clock: FakeClock) -> None:
        def hints(plugin: Plugin) -> int:
            shown = 0
            for _ in range(12):
                with pytest.raises(PluginNotFound) as caught:
                    plugin.fetch()
                shown += "\n\nthe hint" in str(caught.value)
            return shown

        config = exec_config("missing", install_hint="the hint")
        first, second = (Plugin(config, None, RecordingObserver(), now=clock.monotonic) for _ in range(2))
        assert [hints(first), hints(second)] == [10, 10]
        clock.advance(3599.0)
        assert hints(first) == 0
        clock.advance(1.0)

        assert hints(first) == 10

    def test_control_characters_in_a_hint_are_escaped_x29(self) -> None:
        with pytest.raises(PluginNotFound) as caught:
            make_plugin(exec_config("missing", install_hint="\x1b[2Jrun\tthis\n\x07")).fetch()
        assert str(caught.value).endswith("U+001B[2Jrun\tthis\nU+0007")


class TestConfigErrors:
    def test_unsupported_api_versions_are_rejected_x1_c4(self, server: APIServer, tmp_path: Path) -> None:
        """An error of the constructor is not cached: a valid config works afterwards."""
        script = ShellPlugin(tmp_path, credential("alices-token"))

        for version in ("client.authentication.k8s.io/v1alpha1", "v1", ""):
            with pytest.raises(ConfigError, match=f'exec plugin: invalid apiVersion "{version}"'):
                kubeauth.Client(server.config(exec=exec_config(script.path, api_version=version)))
            # A static credential takes precedence, but the config is still checked.
            with pytest.raises(ConfigError, match=f'exec plugin: invalid apiVersion "{version}"'):
                kubeauth.Client(server.config(token="t", exec=exec_config(script.path, api_version=version)))
        with kubeauth.Client(server.config(exec=exec_config(script.path))) as client:
            assert client.get("/version").status_code == 200

    def test_exec_and_auth_provider_conflict_i2(self, server: APIServer, tmp_path: Path) -> None:
        user = {"auth-provider": {"name": "oidc", "config": {}}}
        with pytest.raises(KubeConfigError, match=r"auth-provider|authProvider"):
            build_config(server, exec_entry(tmp_path / "p"), user)

    def test_transport_argument_is_rejected_i3(self, server: APIServer, tmp_path: Path) -> None:
        config = plugin_config(server, ShellPlugin(tmp_path))
        with pytest.raises(TypeError, match="transport= "):
            kubeauth.Client(config, transport=None)  # type: ignore[call-arg]
