"""What is wrong with one cluster is in its answer, by kind, and harms no other."""

from __future__ import annotations

import gzip
import socket
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from kubeauth.errors import KubeConfigError, ServerCertificateError
from kubeauth.fleet import Failure
from kubeauth.fleet._plan import TooLarge
from kubeauth.testing import Answer, APIServer, Authority
from tests.cli.answers import status
from tests.fleet.fleets import RUNTIMES, Fleet, ask, dead_port
from tests.support.raw_server import RawServer, ServerConnection, once
from tests.support.residue import no_residue

pytestmark = pytest.mark.parametrize("runtime", RUNTIMES)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_each_failure_is_told_by_its_kind_beside_those_who_answer(
    runtime: str, server: APIServer, stack: ExitStack, tmp_path: Path
) -> None:
    made = Fleet()
    expected: dict[str, Failure | None] = {}

    def add(failure: Failure | None, name: str, *args: Any, **more: Any) -> None:
        made.add(name, *args, **more)
        expected[name] = failure

    def raw(answer: bytes) -> str:
        return stack.enter_context(RawServer(once(answer))).url

    refusing = stack.enter_context(APIServer(authority=server.authority))
    refusing.on("GET", "/version", status(403, "Forbidden", "not for you"))
    broken = stack.enter_context(APIServer(authority=server.authority))
    broken.on("GET", "/version", Answer(500, b"boom"))
    endless = stack.enter_context(APIServer(authority=server.authority))
    endless.on("GET", "/version", lambda _: Answer(chunks=(b"x" * 65536 for _ in iter(int, 1))))
    stranger = stack.enter_context(APIServer())

    add(None, "good-1", server)
    add(Failure.UNREACHABLE, "dead", stack.enter_context(dead_port()))
    add(Failure.UNAUTHORIZED, "unknown-token", server, {"token": "nobodys"})
    add(Failure.REFUSED, "forbidden", refusing)
    add(Failure.REFUSED, "out-of-order", broken)
    add(Failure.TOO_LARGE, "endless", endless)
    add(Failure.UNREACHABLE, "garbage", raw(b"\x00\x01 this is no HTTP\r\n\r\n"))
    add(Failure.UNREACHABLE, "hangs-up", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"))
    add(Failure.UNREACHABLE, "no-gzip", raw(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"))  # fmt: skip
    add(Failure.UNREACHABLE, "other-authority", stranger.url, authority=server.authority)
    add(Failure.CONFIG, "no-cluster", server)
    made.contexts["no-cluster"]["cluster"] = "nowhere"
    add(Failure.CONFIG, "no-user", server)
    made.contexts["no-user"]["user"] = "nobody"
    add(Failure.CONFIG, "two-ways-in", server, {"token": "alices-token", "username": "bob"})
    add(Failure.CONFIG, "bad-server", "ftp://127.0.0.1")
    add(Failure.CONFIG, "bad-ca", server)
    made.clusters["bad-ca-cluster"]["certificate-authority-data"] = "bm9uZQ=="
    add(Failure.CONFIG, "no-token-file", server, {"tokenFile": str(tmp_path / "none")})
    add(Failure.CONFIG, "empty-token-file", server, {"tokenFile": "/dev/null"})
    add(Failure.CREDENTIAL, "no-plugin", server, {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "interactiveMode": "Never"}})  # fmt: skip
    add(None, "good-2", server)

    with no_residue():
        report = ask(runtime, "/version", kubeconfig=made.document, max_bytes=2**20)
    assert {answer.context: answer.failure for answer in report} == expected
    found = {answer.context: answer for answer in report}
    assert isinstance(found["no-cluster"].error, KubeConfigError)
    assert isinstance(found["dead"].error, httpx.ConnectError)
    assert isinstance(found["other-authority"].error, ServerCertificateError)
    assert isinstance(found["endless"].error, TooLarge)
    assert found["endless"].body == b""
    assert found["forbidden"].reason == "403 Forbidden: not for you"
    assert found["out-of-order"].body == b"boom"
    assert found["no-user"].user == "nobody"
    assert found["no-user"].server == ""
    assert all(answer.reason for answer in report.failed)
    assert sum(report.failures.values()) == len(report) - 2


def packed(size: int) -> bytes:
    return gzip.compress(b"x" * size, mtime=0)  # each process that runs tests must find the same


@pytest.mark.parametrize(
    ("encoding", "body", "failure"),
    [
        ("gzip", packed(1000), None),
        ("X-GZIP", packed(500) + packed(500), None),
        ("identity", b"x" * 1000, None),
        ("gzip", packed(1_000_000), Failure.TOO_LARGE),  # a thousand bytes, as they are sent
        ("gzip", packed(1000) + packed(1001), Failure.TOO_LARGE),
        ("gzip", packed(1000)[:-1], Failure.UNREACHABLE),
        ("br", b"x", Failure.UNREACHABLE),
        ("gzip", packed(0) * 1000, Failure.UNREACHABLE),  # each costs a copy of all that follow
    ],
    ids=["gzip", "two members", "identity", "too large", "two too large", "cut off", "unasked", "too many"],
)
def test_what_is_packed_is_unpacked_and_no_further_than_it_may(
    runtime: str, server: APIServer, encoding: str, body: bytes, failure: Failure | None
) -> None:
    server.on("GET", "/packed", Answer(200, body, {"Content-Encoding": encoding}))
    made = Fleet()
    made.add("c", server)
    (answer,) = ask(
        runtime, "/packed", kubeconfig=made.document, max_bytes=2000 if len(body) < 2000 else 2**20
    )
    assert answer.failure == failure
    assert answer.body == (b"" if failure else b"x" * 1000)
    assert server.requests[0].header("accept-encoding") == "gzip"


def test_compression_may_be_turned_off(runtime: str, server: APIServer) -> None:
    made = Fleet()
    made.add("c", server)
    made.clusters["c-cluster"]["disable-compression"] = True
    assert ask(runtime, "/version", kubeconfig=made.document).ok
    assert server.requests[0].header("accept-encoding") is None


def silent(connection: ServerConnection) -> None:
    connection.read_request()
    connection.wait_closed()


def dripping(connection: ServerConnection) -> None:
    """Always something new within any limit for one read, and never all of it."""
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\n")
    connection.stream.settimeout(0.02)
    while True:
        try:
            if not connection.stream.recv(1):
                return
        except TimeoutError:
            connection.send(b"X-More: of it\r\n")


def half_a_body(connection: ServerConnection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    connection.wait_closed()


@pytest.mark.slow
@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("conversation", [silent, dripping, half_a_body])
def test_who_is_too_slow_is_left_when_the_time_is_up(
    runtime: str, authority: Authority, conversation: Any, tls: bool
) -> None:
    pair = authority.server("127.0.0.1") if tls else None
    with RawServer(conversation, pair=pair) as server:
        made = Fleet()
        for number in range(3):
            made.add(f"c{number}", server.url, authority=authority if tls else None)
        with no_residue():
            report = ask(runtime, "/version", kubeconfig=made.document, timeout=0.5)
        assert report.failures == {Failure.TIMEOUT: 3}
        assert isinstance(report[0].error, httpx.TimeoutException)
        assert report[0].server == server.url


def test_who_never_shakes_hands_is_left_too(runtime: str, authority: Authority) -> None:
    made = Fleet()
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the system connects; nobody takes it up
        made.add("c", f"https://127.0.0.1:{listening.getsockname()[1]}", authority=authority)
        with no_residue():
            report = ask(runtime, "/version", kubeconfig=made.document, timeout=0.3)
    assert report.failures == {Failure.TIMEOUT: 1}


def test_an_error_that_is_kept_keeps_nothing_alive(runtime: str, server: APIServer, stack: ExitStack) -> None:
    made = Fleet()
    made.add("dead", stack.enter_context(dead_port()), {"token": "s3ntinel"})
    report = ask(runtime, "/version", kubeconfig=made.document)
    error = report[0].error
    assert isinstance(error, httpx.ConnectError)
    links: list[BaseException | None] = [error]
    for link in links:
        assert link is None or link.__traceback__ is None
        if link is not None and link.__cause__ not in links:
            links.append(link.__cause__)
    assert error.request.extensions == {}
    assert "s3ntinel" not in "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(report[0])


def test_redirects_are_followed_and_not_for_ever(runtime: str, server: APIServer) -> None:
    server.on("GET", "/moved", Answer(302, headers={"Location": "/version"}))
    server.on("GET", "/round", Answer(302, headers={"Location": "/round"}))
    made = Fleet()
    made.add("c", server)
    assert ask(runtime, "/moved", kubeconfig=made.document).ok
    assert ask(runtime, "/round", kubeconfig=made.document).failures == {Failure.UNREACHABLE: 1}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["redirect", "proxy"])
def test_who_is_too_slow_on_the_way_is_left_too(
    runtime: str, server: APIServer, stack: ExitStack, place: str
) -> None:
    """Before there is TLS, or after it: where the first server sends us, and what is in between."""
    slow = stack.enter_context(RawServer(dripping)).url
    server.on("GET", "/moved", Answer(302, headers={"Location": f"{slow}/version"}))
    made = Fleet()
    made.add("c", server)
    if place == "proxy":
        made.clusters["c-cluster"]["proxy-url"] = slow
    with no_residue():
        report = ask(runtime, "/moved", kubeconfig=made.document, timeout=1.0)
    assert report.failures == {Failure.TIMEOUT: 1}


@pytest.mark.parametrize(
    "location",
    ["mailto:a@b", "javascript:x", "http://127.0.0.1:70000000000000000000/", "https://a..b/", "http://.x/"],
)
def test_where_nobody_can_be_asked_is_no_error_for_all(
    runtime: str, server: APIServer, location: str
) -> None:
    """httpx and those below it raise what is no error of httpx."""
    server.on("GET", "/moved", Answer(302, headers={"Location": location}))
    made = Fleet()
    made.add("c", server)
    with no_residue():
        (answer,) = ask(runtime, "/moved", kubeconfig=made.document)
    assert answer.failure == Failure.UNREACHABLE
    assert answer.reason


@pytest.mark.parametrize("seconds", [1e12, float("inf")])
def test_a_timeout_may_be_as_long_as_one_likes(runtime: str, server: APIServer, seconds: float) -> None:
    made = Fleet()
    made.add("c", server)
    assert ask(runtime, "/version", kubeconfig=made.document, timeout=seconds).ok


def test_without_a_timeout_there_is_none(runtime: str, server: APIServer) -> None:
    made = Fleet()
    made.add("c", server)
    assert ask(runtime, "/version", kubeconfig=made.document, timeout=None).ok
