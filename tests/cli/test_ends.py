"""How commands end: exit statuses, and what is said when something went wrong."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from kubeauth import __version__, errors
from kubeauth.cli import _whoami, main
from kubeauth.cli._ends import End, Failed, Status, end_of, fault_of
from kubeauth.testing import Answer, APIServer, Authority, PluginScript, Watch
from tests.cli.conftest import Run
from tests.cli.programs import KUBEAUTH, ran, started
from tests.support.cases import each_case

ROOT = Path(__file__).parent.parent.parent
DOCTOR = "`kubeauth doctor` looks for the reason, step by step.\n"


def test_the_table_in_the_docs_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    section = text.partition("## Exit codes\n")[2].partition("\n## ")[0].replace("\\|", "|")
    listed = re.findall(r"^\| *(\d+) *\| (.*?) *\|$", section, re.M)
    assert listed == [(str(status.value), _docstring_of(status)) for status in Status]


def _docstring_of(status: Status) -> str:
    source = (ROOT / "kubeauth" / "cli" / "_ends.py").read_text()
    found = re.search(rf'    {status.name} = {status.value}\n(?:    """(.*)"""\n)?', source)
    assert found
    return found[1] or "It worked."


class TestErrors:
    @each_case(
        ("error", "status", "said"),
        [
            (Failed("no"), Status.FAILED, "no"),
            (Failed("no", Status.USAGE), Status.USAGE, "no"),
            (KeyboardInterrupt(), Status.INTERRUPTED, ""),
            (BrokenPipeError(), Status.NO_READER, ""),
            (OSError(28, "No space left on device"), Status.FAILED, "error: No space left on device"),
            (OSError(13, "Permission denied", "/x"), Status.FAILED, "error: Permission denied: /x"),
            (errors.ConfigError("c"), Status.CONFIG, "error: c"),
            (errors.KubeConfigError("k"), Status.CONFIG, "error: k"),
            (errors.PluginNotAllowed("p", command="x", policy="y"), Status.CONFIG, "error: p"),
            (errors.TLSError("t"), Status.CONFIG, "error: t"),
            (errors.ClientCertificateError("t"), Status.CONFIG, "error: t"),
            (errors.CredentialError("c"), Status.CREDENTIAL, "error: c"),
            (errors.PluginTimeout("p", command="x", timeout=1), Status.CREDENTIAL, "error: p"),
            (errors.KubeAuthError("k"), Status.FAILED, "error: k"),
        ],
    )  # fmt: skip
    def test_each_has_its_status(self, error: BaseException, status: Status, said: str) -> None:
        end = end_of(error)
        assert end is not None
        assert (end.status, end.message) == (status, said)

    def test_a_fault_of_ours_is_none_of_them(self) -> None:
        assert end_of(KeyError("x")) is None
        assert end_of(SystemExit(0)) is None
        assert fault_of(SystemExit(0)) is None

    def test_without_httpx_no_error_is_one_of_its(self, monkeypatch: pytest.MonkeyPatch) -> None:
        error = httpx.ConnectError("x")
        assert end_of(error) is not None
        monkeypatch.delitem(sys.modules, "httpx")
        assert end_of(error) is None


class TestNoAnswer:
    """In kubectl's words, as far as it has any."""

    def test_refused(self, run: Run, api: APIServer) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        ran = run("get", "/version", "-s", f"https://127.0.0.1:{port}")
        said = f"The connection to the server 127.0.0.1:{port} was refused - did you specify the right host or port?"
        assert ran == (Status.UNREACHABLE, "", f"{said}\n{DOCTOR}")

    @pytest.mark.oracle
    def test_refused_as_by_kubectl(self, api: APIServer, kubectl: str, run: Run) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            server = f"https://127.0.0.1:{unused.getsockname()[1]}"
        theirs = ran(kubectl, "get", "--raw", "/version", "-s", server).err
        assert run("get", "/version", "-s", server).err == theirs + DOCTOR

    def test_a_name_that_nobody_has(self, run: Run, api: APIServer) -> None:
        ran = run("get", "/version", "-s", "https://nobody.invalid")
        assert ran.status == Status.UNREACHABLE
        assert ran.err.startswith("Unable to connect to the server nobody.invalid: ")

    def test_a_proxy_that_is_not_there(self, run: Run, api: APIServer, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            proxy = f"127.0.0.1:{unused.getsockname()[1]}"
        document = api.kubeconfig({"token": "x"}, {"proxy-url": f"http://me:SENTINEL@{proxy}"})
        (tmp_path / "proxied").write_text(json.dumps(document))
        ran = run("get", "/version", "--kubeconfig", tmp_path / "proxied")
        assert ran.status == Status.UNREACHABLE
        said = f"The way to it is through the proxy {proxy}, from proxy-url of the cluster."
        assert ran.err.endswith(f"\n{said}\n{DOCTOR}")
        assert "SENTINEL" not in ran.err

    def test_a_certificate_that_is_not_accepted(self, run: Run, api: APIServer, tmp_path: Path) -> None:
        (tmp_path / "ca").write_bytes(Authority().pem)
        ran = run("whoami", "--certificate-authority", tmp_path / "ca")
        assert ran.status == Status.UNREACHABLE
        assert re.match(
            "Unable to connect to the server: the certificate of .* is signed by an unknown", ran.err
        )
        assert ran.err.endswith(DOCTOR)

    def test_a_server_that_hangs_up(self, run: Run, api: APIServer) -> None:
        api.on("GET", "/x", Answer(hang_up=True))
        ran = run("get", "/x")
        assert ran.status == Status.UNREACHABLE
        host = api.url.removeprefix("https://")
        assert ran.err.startswith(f"The connection to the server {host} was lost: ")

    def test_an_answer_that_breaks_off(self, run: Run, api: APIServer) -> None:
        answer = Answer(body=b"{}", headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
        api.on("GET", "/x", answer)
        assert run("get", "/x").status == Status.UNREACHABLE

    def test_a_server_that_does_not_take_connections(self, run: Run, api: APIServer) -> None:
        end = end_of(httpx.ConnectTimeout("", request=httpx.Request("GET", "https://h:1/x")))
        assert end is not None
        assert (
            end.message
            == f"Unable to connect to the server h:1: it did not answer in time\n{DOCTOR}".rstrip()
        )

    def test_an_error_without_words_or_a_request(self) -> None:
        end = end_of(httpx.ReadError(""))
        assert end is not None
        assert end.message.startswith("The connection to the server was lost: ReadError\n")

    def test_http_where_tls_should_be(self, run: Run, api: APIServer) -> None:
        with APIServer(tls=False) as plain:
            ran = run("get", "/version", "-s", plain.url.replace("http:", "https:"))
        assert ran.status == Status.UNREACHABLE
        assert ran.err.startswith("Unable to connect to the server: [SSL")


class TestConfig:
    def test_no_kubeconfig(self, run: Run) -> None:
        ran = run("get", "/version")
        assert (ran.status, ran.out) == (Status.CONFIG, "")
        assert ran.err.startswith("error: invalid configuration: no configuration has been provided")

    def test_a_ca_that_is_none(self, run: Run, api: APIServer, tmp_path: Path) -> None:
        (tmp_path / "ca").write_text("nonsense")
        assert run("get", "/version", "--certificate-authority", tmp_path / "ca").status == Status.CONFIG

    def test_a_plugin_that_fails(self, run: Run, api: APIServer, tmp_path: Path) -> None:
        plugin = PluginScript(tmp_path)
        plugin.answer(exit_code=1)
        path = tmp_path / "with-plugin"
        path.write_text(json.dumps(api.kubeconfig({"exec": plugin.exec_config()})))
        ran = run("get", "/version", "--kubeconfig", path)
        assert (ran.status, ran.out) == (Status.CREDENTIAL, "")
        assert "failed with exit code 1" in ran.err


class TestFaults:
    """Of ours. Where they are is told, and no values."""

    @pytest.fixture
    def at_fault(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(options: _whoami.Options) -> int:
            secret = {options.token.reveal(): 1}
            try:
                return secret["another-secret"]
            except KeyError:
                raise ValueError(f"it was {secret}") from None

        monkeypatch.setattr(_whoami, "run", run)

    def test_no_value_is_shown(self, at_fault: None, run: Run) -> None:
        ran = run("whoami", "--token", "the-secret")
        assert (ran.status, ran.out) == (Status.FAULT, "")
        assert ran.err.startswith("error: unexpected ValueError, in:\n  File ")
        assert "because of KeyError, in:\n" in ran.err
        assert "please report it" in ran.err
        assert "the-secret" not in ran.err

    def test_unless_it_is_asked_for(self, at_fault: None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBEAUTH_TRACEBACK", "1")
        ran = run("whoami", "--token", "the-secret")
        assert ran.status == Status.FAULT
        assert ran.err.startswith("Traceback (most recent call last):\n")
        assert "ValueError: it was {'the-secret': 1}" in ran.err


class TestProcesses:
    def test_ctrl_c_while_a_server_takes_its_time(self, api: APIServer) -> None:
        watch = Watch()
        api.on("GET", "/slow", watch)
        with started("get", "/slow") as process:
            watch.wait_for_watchers(timeout=60)
            process.send_signal(signal.SIGINT)
            assert process.communicate() == ("", "")
        watch.end()
        assert process.returncode == Status.INTERRUPTED

    def test_a_reader_that_is_gone(self, api: APIServer) -> None:
        api.on("GET", "/long", Answer(body=b"x" * 1_000_000, headers={"Content-Type": "text/plain"}))
        script = '"$@" | head -c 10; echo " ${PIPESTATUS[0]}"'
        assert ran("bash", "-c", script, "bash", *KUBEAUTH, "get", "/long") == (0, "xxxxxxxxxx 141\n", "")

    def test_an_stderr_that_is_gone(self) -> None:
        closed = ran("sh", "-c", '"$@" 2>&-; echo $?', "sh", *KUBEAUTH, "nonsense")
        assert closed == (0, "2\n", "")

    def test_python_m_kubeauth(self) -> None:
        assert ran(sys.executable, "-m", "kubeauth", "--version") == (0, f"kubeauth {__version__}\n", "")


def test_an_end_is_told_in_words_that_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert End(Status.FAILED, "no \x1b[2J\nway").told() is Status.FAILED
    assert capsys.readouterr().err == "no U+001B[2J\nway\n"


def test_an_output_that_is_no_file_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert End(Status.NO_READER, closes_output=True).told() is Status.NO_READER
    print("still there")
    assert capsys.readouterr().out == "still there\n"


def test_help_is_no_error_of_main(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "usage: kubeauth" in capsys.readouterr().out
