"""`kubeauth gmsa serve`: the flags, and the process. What it serves is in tests/gmsa."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from kubeauth.cli._ends import Status
from kubeauth.cli._gmsa_serve import Options
from kubeauth.gmsa import Policy
from kubeauth.testing import APIServer, Authority
from tests.cli.conftest import Run
from tests.cli.programs import KUBEAUTH, environ
from tests.gmsa.api import KnownSpecs
from tests.gmsa.pods import container, pod
from tests.gmsa.test_review import review
from tests.gmsa.test_serve import JSON
from tests.support.ports import free_port

VARIABLES = ("TLS_CRT", "TLS_KEY", "HTTPS_PORT", "QPS", "BURST", "RANDOM_HOSTNAME", "LOG_LEVEL")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def files(tmp_path: Path, ca: Authority) -> tuple[str, str]:
    """A certificate, and its key."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    ca.server("127.0.0.1").write(certificate, key)
    return str(certificate), str(key)


def until_it_answers(url: str, trust: ssl.SSLContext, process: subprocess.Popen[bytes]) -> httpx.Response:
    for _ in range(1200):
        assert process.poll() is None, "it has ended"
        try:
            return httpx.get(url, verify=trust, timeout=10)
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("it does not answer")


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_in_good_order_b76_b80(
    api: APIServer, ca: Authority, files: tuple[str, str], tmp_path: Path, ends: signal.Signals
) -> None:
    KnownSpecs(api)
    port = free_port()
    url, trust = f"https://127.0.0.1:{port}", ssl.create_default_context(cadata=ca.pem.decode())
    flags = [
        "--tls-crt",
        files[0],
        "--https-port",
        str(port),
        "--host",
        "127.0.0.1",
        "--compat",
        "--cert-reload=true",
    ]
    # What flags say counts before what the environment says; what they do not say is as it says.
    variables = environ(
        TLS_CRT="/nowhere", TLS_KEY=files[1], HTTPS_PORT="1", RANDOM_HOSTNAME="true", LOG_LEVEL="debug"
    )
    body = review(object=pod("web-spec", containers=[], initContainers=[container("a", None, "{}")]))
    log = tmp_path / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*KUBEAUTH, "gmsa", "serve", *flags], env=variables, stdout=written, stderr=written
        )
    try:
        assert until_it_answers(f"{url}/health", trust, process).status_code == 204
        for path in ("/mutate", "/validate"):
            reply = httpx.post(f"{url}{path}", content=body, headers=JSON, verify=trust, timeout=60).json()
            assert reply["response"]["allowed"]  # --compat: nobody looks at init containers
        process.send_signal(ends)
        assert process.wait(50) == 0
    finally:
        process.kill()
        process.wait(30)
    said = log.read_text()
    assert "patches=2" in said  # contents, and a hostname
    assert "has answered everybody, and ends" in said
    assert said.splitlines()[0][:2] == "20"  # the time, in each line
    assert "Traceback" not in said


def test_flags_count_before_the_environment_b76(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "theirs")
    assert {name: Options().environ[name] for name in VARIABLES} == dict.fromkeys(VARIABLES, "theirs")
    given = Options(
        tls_crt="c", tls_key="k", https_port="1", qps="2", burst="3", random_hostname=True, log_level="warn"
    )
    assert [given.environ[name] for name in VARIABLES] == ["c", "k", "1", "2", "3", "true", "warn"]


@pytest.mark.parametrize(
    ("given", "level"),
    [(Options(), None), (Options(verbosity=6), "debug"), (Options(verbosity=8, log_level="error"), "error")],
)
def test_how_much_it_says(given: Options, level: str | None) -> None:
    assert given.environ.get("LOG_LEVEL") == level


def test_what_it_decides_by() -> None:
    assert Options().policy == Policy()
    everything = Options(codes="seed", check_requesting_user=True, compat=True)
    assert everything.policy == Policy(codes="seed", check_requesting_user=True, compat=True)
    assert Options(mode="alpha").policy == Policy(mode="alpha")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--https-port", "0"], "'0' is not a port"),
        (["--https-port", "x"], "'x' is not a port"),
        (["--https-port", "\uff14\uff14\uff13"], "is not a port"),
        (["--burst", "1_000"], "'1_000' is not a whole number"),
        (["--qps", "0"], "'0' is not a number of questions"),
        (["--qps", "nan"], "'nan' is not a number of questions"),
        (["--burst", "1.5"], "'1.5' is not a whole number"),
        (["--log-level", "loud"], "'loud' is not a level"),
        (["--mode", "beta"], "'beta' is none of: fields, alpha"),
        (["--codes", "mine"], "'mine' is none of: shipped, seed"),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(run: Run, flags: list[str], words: str) -> None:
    """Unlike a variable, which would merely not count (B76): whoever types it is there to mend it."""
    done = run("gmsa", "serve", *flags)
    assert (done.status, done.out) == (Status.USAGE, "")
    assert words in done.err


def test_what_is_missing_is_said_b76(api: APIServer, run: Run, files: tuple[str, str]) -> None:
    done = run("gmsa", "serve")
    assert (done.status, done.out) == (Status.CONFIG, "")
    assert "--tls-crt" in done.err
    done = run("gmsa", "serve", "--tls-crt", files[0], "--tls-key", "/nowhere")
    assert (done.status, "/nowhere: No such file" in done.err) == (Status.CONFIG, True)
    done = run("gmsa", "serve", "--mode", "alpha", "--compat", "--tls-crt", files[0], "--tls-key", files[1])
    assert (done.status, "Use one of the two" in done.err) == (Status.CONFIG, True)


def test_a_port_that_is_taken(api: APIServer, run: Run, files: tuple[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("gmsa", "serve", "--tls-crt", files[0], "--tls-key", files[1], "--https-port", port)
    assert done.status == Status.CONFIG
    assert f"cannot listen on port {port}" in done.err


def test_an_address_that_is_not_this_machines(api: APIServer, run: Run, files: tuple[str, str]) -> None:
    done = run("gmsa", "serve", "--tls-crt", files[0], "--tls-key", files[1], "--host", "192.0.2.1")
    assert done.status == Status.CONFIG
    assert "cannot listen on 192.0.2.1" in done.err
    assert "--host" in done.err


def test_without_the_extra_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    done = run("gmsa", "serve", "--tls-crt", "a", "--tls-key", "b")
    assert done.status == Status.FAILED
    assert "this command needs starlette. Install it: pip install 'kubeauth[gmsa]'" in done.err


def test_its_help_names_every_variable(run: Run) -> None:
    said = run("gmsa", "serve", "--help").out
    assert [name for name in VARIABLES if f"${name}" not in said] == []
    assert os.environ.get("TLS_CRT") is None
