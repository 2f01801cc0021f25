"""What nobody should get away with: names, origins, paths, framing; and what must not hold it up."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import anyio
import anyio.lowlevel
import h11
import pytest

from kubeauth._proxy._caller import Caller, Limits
from kubeauth.testing import Answer, APIServer, Received
from tests.proxy.conftest import Proxied
from tests.proxy.serving import PATIENCE, Proxy, code_of, get
from tests.support.cases import each_case
from tests.support.residue import wait_until

POD = "/api/v1/namespaces/default/pods/web"


@pytest.fixture
def proxy(proxied: Proxied, server: APIServer) -> Proxy:
    server.on("GET", f"{POD}/exec", Answer(body=b"you are in"))
    return proxied(server.config(token="alices-token"))


def post(*lines: str, body: str = "") -> bytes:
    head = ["POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1", "Host: localhost", *lines]
    return "\r\n".join([*head, "", body]).encode("latin-1")


# By what is wrong with it: what is said, and what is answered.
TABLE: dict[str, tuple[bytes, int]] = {
    "another host": (get(host="evil.example"), 403),
    "a name that was bound to us": (get(host="localhost.evil.example:8001"), 403),
    "no host": (b"GET /version HTTP/1.1\r\n\r\n", 400),
    "no host in 1.0": (b"GET /version HTTP/1.0\r\n\r\n", 403),
    "an empty host": (get(host=""), 403),
    "two hosts": (get("/version", "localhost", "Host: localhost"), 400),
    "two hosts, one evil": (get("/version", "localhost", "Host: evil"), 400),
    "a host with a user": (get(host="evil@localhost"), 400),
    "another host, and a path that is none": (get("/a//b", "evil.example"), 403),
    "an origin": (get("/version", "localhost", "Origin: http://evil.example"), 403),
    "no origin at all": (get("/version", "localhost", "Origin: null"), 403),
    "two origins": (get("/version", "localhost", "Origin: http://localhost", "Origin: http://evil"), 403),
    "a page of another site": (get("/version", "localhost", "Sec-Fetch-Site: cross-site"), 403),
    "a page of another port": (get("/version", "localhost", "Sec-Fetch-Site: same-site"), 403),
    "a page of another scheme": (get("/version", "localhost", "Origin: evil://localhost"), 403),
    "a websocket for a page of another port": (get("/version", "localhost:8001", "Origin: http://localhost:3000", "Upgrade: websocket"), 403),
    "exec": (get(f"{POD}/exec?command=sh"), 403),
    "exec, escaped": (get(f"{POD}/%65%78ec"), 403),
    "exec, further up": (get(f"{POD}/x/../exec"), 400),
    "exec, further up, escaped": (get(f"{POD}/x/%2e%2E/exec"), 400),
    "exec, escaped twice": (get(f"/api/%252e%252e{POD}/exec"), 400),
    "exec, with a slash too many": (get(f"/{POD}/exec"), 400),
    "exec, with an escaped slash": (get(f"{POD}%2fexec"), 400),
    "exec, with a backslash": (get(POD.replace("/pods/", "\\pods\\") + "/exec"), 400),
    "exec, with a parameter": (get(f"{POD};a=b/exec"), 400),
    "exec, with an end of string": (get(f"{POD}/x%00/exec"), 400),
    "exec, in a URL": (get(f"http://localhost{POD}/exec"), 403),
    "exec, by a socket": (get(f"{POD}/exec", "localhost", "Upgrade: websocket"), 403),
    "a URL of another host": (get("http://evil.example/version"), 400),
    "a URL of the cluster's": (get("https://kubernetes.default/version"), 400),
    "connect": (get("kubernetes.default:443", method="CONNECT"), 405),
    "options of the server": (get("*", method="OPTIONS"), 400),
    "a small method": (get(method="get"), 400),
    "a target that is none": (get("version"), 400),
    "a fragment": (get("/version#x"), 400),
    "what is no ASCII": (get("/\xe9"), 400),
    "two lengths": (post("Content-Length: 2", "Content-Length: 3", body="{} "), 400),
    "a length with a sign": (post("Content-Length: +2", body="{}"), 400),
    "a length of another base": (post("Content-Length: 0x2", body="{}"), 400),
    "a negative length": (post("Content-Length: -1", body="{}"), 400),
    "a length and another": (post("Content-Length: 2, 3", body="{} "), 400),
    "chunks of another kind": (post("Transfer-Encoding: gzip, chunked", body="2\r\n{}\r\n0\r\n\r\n"), 501),
    "chunks twice": (post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body="0\r\n\r\n"), 501),
    "chunks that are none": (post("Transfer-Encoding: xchunked", body="0\r\n\r\n"), 501),
    "chunks with a blank before": (post("Transfer-Encoding : chunked", body="0\r\n\r\n"), 400),
    "chunks of no size": (post("Transfer-Encoding: chunked", body="zz\r\n{}\r\n0\r\n\r\n"), 400),
    "a folded header": (get("/version", "localhost", "X: a\r\n b"), 200),
    "a header without a colon": (get("/version", "localhost", "nonsense"), 400),
    "a header with a control character": (get("/version", "localhost", "X: a\x00b"), 400),
    "a header of a bare CR": (get("/version", "localhost", "X: a\rEvil: b"), 400),
    "a header that Kubernetes would not take": (get("/version", "localhost", "X: a\x7fb"), 400),
    "a path without end": (get("/api/" + "/pods/" * 5000), 414),
    "who asks, taken away": (get("/version", "localhost", "Connection: Impersonate-User"), 400),
    "an expectation": (post("Expect: a-miracle", "Content-Length: 2", body="{}"), 417),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "another HTTP": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "one of the future": (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
    "a giant head": (get("/version", "localhost", f"X: {'x' * 300_000}"), 431),
    "a giant target": (get("/" + "x" * 300_000), 431),
    "thousands of headers": (get("/version", "localhost", *(f"X-{n}: {'x' * 60}" for n in range(4000))), 431),
}  # fmt: skip


@pytest.mark.attack(
    "proxy",
    "malformed or forbidden requests over a socket: hosts, origins, ways to `exec`, lengths, chunks, bare CR, NUL, giant heads",
    "a 4xx or 5xx response, nothing reaches the API server, and the next client is served",
)
@each_case("case", TABLE)
def test_the_table(proxy: Proxy, server: APIServer, case: str) -> None:
    before = len(server.requests)
    said, code = TABLE[case]
    with proxy.connect() as wire:
        # Of a giant it hears no more than it must: who stalls for a second may not get to its end.
        with suppress(ConnectionError):
            wire.say(said)
        answer = wire.until(b"\r\n\r\n")
    assert code_of(answer) == code, answer
    assert len(server.requests) - before == (code == 200)
    # And whoever comes next is served.
    assert proxy.get("/version").status_code == 200
    assert b"you are in" not in answer


@pytest.mark.attack(
    "proxy",
    "request smuggling: conflicting lengths, chunks beside a length, a request inside a rejected one",
    "at most one request reaches the API server, with one framing; the connection is closed after what is invalid",
)
def test_a_length_beside_chunks_is_refused_or_not_passed_on(proxy: Proxy, server: APIServer) -> None:
    """h11 goes by the chunks, and so does what is sent: nobody behind us sees another request in them."""
    inner = "GET /api/v1/secrets HTTP/1.1\r\nHost: localhost\r\n\r\n"
    chunked = f"{len(inner):x}\r\n{inner}\r\n0\r\n\r\n"
    head = ("Content-Length: 4", "Transfer-Encoding: chunked", "Connection: close")
    answer = proxy.say(post(*head, body=chunked))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert [request.path for request in server.requests if "secrets" in request.path] == []
    for request in server.requests:
        assert (request.header("Content-Length"), request.body) == (None, inner.encode())


@pytest.mark.attack(
    "proxy",
    "request smuggling: conflicting lengths, chunks beside a length, a request inside a rejected one",
    "at most one request reaches the API server, with one framing; the connection is closed after what is invalid",
)
def test_what_comes_behind_a_refusal_is_not_taken_for_a_request(proxy: Proxy, server: APIServer) -> None:
    inner = b"GET /api/v1/secrets HTTP/1.1\r\nHost: localhost\r\n\r\n"
    refused = b"POST /a//b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner)
    answer = proxy.say(refused + inner)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()
    assert server.requests == []


def test_who_is_refused_may_ask_for_something_else(proxy: Proxy) -> None:
    """On the same connection, if there is no body in between."""
    with proxy.connect() as wire:
        for path, code in [("/a//b", 400), (f"{POD}/exec", 403), ("/version", 200)]:
            wire.say(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert code_of(wire.until(b"}")) == code


@pytest.mark.attack(
    "proxy",
    "request smuggling: conflicting lengths, chunks beside a length, a request inside a rejected one",
    "at most one request reaches the API server, with one framing; the connection is closed after what is invalid",
)
def test_a_refusal_before_a_body_that_makes_no_sense(proxy: Proxy) -> None:
    head = b"POST /a//b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = proxy.say(head + b"no size\r\n")
    assert code_of(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.attack(
    "proxy",
    "slowloris: heads, bodies and connections that do not continue",
    "408 or closed after a time limit",
)
def test_a_slow_head_has_an_end(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), limits={"head_seconds": 0.2})
    with proxy.connect() as wire:
        wire.say(b"GET /version HTTP/1.1\r\nHo")
        said = wire.rest()
    assert code_of(said) == 408
    assert b"connection: close" in said.lower()
    assert proxy.counts.refused == {"slow": 1}
    wait_until(lambda: proxy.counts.connections == 0)


@pytest.mark.attack(
    "proxy",
    "slowloris: heads, bodies and connections that do not continue",
    "408 or closed after a time limit",
)
def test_a_slow_head_behind_another_request_has_an_end(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), limits={"head_seconds": 0.2, "idle_seconds": 3600.0})
    with proxy.connect() as wire:
        wire.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\nGET /version HTTP/1.1\r\nHo")
        said = wire.rest()
    assert code_of(said) == 200
    assert said.count(b"HTTP/1.1 408 ") == 1


@pytest.mark.attack(
    "proxy",
    "slowloris: heads, bodies and connections that do not continue",
    "408 or closed after a time limit",
)
def test_a_slow_body_has_an_end(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), limits={"idle_seconds": 0.2})

    def is_refused(length: int) -> bool:
        """Not at once, on a machine that stalls: then it is the head that comes too late."""
        with proxy.connect() as wire:
            wire.say(post(f"Content-Length: {length}", body="{"))
            return code_of(wire.rest()) == 408

    for length in (10, 100_000):
        wait_until(lambda length=length: is_refused(length))  # type: ignore[misc]
    wait_until(lambda: proxy.counts.connections == 0)


@pytest.mark.attack(
    "proxy",
    "slowloris: heads, bodies and connections that do not continue",
    "408 or closed after a time limit",
)
def test_who_says_nothing_is_hung_up_on(proxied: Proxied, server: APIServer) -> None:
    proxy = proxied(server.config(token="alices-token"), limits={"idle_seconds": 0.2})
    with proxy.connect() as wire:
        assert wire.rest() == b""

    def is_answered_once() -> bool:
        """As above, on a machine that stalls it is not at all."""
        with proxy.connect() as wire:
            wire.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return wire.rest().count(b"HTTP/1.1 ") == 1

    wait_until(is_answered_once)


@pytest.mark.attack(
    "proxy",
    "clients that disconnect or reset in the middle",
    "the connection is released, and a response that is cut is never complete",
)
def test_who_leaves_in_the_middle_of_a_head_or_body(proxy: Proxy, server: APIServer) -> None:
    for said in (
        b"GET /version HT",
        post("Content-Length: 10", body="{"),
        post("Content-Length: 100000", body="{"),
    ):
        with proxy.connect() as wire:
            wire.say(said)
    wait_until(lambda: proxy.counts.connections == 0)
    assert proxy.get("/version").status_code == 200


def test_who_says_no_more_has_left(proxy: Proxy, server: APIServer) -> None:
    """As to kubectl proxy: there is no other way to know that somebody has."""
    asked, may_answer = threading.Event(), threading.Event()

    def answer_late(_request: Received) -> Answer:
        asked.set()
        may_answer.wait(PATIENCE)
        return Answer(body=b"too late")

    server.on("GET", "/late", answer_late)
    try:
        with proxy.connect() as wire:
            wire.say(b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert asked.wait(PATIENCE)
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.rest() == b""
    finally:
        may_answer.set()
    wait_until(lambda: proxy.counts.connections == 0)


@pytest.mark.attack(
    "proxy",
    "clients that disconnect or reset in the middle",
    "the connection is released, and a response that is cut is never complete",
)
def test_what_was_said_to_who_leaves_cannot_be_taken_for_the_whole(proxy: Proxy, server: APIServer) -> None:
    watch = server.watch("/watch")
    with proxy.connect() as wire:
        wire.say(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        watch.wait_for_watchers(timeout=60)
        watch.send({"type": "ADDED"})
        said = wire.until(b"ADDED")
        wire.socket.shutdown(socket.SHUT_WR)
        said += wire.rest()
    assert not is_whole(said)
    # Nor what comes at once, wherever in it the end is noticed.
    for _ in range(20):
        with proxy.connect() as wire:
            wire.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wire.socket.shutdown(socket.SHUT_WR)
            said = wire.rest()
        assert said.endswith(b'"linux/amd64"}') or not is_whole(said)
    wait_until(lambda: proxy.counts.connections == 0)


def is_whole(said: bytes) -> bool:
    """Whether whoever asked takes it for an answer."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("Host", "localhost")]))
    reader.send(h11.EndOfMessage())
    for data in (said, b""):
        reader.receive_data(data)
        try:
            while (event := reader.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.EndOfMessage):
                    return True
        except h11.RemoteProtocolError:
            break
    return False


