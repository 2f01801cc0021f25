"""kubectl's global flags, and what they come to."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kubeauth import Secret
from kubeauth.cli import _get
from kubeauth.cli._app import group_parser, parser_of
from kubeauth.cli._ends import Status
from kubeauth.cli._flags import Flags
from kubeauth.testing import APIServer, PluginScript
from tests.cli.conftest import Run
from tests.cli.in_process import run_in_process
from tests.cli.programs import ran
from tests.support.cases import each_case
from tests.support.kubeconfigs import document


def flags(*arguments: str) -> Flags:
    options, unread = parser_of("get").read(["/x", *arguments], _get.Options())
    assert not unread
    return options


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    contents = document(user={"token": "t"})
    contents["clusters"].append({"name": "c2", "cluster": {"server": "https://h2"}})
    contents["users"].append({"name": "u2", "user": {"token": "t2"}})
    contents["contexts"].append({"name": "x2", "context": {"cluster": "c2", "user": "u2", "namespace": "n2"}})
    path = tmp_path / "config"
    path.write_text(json.dumps(contents))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


CA = "/etc/ssl/certs/ca-certificates.crt"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"server": "https://h:6443", "token": Secret("t"), "namespace": "default", "context": "x"}),
        (["--context", "x2"], {"server": "https://h2", "token": Secret("t2"), "namespace": "n2", "context": "x2"}),
        (["--cluster=c2"], {"server": "https://h2", "token": Secret("t"), "context": "x"}),
        (["--user=u2"], {"server": "https://h:6443", "token": Secret("t2")}),
        (["-n", "web"], {"namespace": "web"}),
        (["-nweb"], {"namespace": "web"}),
        (["--namespace=web"], {"namespace": "web"}),
        (["-s", "https://other"], {"server": "https://other"}),
        (["--server", "other:1"], {"server": "https://other:1"}),
        (["--token", "other"], {"token": Secret("other")}),
        (["--insecure-skip-tls-verify"], {"insecure_skip_tls_verify": True}),
        (["--insecure-skip-tls-verify=true"], {"insecure_skip_tls_verify": True}),
        (["--insecure-skip-tls-verify=false"], {"insecure_skip_tls_verify": False}),
        (["--tls-server-name", "n"], {"tls_server_name": "n"}),
        (["--disable-compression"], {"disable_compression": True}),
        (["--kubeconfig", ""], {"server": "https://h:6443"}),
    ],
)  # fmt: skip
def test_a_flag(arguments: list[str], expected: dict[str, Any], kubeconfig: Path) -> None:
    config = flags(*arguments).config()
    assert {name: getattr(config, name) for name in expected} == expected


def test_whom_to_impersonate(kubeconfig: Path) -> None:
    given = [
        "--as=bob",
        "--as-uid=7",
        "--as-group=a",
        "--as-group",
        "b",
        "--as-user-extra=k=1",
        "--as-user-extra",
        "k=2=3",
    ]
    asked = flags(*given).config().impersonate
    assert asked is not None
    assert (asked.user, asked.uid, asked.groups, dict(asked.extra)) == (
        "bob",
        "7",
        ("a", "b"),
        {"k": ("1", "2=3")},
    )


def test_files(kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text("x")
    monkeypatch.chdir(tmp_path)
    given = ["--certificate-authority=ca", "--client-certificate=cert", "--client-key=key"]
    config = flags(*given).config()
    found = (config.ca_file, config.client_cert_file, config.client_key_file)
    assert found == tuple(str(tmp_path / name) for name in ("ca", "cert", "key"))


def test_a_name_and_a_password(kubeconfig: Path, tmp_path: Path) -> None:
    kubeconfig.write_text(json.dumps(document()))
    config = flags("--username=bob", "--password=secret").config()
    assert (config.username, config.password) == ("bob", Secret("secret"))


def test_another_kubeconfig(kubeconfig: Path, tmp_path: Path, run: Run) -> None:
    other = tmp_path / "other"
    other.write_text(json.dumps(document({"server": "https://elsewhere"})))
    assert flags("--kubeconfig", str(other)).config().server == "https://elsewhere"
    ran = run("get", "/x", "--kubeconfig", tmp_path / "missing")
    assert ran.status == Status.CONFIG
    assert "does not exist" in ran.err


def test_whether_a_cluster_was_chosen() -> None:
    assert not flags().choose_a_cluster
    assert not flags("-n", "x", "--request-timeout=5s", "-v", "4").choose_a_cluster
    assert not flags("--kuberc", "x").choose_a_cluster
    assert flags("--context", "x").choose_a_cluster


@each_case(("text", "seconds"), [("5s", 5.0), ("1m30s", 90.0), ("7", 7.0), ("0", None), ("0s", None)])
def test_a_time_limit(text: str, seconds: float | None) -> None:
    assert flags("--request-timeout", text).request_timeout == seconds


@pytest.mark.parametrize("arguments", [["--request-timeout=x"], ["--as-user-extra=x"], ["-v", "x"]])
def test_a_value_that_is_none(arguments: list[str], run: Run) -> None:
    ran = run("get", "/x", *arguments)
    assert (ran.status, ran.out) == (Status.USAGE, "")
    assert ran.err.startswith("error: argument ")


def test_a_secret_is_not_in_what_is_printed_of_them() -> None:
    shown = repr(flags("--token=the-secret", "--password=the-secret"))
    assert "the-secret" not in shown
    assert "<hidden>" in shown


@pytest.mark.oracle
def test_all_of_kubectls_are_there(kubectl: str) -> None:
    """But those about kubectl itself: its cache, its profiler, how its logs are flushed and filtered."""
    listed = ran(kubectl, "options").out
    theirs = set(re.findall(r"^    (?:-\w, )?(--[a-z-]+)=", listed, re.M))
    ours = {flag for action in group_parser("").actions for flag in action.option_strings}
    assert theirs - ours <= {
        "--cache-dir", "--log-flush-frequency", "--match-server-version", "--profile", "--profile-output",
        "--vmodule", "--warnings-as-errors",
    }  # fmt: skip
    assert len(theirs) > 20


@pytest.mark.oracle
@pytest.mark.parametrize(
    "arguments",
    [
        ["--token=other"], ["--as=bob", "--as-group=a", "--as-group=b", "--as-uid=7"], ["--disable-compression"],
        ["--username=u", "--password=p"], ["--context=test", "-n", "x"],
    ],
)  # fmt: skip
def test_they_reach_the_wire_as_with_kubectl(
    arguments: list[str], api: APIServer, kubectl: str, tmp_path: Path, run: Run
) -> None:
    if "--username=u" in arguments:
        (tmp_path / "kubeconfig").write_text(json.dumps(api.kubeconfig({})))
    sent = []
    for command in ([kubectl, "get", "--raw", "/version"], None):
        api.requests.clear()
        _ = ran(*command, *arguments) if command else run("get", "/version", *arguments)
        headers = [(name.lower(), value) for name, value in api.requests[-1].headers]
        about = ("authorization", "impersonate-user", "impersonate-group", "impersonate-uid")
        found = sorted(each for each in headers if each[0] in about)
        sent.append((found, any(name == "accept-encoding" and "gzip" in value for name, value in headers)))
    assert sent[0] == sent[1]


class TestLogs:
    """-v, as levels of kubectl's: to stderr, and never a secret."""

    def logged(self, level: int) -> str:
        done = run_in_process("get", "/version", "-v", level)
        assert done.status == 0
        return done.err

    def test_the_more_the_higher(self, api: APIServer) -> None:
        assert self.logged(0) == ""
        chosen = f"I kubeauth.cli: context test: server {api.url}, namespace default\n"
        assert self.logged(4) == chosen
        requests = self.logged(6)
        assert f"D kubeauth.transport: GET {api.url}/version " in requests
        assert "I httpx: HTTP Request: GET" in requests
        wire = self.logged(8)
        assert "D httpcore.connection: connect_tcp.started" in wire
        for text in (requests, wire, self.logged(99), self.logged(-1)):
            assert "alices-token" not in text

    @pytest.mark.parametrize("lifetime", [900, None])
    def test_what_a_plugin_gave(self, lifetime: float | None, api: APIServer, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(token="alices-token", expires_in=lifetime)
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(api.kubeconfig({"exec": plugin.exec_config()})))
        said = self.logged(4).splitlines()[1]
        until = r", expires \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" if lifetime else ""
        expected = rf"I kubeauth.credentials: plugin {plugin.path} returned a token in \d+\.\d s{until}"
        assert re.fullmatch(expected, said)

    def test_nobody_can_steer_a_terminal_by_them(self) -> None:
        def program(_arguments: Sequence[str]) -> NoReturn:
            Flags(verbosity=4).set_up_logging()
            logging.getLogger("kubeauth.x").info("%s", "two\nlines \x1b[2J")
            raise SystemExit

        assert run_in_process(program=program).err == "I kubeauth.x: two\nlines U+001B[2J\n"

    def test_in_this_process(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ours = logging.getLogger("kubeauth")
        monkeypatch.setattr(logging.root, "handlers", [])
        monkeypatch.setattr(ours, "level", ours.level)
        Flags().set_up_logging()
        ours.warning("no \x1b[2J")
        ours.info("nor this")
        assert capsys.readouterr().err == "W kubeauth: no U+001B[2J\n"
