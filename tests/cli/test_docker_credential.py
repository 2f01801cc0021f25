"""`docker-credential-kubeauth`, run as docker, podman, skopeo and crane run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from kubeauth import __version__
from kubeauth.cli import _docker_credential
from kubeauth.cli._docker_credential import answer, host_of
from kubeauth.cli._ends import Status
from kubeauth.cli._registry_flags import BIN_DIR_VARIABLE, CONFIG_VARIABLE
from kubeauth.registry import RegistryCredential
from tests.cli.in_process import run_in_process
from tests.cli.nodes import Node
from tests.cli.programs import Ran, environ, ran
from tests.support.cases import each_case
from tests.support.residue import is_alive

SENTINEL = "sentinel-of-a-password"
PROGRAM = [sys.executable, "-m", "kubeauth.cli._docker_credential"]
NOT_FOUND = "credentials not found in native keychain\n"


class Asked(Protocol):
    def __call__(self, action: str, server: str = "", *, env: Mapping[str, str] | None = None) -> Ran: ...


@pytest.fixture
def asked() -> Asked:
    """In this process, with what a tool writes to stdin."""

    def ask(action: str, server: str = "", *, env: Mapping[str, str] | None = None) -> Ran:
        return run_in_process(action, env=env, input=server, program=_docker_credential.main)

    return ask


def test_as_a_process(node: Node) -> None:
    """With nothing but an environment and stdin, as tools start it."""
    node.provider("p", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
    done = ran(*PROGRAM, "get", env=node.environ(), input="gcr.io\n")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out) == {"ServerURL": "gcr.io", "Username": "me", "Secret": SENTINEL}
    assert ran(*PROGRAM, "get", env=node.environ(), input="quay.io") == Ran(1, NOT_FOUND, "")


@pytest.mark.parametrize("server", ["gcr.io", "https://gcr.io", "https://gcr.io/v2/\n", "http://gcr.io/"])
def test_get(server: str, node: Node, asked: Asked) -> None:
    script = node.provider("p", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
    done = asked("get", server, env=node.environ())
    assert (done.status, done.err) == (0, "")
    # The server as it was asked for: docker looks whether that is so.
    assert json.loads(done.out) == {"ServerURL": server.strip(), "Username": "me", "Secret": SENTINEL}
    assert [run.request["image"] for run in script.runs] == ["gcr.io/"]


@pytest.mark.parametrize(
    "server", ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "https://registry-1.docker.io"]
)
def test_docker_hub_has_one_name(server: str, node: Node, asked: Asked) -> None:
    """2.9: providers know it as docker.io."""
    node.provider("p", "docker.io", auth={"docker.io": ("me", SENTINEL)})
    assert json.loads(asked("get", server, env=node.environ()).out)["Username"] == "me"


def test_a_registry_with_a_port(node: Node, asked: Asked) -> None:
    node.provider("p", "localhost:5000", auth={"localhost:5000": ("me", SENTINEL)})
    assert asked("get", "localhost:5000", env=node.environ()).status == 0


@each_case(
    ("server", "host"),
    [
        ("gcr.io", "gcr.io"),
        ("HTTPS://gcr.io:443/v2/", "gcr.io:443"),
        ("https://gcr.io/team/app", "gcr.io"),
        ("[::1]:5000", "[::1]:5000"),
        ("https://[::1]:5000/v2/", "[::1]:5000"),
        ("GCR.io", "GCR.io"),
    ],
)
def test_which_registry_is_meant(server: str, host: str) -> None:
    assert host_of(server) == host


SPOOFED = [
    "evil.example?@gcr.io",
    "https://evil.example#@gcr.io",
    "http\u017f://gcr.io",
    "https://evil.example#@gcr.io/",
    "https://evil.example/@gcr.io",
    "evil.example/@gcr.io",
    "evil.example\\@gcr.io",
    "https://evil.example\\@gcr.io",
    "https://evil.example\\.gcr.io",
    "gcr.io\\@evil.example",
    "https://me:s3ntinel@gcr.io/",
    "https://me@gcr.io",
    "evil.example:80@gcr.io",
    "https://evil.example%2f@gcr.io",
    "https://gcr.io%2eevil.example",
    "https://gcr%2eio",
    "https://gcr.io?evil.example",
    "https://gcr.io#evil.example",
    "https://gcr.io;evil.example",
    "https://evil.example\t@gcr.io",
    "https://evil.example \ngcr.io",
    "evil.example\ngcr.io",
    "gcr.io\x00.evil.example",
    "gcr.io\x1f",
    "gcr.io\x7f",
    "g\u0441r.io",  # a Cyrillic letter
    "gcr\u3002io",  # an ideographic full stop, which IDNA reads as a dot
    "gcr.io\uff0fevil.example",
    "gcr.io\u2044@evil.example",
    "\uff47cr.io",
    "gcr.io\u00ad",
    "gcr.io\u00a0",
    "gcr.io:",
    "gcr.io:443:80",
    "gcr.io:x",
    "gcr.io:\u0664\u0664",
    "[gcr.io]",
    "[::1",
    "[::1]gcr.io",
    "[::1%25gcr.io]",
    "gcr.io.",
    ".gcr.io",
    "-gcr.io",
    "ftp://gcr.io",
    "//gcr.io",
    "https:gcr.io",
    "https://https://gcr.io",
    "https:///gcr.io",
    "https://",
    "*",
    "*.io",
]


@pytest.mark.attack(
    "docker-credential-kubeauth",
    "server URLs with two hosts: `evil.example?@gcr.io`, user names, fragments, backslashes, escapes, IDNA lookalikes",
    "an error; no provider is run",
)
@pytest.mark.parametrize("server", SPOOFED)
def test_a_url_in_which_two_hosts_could_be_read_gets_no_credential(
    server: str, node: Node, asked: Asked
) -> None:
    script = node.provider(
        "p",
        "gcr.io",
        "evil.example",
        "*.io",
        auth={"gcr.io": ("me", SENTINEL), "evil.example": ("me", SENTINEL)},
    )
    done = asked("get", server, env=node.environ())
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("error: the server URL is not a registry. It must be host, host:port or ")
    assert "s3ntinel" not in done.out
    assert not script.runs


def test_the_first_of_several_is_told(node: Node, asked: Asked) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("first", SENTINEL)})
    node.provider("q", "gcr.io", auth={"gcr.io": ("second", SENTINEL)})
    assert json.loads(asked("get", "gcr.io", env=node.environ()).out)["Username"] == "first"


def test_an_identity_token_goes_by_a_name_of_its_own() -> None:
    said = json.loads(answer("gcr.io", RegistryCredential("me", "word", identity_token=SENTINEL)))
    assert said == {"ServerURL": "gcr.io", "Username": "<token>", "Secret": SENTINEL}


@pytest.mark.parametrize("auth", [{}, {"quay.io": ("me", SENTINEL)}, {"gcr.io": ("", "")}])
def test_there_is_none(auth: dict[str, tuple[str, str]], node: Node, asked: Asked) -> None:
    """In the words that tools know: then they ask as nobody."""
    node.provider("p", "gcr.io", auth=auth)
    assert asked("get", "gcr.io", env=node.environ()) == Ran(1, NOT_FOUND, "")
    assert asked("get", "quay.io", env=node.environ()) == Ran(1, NOT_FOUND, "")


def test_providers_for_paths_alone_are_named(node: Node, asked: Asked) -> None:
    script = node.provider("p", "gcr.io/team", "gcr.io/other")
    node.provider("q", "quay.io/team")
    node.provider("r", "gcr.io/team", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
    done = asked("get", "gcr.io", env=node.environ())
    assert done.status == 0
    assert done.err == (
        "docker-credential-kubeauth: provider p is not asked: it is for some repositories of gcr.io, and "
        "docker's protocol names the registry alone. Add a pattern without a path to its matchImages.\n"
    )
    assert not script.runs


def test_a_provider_that_fails_is_told_on_stderr(node: Node, asked: Asked) -> None:
    """As with the kubelet it is as if it gave nothing, so that what is public can be had."""
    node.provider("p", "gcr.io", exit_code=1, stderr="no \x1b[31mmetadata server")
    done = asked("get", "gcr.io", env=node.environ())
    assert (done.status, done.out) == (1, NOT_FOUND)
    assert done.err.startswith("docker-credential-kubeauth: provider p gave no credentials for gcr.io/:")
    assert "no U+001B[31mmetadata server" in done.err


@pytest.mark.parametrize("action", ["store", "erase"])
def test_nothing_is_kept(action: str, asked: Asked) -> None:
    given = json.dumps({"ServerURL": "gcr.io", "Username": "me", "Secret": SENTINEL})
    done = asked(action, given)
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith(f"kubeauth keeps no credentials, so there is none to {action}: ")
    assert SENTINEL not in done.out


def test_list_and_version(asked: Asked) -> None:
    assert asked("list", "unused") == Ran(0, "{}\n", "")
    assert asked("version") == Ran(0, f"docker-credential-kubeauth (kubeauth) {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["get", "more"], ["nonsense"]])
def test_it_says_how_it_is_used(arguments: list[str]) -> None:
    usage = "Usage: docker-credential-kubeauth <get|list|store|erase|version>\n"
    assert run_in_process(*arguments, program=_docker_credential.main) == Ran(1, usage, "")


@pytest.mark.parametrize("argument", ["--help", "-h", "help"])
def test_it_says_what_it_needs(argument: str) -> None:
    done = run_in_process(argument, program=_docker_credential.main)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Usage: docker-credential-kubeauth <get|")
    assert '"credHelpers"' in done.out
    assert CONFIG_VARIABLE in done.out
    assert BIN_DIR_VARIABLE in done.out


class TestErrorsAreOnStdout:
    """Where the tool looks for them."""

    def test_no_server(self, node: Node, asked: Asked) -> None:
        assert asked("get", " \n", env=node.environ()) == Ran(1, "no credentials server URL\n", "")

    def test_no_variables(self, node: Node, asked: Asked) -> None:
        done = asked("get", "gcr.io", env=environ(KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG="/x"))
        assert (done.status, done.err) == (1, "")
        assert (
            "needs KUBEAUTH_CREDENTIAL_PROVIDER_CONFIG and KUBEAUTH_CREDENTIAL_PROVIDER_BIN_DIR" in done.out
        )

    def test_a_configuration_that_is_refused(self, node: Node, asked: Asked) -> None:
        node.config.write_text("{}")
        done = asked("get", "gcr.io", env=node.environ())
        assert (done.status, done.err) == (1, "")
        assert done.out.startswith("error: Object 'kind' is missing")

    def test_what_is_no_registry(self, node: Node, asked: Asked) -> None:
        node.provider("p", "gcr.io")
        done = asked("get", "gcr io\x1b", env=node.environ())
        assert (done.status, done.err) == (1, "")
        assert "is not a registry" in done.out
        assert "\x1b" not in done.out

    def test_bytes_that_are_no_text(self, node: Node) -> None:
        node.provider("p", "gcr.io")
        done = run_in_process("get", env=node.environ(), input=b"\xff\xfe", program=_docker_credential.main)
        assert done.status == 1
        assert done.out.startswith("error: ")

    def test_a_fault_of_ours(
        self, node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", object())
        with pytest.raises(SystemExit) as ended:
            _docker_credential.main(["get"])
        assert ended.value.code == 1
        assert "This is a fault of kubeauth" in capsys.readouterr().out

    def test_a_stdin_that_cannot_be_read(self, node: Node) -> None:
        for stdin, said in (("<&-", "no credentials server URL\n"), ("0>/dev/null", "error: ")):
            done = ran("sh", "-c", f'"$@" {stdin}', "sh", *PROGRAM, "get", env=node.environ())
            assert (done.status, done.err) == (1, "")
            assert done.out.startswith(said)

    def test_no_stdout_at_all(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        with pytest.raises(SystemExit) as ended:
            _docker_credential.main(["list"])
        assert ended.value.code == 1
        assert capsys.readouterr().err == "error: stdout is closed, and the answer is told there\n"

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
    @pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
    def test_a_stderr_that_cannot_be_written_changes_nothing(self, stderr: str, node: Node) -> None:
        node.provider("p", "gcr.io/team")  # which is reported
        node.provider("r", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
        done = ran("sh", "-c", f'"$@" {stderr}', "sh", *PROGRAM, "get", env=node.environ(), input="gcr.io")
        assert (done.status, done.err) == (0, "")
        assert json.loads(done.out)["Secret"] == SENTINEL

    @pytest.mark.parametrize("action", ["get", "list", "nonsense"])
    def test_a_stdout_that_cannot_be_written(self, action: str, node: Node) -> None:
        """An answer or an error: it is said in one line, where it can be."""
        for stdout in (">&-", ">/dev/full"):
            done = ran(
                "sh", "-c", f'"$@" {stdout}', "sh", *PROGRAM, action, env=node.environ(), input="gcr.io"
            )
            assert (done.status, done.out) == (1, "")
            assert done.err.startswith("error: ")
            assert len(done.err.splitlines()) == 1


def test_it_starts_with_next_to_nothing(node: Node, tmp_path: Path) -> None:
    node.provider("p", "gcr.io", auth={"gcr.io": ("me", SENTINEL)})
    program = """