@pytest.mark.attack(
    "proxy",
    "clients that disconnect or reset in the middle",
    "the connection is released, and a response that is cut is never complete",
)
def test_who_hangs_up_with_a_reset(proxy: Proxy, server: APIServer) -> None:
    watch = server.watch("/watch")
    for said in (b"GET /version HT", get("/watch"), post("Content-Length: 10", body="{")):
        with proxy.connect() as wire:
            wire.say(said)
            if b"watch" in said:
                watch.wait_for_watchers(timeout=60)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: proxy.counts.connections == 0)
    assert proxy.get("/version").status_code == 200


@pytest.mark.slow
@pytest.mark.attack(
    "proxy",
    "clients that disconnect or reset in the middle",
    "the connection is released, and a response that is cut is never complete",
)
@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="the system does not say")
@pytest.mark.parametrize("reset", [False, True])
def test_who_leaves_is_noticed_also_behind_what_nobody_reads(
    proxy: Proxy, server: APIServer, reset: bool
) -> None:
    watch = server.watch("/watch")
    with proxy.connect() as wire:
        wire.say(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire.until(b"\r\n\r\n")
        watch.wait_for_watchers(timeout=60)
        wire.say(b"x" * 100_000)  # more than is read ahead
        assert proxy.counts.in_flight == 1
        if reset:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: proxy.counts.requests["GET", "gone"] == 1)
    wait_until(lambda: proxy.counts.connections == 0)


