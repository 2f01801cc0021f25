"""`kubeauth proxy`: the flags, and the process. What it passes on is in tests/proxy."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from kubeauth._proxy._filter import Filter
from kubeauth._proxy._serve import Options as Served
from kubeauth.cli import _proxy
from kubeauth.cli._ends import Status
from kubeauth.cli._proxy import Options
from kubeauth.testing import APIServer
from tests.cli.conftest import Run
from tests.cli.programs import environ, started
from tests.support.cases import each_case
from tests.support.residue import wait_until


class Process:
    """The proxy as a process, and where it says that it serves."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        self.process = process
        self.said = process.stdout.readline()
        self.where = self.said.removeprefix("Starting to serve on ").strip()
        self.client = httpx.Client(base_url=f"http://{self.where}", timeout=60, trust_env=False)

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@contextmanager
def proxy(*flags: str, **variables: str) -> Iterator[Process]:
    with started("proxy", *flags, env=environ(**variables)) as process:
        try:
            running = Process(process)
            with running.client:
                yield running
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_in_good_order(api: APIServer, number: signal.Signals) -> None:
    with proxy("--port", "0") as it:
        assert it.said.startswith("Starting to serve on 127.0.0.1:")
        assert it.client.get("/version").json()["major"] == "1"
        assert it.client.get("/version", headers={"Host": "evil.example"}).status_code == 403
        it.process.send_signal(number)
        assert it.ended() == (0, "", "")
    assert [request.user for request in api.requests] == ["alice"]


def _is_refused(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(path) != 0


def test_a_socket(api: APIServer, tmp_path: Path) -> None:
    path = tmp_path / "sock"
    with proxy("--unix-socket", str(path)) as it:
        assert it.said == f"Starting to serve on {path}\n"
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=60) as client:
            assert client.get("http://kube/version").status_code == 200
        it.process.terminate()
        assert it.ended() == (0, "", "")
    assert not path.exists()


def test_metrics(api: APIServer) -> None:
    with proxy("--port", "0", "--metrics-port", "0", "-v", "6") as it:
        assert it.process.stderr
        line = ""
        while not line.startswith("Metrics are on "):
            line = it.process.stderr.readline()
        own = line.split()[-1]
        it.client.get("/version?token=in-the-query", headers={"X-Secret": "in-a-header"})
        assert it.client.get(own.replace("/metrics", "/healthz")).text == "ok"
        assert 'kubeauth_proxy_requests_total{code="2xx",method="GET"} 1.0' in it.client.get(own).text
        it.process.terminate()
        status, _, err = it.ended()
    assert status == 0
    assert "GET /version was answered 200 after" in err
    assert "in-the-query" not in err
    assert "in-a-header" not in err
    assert "alices-token" not in err


def test_what_may_not_be_meant_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    server = "https://rancher.test/k8s/c-1/"
    _proxy._warn(Options(address="192.0.2.7", disable_filter=True), server)
    first, second, third = capsys.readouterr().err.splitlines()
    assert "anybody who can reach 192.0.2.7 has the rights of this kubeconfig" in first
    assert "vulnerable to XSRF attacks" in second
    assert "contains a server path /k8s/c-1, use --append-server-path" in third
    _proxy._warn(Options(), "https://127.0.0.1:6443/")
    _proxy._warn(Options(append_server_path=True), server)
    _proxy._warn(Options(unix_socket="/run/sock", disable_filter=True), server)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("watched", [False, True])