import sys
from kubeauth.cli._docker_credential import main
sys.argv[0] = "docker-credential-kubeauth"
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
    env = node.environ(COVERAGE_PROCESS_START="")
    found = set(ran(sys.executable, "-c", program, "get", env=env, input="gcr.io").err.split())
    assert "subprocess" in found
    heavy = {
        "httpx",
        "httpcore",
        "anyio",
        "asyncio",
        "ssl",
        "yaml",
        "cryptography",
        "prometheus_client",
        "rich",
    }
    assert not found & heavy
    assert not {"subprocess", "logging", *heavy} & set(
        ran(sys.executable, "-c", program, "list", env=env, input="").err.split()
    )


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_provider_is_ended_with_it(number: int, node: Node) -> None:
    script = node.provider("p", "gcr.io")
    script.path.write_text(f'#!/bin/sh\necho $$ > "{script.path}.pid"\nexec sleep 60\n')
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from kubeauth.cli._docker_credential import main; main()"
    pid_file = Path(f"{script.path}.pid")
    with subprocess.Popen(
        [sys.executable, "-c", code, "get"],
        env=node.environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write("gcr.io")
        process.stdin.close()
        process.stdin = None
        for _ in range(3000):
            if pid_file.exists() and pid_file.read_text().strip():
                break
            time.sleep(0.02)
        pid = int(pid_file.read_text())
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == (Status.TERMINATED if number == signal.SIGTERM else Status.INTERRUPTED)
    assert not is_alive(pid)