@pytest.mark.attack(
    "proxy",
    "clients that send single bytes, or never read",
    "other clients are served, and nothing is buffered without limit",
)
def test_who_sends_a_byte_at_a_time_does_not_keep_the_others_from_their_turn(backend: str) -> None:
    size = 10_000

    async def main() -> tuple[list[bytes], int]:
        caller, turns, parts = Caller(cast(Any, None), Limits()), 0, []
        caller.http.receive_data(post("Transfer-Encoding: chunked", body="1\r\na\r\n" * size + "0\r\n\r\n"))
        assert await caller.request()

        async def another() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(another)
            while part := await caller.part():
                parts.append(part)
            tasks.cancel_scope.cancel()
        assert await caller.part() == b""  # it stays at its end
        return parts, turns

    parts, turns = anyio.run(main, backend=backend)
    assert b"".join(parts) == b"a" * size
    # Not all at once, and not each by itself.
    assert 10 < len(parts) < size / 100
    assert turns > len(parts) / 2  # who is first in a round is left to chance


@pytest.mark.attack(
    "proxy",
    "clients that send single bytes, or never read",
    "other clients are served, and nothing is buffered without limit",
)
def test_who_does_not_read_is_waited_for_and_nothing_piles_up(proxy: Proxy, server: APIServer) -> None:
    """What the server sends stays with the server, but for what fits in between."""
    sent, whole = 0, 600 * 65536

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        while sent < whole:
            sent += 65536
            yield b"x" * 65536

    server.on("GET", "/flood", lambda _: Answer(chunks=chunks()))
    with proxy.connect() as wire:
        wire.say(get("/flood"))
        wire.until(b"xxxx")
        # If it kept everything it would be through with this long before the others are.
        for _ in range(20):
            assert proxy.get("/version").status_code == 200
        assert 0 < sent < whole
        assert len(wire.rest()) > whole - 65536