def test_it_ends_in_good_order(
    api: APIServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """In this process. With a watch: who asks twice does not wait for it to end."""
    path, watch = tmp_path / "sock", api.watch("/watch")
    codes: list[int] = []
    served = Options.served

    def for_ever(options: Options) -> Served:
        """Who asks once waits: were it over by then, the second signal would be the end of this process."""
        found = served(options)
        return replace(found, limits=replace(found.limits, grace_seconds=3600.0))

    monkeypatch.setattr(Options, "served", for_ever)

    def ask() -> None:
        wait_until(lambda: not _is_refused(str(path)))
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://kube", timeout=60) as client:
            codes.append(client.get("/version").status_code)
            if not watched:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            with client.stream("GET", "/watch") as answer:
                os.kill(os.getpid(), signal.SIGTERM)
                wait_until(lambda: _is_refused(str(path)))
                os.kill(os.getpid(), signal.SIGTERM)
                with suppress(httpx.TransportError):
                    answer.read()
                codes.append(answer.status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    done = run("proxy", "--unix-socket", path, "--metrics-port", "0")
    asking.join()
    watch.end()
    assert (done.status, done.out) == (Status.OK, f"Starting to serve on {path}\n")
    assert done.err.startswith("Metrics are on http://127.0.0.1:")
    assert codes == [200, 200][: 1 + watched]
    assert not path.exists()


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        (["--port", "x"], Status.USAGE, "'x' is not a port"),
        (["--port", "65536"], Status.USAGE, "'65536' is not a port"),
        (["--metrics-port", "-1"], Status.USAGE, "'-1' is not a port"),
        (["--keepalive=-5s"], Status.USAGE, "'-5s' is less than nothing"),
        (["--unix-socket", ""], Status.USAGE, "this is no path"),
        (["--keepalive", "often"], Status.USAGE, "argument --keepalive: Invalid timeout"),
        (
            ["--unix-socket", "/x", "--port", "1"],
            Status.USAGE,
            "--unix-socket and --port at the same time",
        ),
        (["--accept-hosts", "("], Status.CONFIG, "--accept-hosts: '(' is no regular expression"),
        (["--address", "kube", "--port", "0"], Status.CONFIG, "'kube' is no IP address"),
        (
            ["--port", "0", "--metrics-port", "0", "--metrics-address", "kube"],
            Status.CONFIG,
            "'kube' is no IP address",
        ),
        (["--unix-socket", "/"], Status.CONFIG, "cannot listen on /"),
        (["--port", "0", "--context", "nobody"], Status.CONFIG, "nobody"),
        (["--www", "/x"], Status.USAGE, "unknown flag: --www"),
    ],
)
def test_what_cannot_be(api: APIServer, run: Run, flags: list[str], status: Status, words: str) -> None:
    done = run("proxy", *flags)
    assert (done.status, done.out) == (status, "")
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_port_that_is_taken(api: APIServer, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("proxy", "--port", port)
    assert done.status == Status.CONFIG
    assert f"cannot listen on 127.0.0.1:{port}" in done.err


def test_the_flags() -> None:
    assert Options().filter == Filter()
    assert Options(disable_filter=True).filter is None
    given = Options(
        accept_hosts="a", accept_paths="b", reject_paths="c", reject_methods="d", port=0, address="::1", unix_socket="s",
        api_prefix="/p", append_server_path=True, keepalive=5.0, metrics_port=1, metrics_address="m",
    )  # fmt: skip
    served = given.served()
    assert served.filter == Filter(accept_hosts="a", accept_paths="b", reject_paths="c", reject_methods="d")
    assert (served.address, served.port, served.unix_socket, served.api_prefix) == ("::1", 0, "s", "/p")
    assert (served.append_server_path, served.keepalive) == (True, 5.0)
    assert (served.metrics_port, served.metrics_address) == (1, "m")
    assert _proxy._seconds("1m30s") == 90.0
    assert _proxy._seconds("0") == 0.0


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
@each_case(("soft", "hard", "most"), [(64, 1064, 500), (64, 65, 1), (-1, -1, 10_000), (10, 10**6, 10_000)])
def test_no_more_connections_than_there_are_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int
) -> None:
    import resource

    limits = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(0, new[0]))
    assert Options().served().limits.connections == most


def test_where_there_are_no_such_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert Options().served().limits.connections == 10_000


def test_its_help_warns(run: Run) -> None:
    said = " ".join(run("proxy", "--help").out.split())
    assert "Whoever can reach it has your rights in the cluster." in said
