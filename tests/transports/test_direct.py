"""DirectTransport on the wire: beside servers that are slow, wrong, gone or in a hurry."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import anyio
import httpx
import httpx2
import pytest

import kubeauth.transports
from kubeauth.testing import APIServer, Authority, FakeClock
from kubeauth.transports import _async_backend, _sync_backend
from tests.support.clients import ClientVariant, Driver
from tests.support.raw_server import OK, RawServer, Talk, always, once
from tests.support.residue import no_residue, wait_until

# httpx leaves a body that it has begun to send as it is, whatever its transport; trio says so.
HALF_SENT = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
RUNTIMES = ("sync", "asyncio", "trio")
# For what comes at once, unless the machine has other things to do.
PATIENCE = 60.0
UPGRADE = {"Connection": "Upgrade", "Upgrade": "spdy/3.1"}
ASYNC = [ClientVariant(httpx, "asyncio", True), ClientVariant(httpx2, "trio", True)]


@pytest.fixture(
    params=[ClientVariant(httpx, runtime, True) for runtime in RUNTIMES]
    + [ClientVariant(httpx2, "sync", True)],
    ids=str,
)
def variant(request: pytest.FixtureRequest) -> ClientVariant:
    found: ClientVariant = request.param
    return found


@contextmanager
def client(
    variant: ClientVariant,
    server: RawServer,
    context: ssl.SSLContext | None = None,
    *,
    timeout: Any = PATIENCE,
    **options: Any,
) -> Iterator[Driver]:
    """A plain client of the library, with our transport alone below it, or for a comparison its own."""

    def make() -> Any:
        trust = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        transport = variant.PlainTransport(trust, **options)
        return variant.PlainClient(transport=transport, base_url=server.url, timeout=timeout)

    with variant.drive(make) as driver:
        yield driver


def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.pem.decode())
    return context


class TestAnswers:
    @pytest.mark.parametrize(
        ("answer", "body", "connections"),
        [
            (OK, b"ok", 1),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok\r\n0\r\nTrailer: t\r\n\r\n", b"ok", 1),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", b"ok", 2),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", 2),
            (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", b"", 1),
            (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b"", 1),
            (OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"ok", 2),
        ],
    )  # fmt: skip
    def test_of_every_length_and_what_becomes_of_their_connections(
        self, variant: ClientVariant, answer: bytes, body: bytes, connections: int
    ) -> None:
        with no_residue(), RawServer(always(answer)) as server, client(variant, server) as it:
            for _ in range(2):
                assert it.get("/").content == body
            assert len(server.talks) == connections

    def test_one_that_ends_with_its_connection(self, variant: ClientVariant) -> None:
        with (
            RawServer(once(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")) as server,
            client(variant, server) as it,
        ):
            assert [it.get("/").content for _ in range(2)] == [b"until the end"] * 2

    def test_byte_by_byte(self, variant: ClientVariant) -> None:
        def dribble(talk: Talk) -> None:
            while talk.request():
                for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":
                    talk.say(bytes([byte]))

        with RawServer(dribble) as server, client(variant, server) as it:
            assert [it.get("/").content for _ in range(2)] == [b"ok"] * 2
            assert len(server.talks) == 1

    def test_what_it_says_beside_its_body(self, variant: ClientVariant) -> None:
        answer = b"HTTP/1.1 409 Conflict, Really\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 0\r\n\r\n"
        with RawServer(always(answer)) as server, client(variant, server) as it:
            response = it.get("/")
        assert (response.status_code, response.reason_phrase) == (409, "Conflict, Really")
        assert response.http_version == "HTTP/1.1"
        assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert response.headers.raw[:2] == [(b"Set-Cookie", b"a=1"), (b"set-cookie", b"b=2")]

    def test_it_is_handed_out_as_it_came_for_the_library_to_decode(self, variant: ClientVariant) -> None:
        packed = gzip.compress(b"kubernetes" * 1000)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
        with RawServer(always(head + packed)) as server, client(variant, server) as it:
            assert it.get("/").content == b"kubernetes" * 1000
            with it.stream("GET", "/") as stream:
                assert b"".join(iter_parts(stream)) == packed

    def test_to_head(self, variant: ClientVariant) -> None:
        with (
            RawServer(always(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")) as server,
            client(variant, server) as it,
        ):
            for _ in range(2):
                response = it.request("HEAD", "/")
                assert (response.content, response.headers["content-length"]) == (b"", "7")
            assert len(server.talks) == 1

    @pytest.mark.parametrize(
        "answer",
        [
            b"\x15\x03\x01\x00\x02\x02\x28 no TLS\n\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
            b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000,
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: spdy/3.1\r\n\r\n",
            b"",
        ],
    )
    def test_that_are_none(self, variant: ClientVariant, answer: bytes) -> None:
        with no_residue(), RawServer(once(answer), always(OK)) as server, client(variant, server) as it:
            with pytest.raises(variant.library.RemoteProtocolError) as caught:
                it.get("/")
            assert caught.value.request.url.path == "/"
            assert it.get("/").content == b"ok"
            assert len(server.talks) == 2

    @pytest.mark.parametrize(
        ("method", "answer"),
        [
            ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n"),
            ("GET", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: gzip\r\n\r\n"),
            ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: -1\r\n\r\n"),
            ("GET", b"HTTP/1.1 103 Early Hints\r\nContent-Length: x\r\n\r\n" + OK),
        ],
    )
    def test_bad_framing_without_a_body_is_an_error_and_the_connection_is_closed(
        self, variant: ClientVariant, method: str, answer: bytes
    ) -> None:
        with no_residue(), RawServer(always(answer), always(OK)) as server, client(variant, server) as it:
            with pytest.raises(variant.library.RemoteProtocolError):
                it.request(method, "/")
            assert it.get("/").content == b"ok"
            assert len(server.talks) == 2

    def test_a_long_one(self, variant: ClientVariant, authority: Authority) -> None:
        body = bytes(range(256)) * 20_000
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        with RawServer(always(answer), pair=authority.server("127.0.0.1")) as server:
            with client(variant, server, trusting(authority)) as it:
                assert it.get("/").content == it.get("/").content == body
            assert len(server.talks) == 1


def iter_parts(stream: Any) -> Iterator[bytes]:
    while True:
        try:
            yield stream.part()
        except StopIteration:
            return


class TestRequests:
    def test_a_body_at_hand_goes_with_its_head(self, variant: ClientVariant) -> None:
        with RawServer(hear(b"body")) as server, client(variant, server) as it:
            it.request("POST", "/x?y=z", content=b"body", headers={"Host": "h", "User-Agent": "u"})
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        assert head.splitlines()[0] == b"POST /x?y=z HTTP/1.1"
        assert b"Host: h" in head
        assert body == b"body"

    def test_a_body_that_comes_in_parts(self, variant: ClientVariant) -> None:
        with RawServer(hear(b"0\r\n\r\n")) as server, client(variant, server) as it:
            assert it.request("POST", "/", content=parts(variant, b"one", b"", b"three")).content == b"ok"
        assert server.requests[0].partition(b"\r\n\r\n")[2] == b"3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"

    def test_its_head_does_not_wait_for_its_body(self, variant: ClientVariant) -> None:
        """Whoever sends it may want to know first that somebody listens."""
        listens = threading.Event()

        def converse(talk: Talk) -> None:
            talk.request()
            listens.set()
            talk.request(b"0\r\n\r\n")
            talk.say(OK)

        def when_somebody_listens() -> Iterator[bytes]:
            assert listens.wait(PATIENCE)
            yield b"body"

        content: Any = when_somebody_listens()
        if variant.is_async:
            content = in_a_thread(content)
        with RawServer(converse) as server, client(variant, server) as it:
            assert it.request("POST", "/", content=content).content == b"ok"

    @pytest.mark.parametrize(("said", "why"), [("3", "Too much"), ("9", "Too little")])
    @pytest.mark.parametrize("kind", ["parts", "bytes"])
    @HALF_SENT
    def test_a_body_that_is_not_as_long_as_it_says(
        self, variant: ClientVariant, said: str, why: str, kind: str
    ) -> None:
        with no_residue(), RawServer(Talk.until_closed, always(OK)) as server, client(variant, server) as it:
            content = parts(variant, b"on", b"e!") if kind == "parts" else b"one!"
            with pytest.raises(variant.library.LocalProtocolError, match=why):
                it.request("POST", "/", content=content, headers={"Content-Length": said})
            assert it.get("/").content == b"ok"
            assert len(server.talks) == 2

    @pytest.mark.parametrize("headers", [{"A": "b\r\nEvil: c"}, {"A": "b\nEvil: c"}, {"A b": "c"}])
    def test_headers_of_somebody_else_cannot_be_slipped_in(
        self, variant: ClientVariant, headers: dict[str, str]
    ) -> None:
        with RawServer(always(OK)) as server, client(variant, server) as it:
            with pytest.raises(variant.library.LocalProtocolError):
                it.get("/", headers=headers)
        assert server.talks == []

    @pytest.mark.parametrize(
        "headers",
        [
            [("Content-Length", "5"), ("Content-Length", "0")],
            [("Transfer-Encoding", "chunked")] * 2,
            [("Host", "a"), ("Host", "b")],
        ],
    )
    def test_one_that_could_be_read_in_two_ways_is_not_sent(
        self, variant: ClientVariant, headers: list[tuple[str, str]]
    ) -> None:
        """As httpx has it."""
        for one in (variant, replace(variant, direct=False)):
            with RawServer(always(OK)) as server, client(one, server) as it:
                with pytest.raises(variant.library.LocalProtocolError):
                    it.request("POST", "/", content=b"", headers=headers)
                assert server.requests == []

    @HALF_SENT
    def test_a_body_that_fails_is_not_taken_for_a_server_that_has_seen_enough(
        self, variant: ClientVariant
    ) -> None:
        """It may come from another request, which fails as this one could."""

        def converse(talk: Talk) -> None:
            talk.request(b"half\r\n")
            talk.say(OK)
            talk.until_closed()

        def half() -> Iterator[bytes]:
            yield b"half"
            raise failure

        failure = variant.library.WriteError("of another request")
        for one in (variant, replace(variant, direct=False)):
            content: Any = in_a_thread(half()) if variant.is_async else half()
            with no_residue(), RawServer(converse) as server, client(one, server) as it:
                with pytest.raises(variant.library.WriteError) as caught:
                    it.request("POST", "/", content=content)
                assert caught.value is failure

    def test_a_long_one_to_a_server_that_is_slow_to_read(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        body = bytes(range(256)) * 20_000 + b"end"
        with RawServer(hear(b"end"), pair=authority.server("127.0.0.1")) as server:
            with client(variant, server, trusting(authority)) as it:
                assert it.request("POST", "/", content=body).content == b"ok"
        assert server.requests[0].endswith(body)

    @HALF_SENT
    def test_a_server_that_has_seen_enough_says_why(self, variant: ClientVariant) -> None:
        """And hangs up, while there is more to send."""

        def converse(talk: Talk) -> None:
            talk.request(b"A" * 100)
            talk.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
            talk.stream.shutdown(socket.SHUT_WR)
            said.set()
            talk.stream.recv(65536)

        said = threading.Event()

        def endless() -> Iterator[bytes]:
            yield b"A" * 100
            assert said.wait(PATIENCE)
            for _ in range(1000):
                yield b"A" * 65536

        with no_residue(), RawServer(converse, always(OK)) as server, client(variant, server) as it:
            content: Any = in_a_thread(endless()) if variant.is_async else endless()
            response = it.request("POST", "/", content=content, headers={"Content-Length": "999999999"})
            assert (response.status_code, response.content) == (413, b"no")
            assert it.get("/").content == b"ok"
            assert len(server.talks) == 2

    def test_connection_close_is_meant(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, client(variant, server) as it:
            for _ in range(2):
                it.get("/", headers={"Connection": "close"})
            assert len(server.talks) == 2

    def test_another_target_than_the_urls(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, client(variant, server) as it:
            it.request("OPTIONS", "/", extensions={"target": b"*"})
        assert server.requests[0].startswith(b"OPTIONS * HTTP/1.1\r\n")

    @pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "//127.0.0.1/"])
    def test_an_address_that_is_not_of_the_web(self, variant: ClientVariant, url: str) -> None:
        with RawServer(always(OK)) as server, client(variant, server) as it:
            transport = it.client._transport
            request = variant.library.Request("GET", url)
            with pytest.raises(variant.library.UnsupportedProtocol, match="http or https"):
                send(it, transport, request)


def send(driver: Driver, transport: Any, request: Any) -> Any:
    """Past the client, which would refuse some of it by itself."""
    if driver._portal is None:
        return transport.handle_request(request)
    return driver._portal.call(transport.handle_async_request, request)


def hear(end: bytes) -> Callable[[Talk], None]:
    """Reads each request up to its `end`, and then answers."""

    def converse(talk: Talk) -> None:
        while talk.request(end):
            talk.say(OK)

    return converse


def parts(variant: ClientVariant, *content: bytes) -> Any:
    return in_a_thread(iter(content)) if variant.is_async else iter(content)


async def in_a_thread(content: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (part := await anyio.to_thread.run_sync(next, content, None)) is not None:
        yield part


class TestTime:
    def test_an_answer_that_does_not_come(self, variant: ClientVariant) -> None:
        timeout = variant.library.Timeout(PATIENCE, read=0.05)
        with no_residue(), RawServer(Talk.until_closed, always(OK)) as server:
            with client(variant, server, timeout=timeout) as it:
                with pytest.raises(variant.library.ReadTimeout):
                    it.get("/")
                assert it.get("/", timeout=PATIENCE).content == b"ok"

    def test_an_answer_that_stops_in_the_middle(self, variant: ClientVariant) -> None:
        def converse(talk: Talk) -> None:
            talk.request(b"body\r\n")
            talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok")
            said.set()
            talk.until_closed()

        said = threading.Event()

        def until_it_was_said() -> Iterator[bytes]:
            """So that the first half is there when it is looked for, however slow the server is."""
            yield b"body"
            assert said.wait(PATIENCE)

        timeout = variant.library.Timeout(PATIENCE, read=0.05)
        content: Any = in_a_thread(until_it_was_said()) if variant.is_async else until_it_was_said()
        with no_residue(), RawServer(converse) as server, client(variant, server, timeout=timeout) as it:
            with it.stream("POST", "/", content=content) as stream:
                assert stream.part() == b"ok"
                with pytest.raises(variant.library.ReadTimeout):
                    stream.part()
            assert server.ended.acquire(timeout=PATIENCE)

    def test_a_server_that_does_not_read(self, variant: ClientVariant) -> None:
        ended = threading.Event()
        timeout = variant.library.Timeout(PATIENCE, write=0.05)
        with no_residue(), RawServer(lambda _talk: assert_wait(ended)) as server:
            with client(variant, server, timeout=timeout) as it, pytest.raises(variant.library.WriteTimeout):
                it.request("POST", "/", content=b"x" * 20_000_000)
            ended.set()

    @pytest.mark.slow
    def test_a_server_that_reads_slowly_but_reads(self) -> None:
        """The limit is for each step, as httpx has it for threads."""

        def converse(talk: Talk) -> None:
            talk.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            left = len(body)
            while left > 0:
                left -= len(talk.stream.recv(100_000))
                time.sleep(0.04)
            talk.say(OK)

        body = b"x" * 15_000_000
        timeout = httpx.Timeout(PATIENCE, write=5.0)  # it takes longer than that; no stall does
        with (
            RawServer(converse) as server,
            client(ClientVariant(httpx, "sync", True), server, timeout=timeout) as it,
        ):
            assert it.request("POST", "/", content=body).content == b"ok"

    def test_a_server_that_does_not_handshake(self, variant: ClientVariant, authority: Authority) -> None:
        timeout = variant.library.Timeout(PATIENCE, connect=0.05)
        with no_residue(), RawServer(Talk.until_closed) as server:
            server.url = server.url.replace("http:", "https:")
            with client(variant, server, trusting(authority), timeout=timeout) as it:
                with pytest.raises(variant.library.ConnectTimeout):
                    it.get("/")

    def test_one_limit_after_another(self, variant: ClientVariant) -> None:
        """On one connection: each request has its own."""
        with RawServer(always(OK)) as server, client(variant, server) as it:
            for timeout in (None, PATIENCE, None, PATIENCE / 2):
                assert it.get("/", timeout=timeout).content == b"ok"
            assert len(server.talks) == 1


def assert_wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


class TestConnecting:
    def test_nobody_is_there(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server:
            pass
        with (
            no_residue(),
            client(variant, server) as it,
            pytest.raises(variant.library.ConnectError) as caught,
        ):
            it.get("/")
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)

    def test_by_name(self, variant: ClientVariant, authority: Authority) -> None:
        with RawServer(always(OK), pair=authority.server("localhost")) as server:
            server.url = server.url.replace("127.0.0.1", "localhost")
            with client(variant, server, trusting(authority)) as it:
                assert it.get("/").content == b"ok"

    def test_a_name_that_cannot_be_one(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, client(variant, server) as it:
            with pytest.raises(variant.library.ConnectError):
                it.get(f"http://{'a' * 64}.example:{server.port}/")

    def test_a_certificate_of_somebody_else(self, variant: ClientVariant, authority: Authority) -> None:
        with no_residue(), RawServer(always(OK), pair=Authority("other").server("127.0.0.1")) as server:
            with client(variant, server, trusting(authority)) as it:
                with pytest.raises(variant.library.ConnectError) as caught:
                    it.get("/")
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)

    def test_the_name_that_is_asked_for_may_be_another(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        with RawServer(always(OK), pair=authority.server("kubernetes")) as server:
            with client(variant, server, trusting(authority)) as it:
                for _ in range(2):
                    assert it.get("/", extensions={"sni_hostname": "kubernetes"}).content == b"ok"
                assert len(server.talks) == 1

    def test_and_what_was_shown_for_it_is_not_taken_for_the_first(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        """It is kept alive, and goes to the same port; but nobody has looked whether it is this server's."""
        with RawServer(always(OK), pair=authority.server("kubernetes")) as server:
            with client(variant, server, trusting(authority)) as it:
                it.get("/", extensions={"sni_hostname": "kubernetes"})
                with pytest.raises(variant.library.ConnectError) as caught:
                    it.get("/")
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)

    def test_a_websocket_begins_as_any_request(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, client(variant, server) as it:
            assert it.get(server.url.replace("http", "ws")).content == b"ok"
            assert it.get("/").content == b"ok"
            assert len(server.talks) == 1

    def test_one_limit_is_refused(self, variant: ClientVariant) -> None:
        with pytest.raises(ValueError, match="max_connections"):
            variant.PlainTransport(
                ssl.create_default_context(), limits=variant.library.Limits(max_connections=5)
            )


class TestKeptAlive:
    def test_one_that_the_server_has_closed_is_not_tried(self, variant: ClientVariant) -> None:
        """A POST would fail, and is not sent twice."""
        with RawServer(once(OK)) as server, client(variant, server) as it:
            for count in range(1, 4):
                assert it.request("POST", "/", content=b"").content == b"ok"
                assert server.ended.acquire(timeout=PATIENCE)
                assert len(server.talks) == count

    def test_for_ninety_seconds(self, variant: ClientVariant, clock: FakeClock) -> None:
        with RawServer(always(OK)) as server, client(variant, server, clock=clock) as it:
            for late in (0.0, 89.9, 89.9, 90.0):
                clock.advance(late)
                it.get("/")
            assert [len(talk.heard) for talk in server.talks] == [3, 1]
            assert server.ended.acquire(timeout=PATIENCE)

    def test_or_as_long_as_it_is_told_to(self, variant: ClientVariant, clock: FakeClock) -> None:
        limits = variant.library.Limits(max_keepalive_connections=1, keepalive_expiry=5.0)
        with RawServer(always(OK)) as server, client(variant, server, clock=clock, limits=limits) as it:
            for late in (0.0, 4.9, 5.0):
                clock.advance(late)
                it.get("/")
            assert [len(talk.heard) for talk in server.talks] == [2, 1]

    def test_many_at_a_time_and_few_afterwards(self, variant: ClientVariant) -> None:
        limits = variant.library.Limits(max_keepalive_connections=2)
        with RawServer(always(OK)) as server, client(variant, server, limits=limits) as it:
            with ExitStack() as stack:
                for _ in range(5):
                    stack.enter_context(it.stream("GET", "/"))
                assert len(server.talks) == 5
            for _ in range(5):
                assert server.ended.acquire(timeout=PATIENCE)  # half read, all of them
            for _ in range(3):
                it.get("/")
            assert len(server.talks) == 6


class TestClosing:
    def test_nothing_is_left_open(self, variant: ClientVariant, authority: Authority) -> None:
        """One that is idle, one that is half read, one that waits for ever."""

        def quiet(talk: Talk) -> None:
            talk.request()
            talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
            talk.until_closed()

        pair = authority.server("127.0.0.1")
        with no_residue(), RawServer(quiet, quiet, always(OK), pair=pair) as server:
            with client(variant, server, trusting(authority)) as it, ExitStack() as stack:
                streams = [stack.enter_context(it.stream("GET", "/")) for _ in range(2)]
                assert streams[0].part() == b"ok"
                it.get("/")
                it.close()
                for _ in range(3):
                    assert server.ended.acquire(timeout=PATIENCE)
                with pytest.raises(variant.library.ReadError):
                    streams[0].part()

    def test_whoever_waits_for_an_answer_is_told(self, variant: ClientVariant) -> None:
        """Also a thread: closing a socket would not wake it."""
        with no_residue(), RawServer(Talk.until_closed) as server, client(variant, server) as it:
            failures: list[BaseException] = []

            def ask() -> None:
                try:
                    it.get("/")
                except BaseException as error:
                    failures.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            wait_until(lambda: len(server.talks) == 1)
            wait_until(lambda: any(each._is_reading for each in list(it.client._transport._pool._in_use)))
            it.close()
            thread.join(PATIENCE)
            assert [type(each) for each in failures] == [variant.library.ReadError]

    def test_what_is_opened_meanwhile_is_not_kept(self, variant: ClientVariant) -> None:
        """By a request that was on its way: it has its answer, and leaves nothing open."""
        with no_residue(), RawServer(always(OK)) as server, client(variant, server) as it:
            it.client._transport._pool.close()
            for _ in range(2):
                assert it.get("/").content == b"ok"
                assert server.ended.acquire(timeout=PATIENCE)

    def test_a_response_may_be_closed_by_many_and_its_connection_lent_to_one(
        self, variant: ClientVariant
    ) -> None:
        with RawServer(always(OK)) as server, client(variant, server) as it:
            with it.stream("GET", "/") as stream:
                body = stream.response.stream
                while hasattr(body, "_stream"):
                    body = body._stream
                stream.part()
                for _ in range(3):
                    body.close() if not variant.is_async else it._portal.call(body.aclose)  # type: ignore[union-attr]
                pool = it.client._transport._pool
                assert (len(pool._idle), len(pool._in_use)) == (1, 0)

    @HALF_SENT
    def test_one_that_is_forgotten_half_read_is_not_kept_for_ever(self, variant: ClientVariant) -> None:
        """As httpx does: whoever reads it is garbage, and with it the connection."""
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"
        for one in (variant, replace(variant, direct=False)):
            with no_residue(), RawServer(always(answer)) as server, client(one, server) as it:
                left_in_the_middle(it)
                assert server.ended.acquire(timeout=PATIENCE)

    def test_half_read_it_is_not_lent_again(self, variant: ClientVariant) -> None:
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000
        with no_residue(), RawServer(always(answer)) as server, client(variant, server) as it:
            with it.stream("GET", "/") as stream:
                stream.part()
            assert server.ended.acquire(timeout=PATIENCE)
            assert len(it.get("/").content) == 200_000
            assert len(server.talks) == 2


def left_in_the_middle(driver: Driver) -> None:
    request = driver.client.build_request("GET", "/")

    async def left() -> None:
        response = await driver.client.send(request, stream=True)
        async for part in response.aiter_raw():
            assert part == b"ok"
            break

    if driver._portal is not None:
        driver._portal.call(left)
        return
    for part in driver.client.send(request, stream=True).iter_raw():
        assert part == b"ok"
        break


class TestNetworkStream:
    @pytest.mark.parametrize("method", ["GET", "CONNECT"])
    def test_something_else_is_spoken_on_it(
        self, variant: ClientVariant, authority: Authority, method: str
    ) -> None:
        def converse(talk: Talk) -> None:
            talk.request()
            status = b"101 Switching" if method == "GET" else b"200 Go"
            talk.say(b"HTTP/1.1 " + status + b"\r\nConnection: Upgrade\r\nUpgrade: spdy/3.1\r\n\r\nhello")
            talk.say(talk.request(b"!").upper())
            talk.until_closed()

        with no_residue(), RawServer(converse, pair=authority.server("127.0.0.1")) as server:
            with client(variant, server, trusting(authority)) as it:
                with it.stream(method, "/exec", headers=UPGRADE) as stream:
                    network = stream.response.extensions["network_stream"]
                    call = run_of(it)
                    assert call(network.read, 3) + call(network.read, 100) == b"hello"
                    call(network.write, b"you!")
                    assert call(network.read, 100, PATIENCE) == b"YOU!"
                    with pytest.raises(variant.library.ReadTimeout):
                        call(network.read, 100, 0.05)
                    call(network.write, b"", PATIENCE)
                    call(network.aclose if variant.is_async else network.close)
                    with pytest.raises(variant.library.ReadError):
                        call(network.read, 100)
                    with pytest.raises(variant.library.WriteError):
                        call(network.write, b"x")
                    assert network.is_readable
            assert server.ended.acquire(timeout=PATIENCE)

    def test_what_can_be_known_of_it(self, variant: ClientVariant, authority: Authority) -> None:
        for pair in (None, authority.server("127.0.0.1")):
            with RawServer(always(OK), pair=pair) as server:
                with client(variant, server, trusting(authority)) as it, it.stream("GET", "/") as stream:
                    network = stream.response.extensions["network_stream"]
                    assert network.get_extra_info("server_addr") == ("127.0.0.1", server.port)
                    assert network.get_extra_info("client_addr")[0] == "127.0.0.1"
                    assert isinstance(network.get_extra_info("socket"), socket.socket)
                    assert isinstance(network.get_extra_info("ssl_object"), ssl.SSLSocket) == (
                        pair is not None
                    )
                    assert network.get_extra_info("is_readable") is False
                    assert network.get_extra_info("nonsense") is None


def run_of(driver: Driver) -> Callable[..., Any]:
    if driver._portal is None:
        return lambda work, *args: work(*args)
    return driver._portal.call


class TestEventLoops:
    @pytest.mark.every_variant
    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_a_cancelled_request_leaves_nothing_behind(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        """Whether it connects, shakes hands, writes, or waits for its answer."""

        def never_reads(talk: Talk) -> None:
            assert_wait(over)

        over = threading.Event()
        pair = authority.server("127.0.0.1")
        with no_residue(), ExitStack() as stack:
            waits = [
                (stack.enter_context(RawServer(Talk.until_closed, pair=pair)), b""),
                (stack.enter_context(RawServer(never_reads, pair=pair)), b"x" * 20_000_000),
                (stack.enter_context(RawServer(Talk.until_closed)), b""),
            ]
            waits[2][0].url = waits[2][0].url.replace("http:", "https:")
            stack.callback(over.set)

            async def main() -> None:
                for server, content in waits:
                    transport = variant.PlainTransport(trusting(authority))
                    async with variant.PlainClient(
                        transport=transport, base_url=server.url, timeout=None
                    ) as it:
                        with anyio.move_on_after(0.2) as scope:
                            await it.post("/", content=content)
                        assert scope.cancelled_caught
                        assert not transport._pool._idle
                        assert not transport._pool._in_use

            anyio.run(main, backend=variant.runtime)

    @pytest.mark.every_variant
    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_a_request_that_was_cancelled_before_is_not_sent(self, variant: ClientVariant) -> None:
        """Though there is a connection for it that would take it at once. As httpx has it."""

        async def main(one: ClientVariant) -> None:
            transport = one.PlainTransport(ssl.create_default_context())
            async with one.PlainClient(transport=transport, base_url=server.url, timeout=PATIENCE) as it:
                await it.get("/")
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await it.post("/")
                assert scope.cancelled_caught

        for one in (variant, replace(variant, direct=False)):
            with no_residue(), RawServer(always(OK)) as server:
                anyio.run(main, one, backend=variant.runtime)
            assert len(server.requests) == 1

    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_others_have_their_turn_while_a_long_answer_comes_in(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        body = b"x" * 3_000_000
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async def main() -> None:
            transport = variant.PlainTransport(trusting(authority))
            async with variant.PlainClient(transport=transport, base_url=server.url, timeout=PATIENCE) as it:
                async with it.stream("GET", "/") as response, anyio.create_task_group() as group:
                    await anyio.sleep(0.3)  # all that fits has arrived
                    group.start_soon(others)
                    async for _ in response.aiter_raw():
                        pass
                    group.cancel_scope.cancel()

        with RawServer(always(answer), pair=authority.server("127.0.0.1")) as server:
            anyio.run(main, backend=variant.runtime)
        assert turns > 10

    def test_it_belongs_to_no_loop(self) -> None:
        transport = kubeauth.transports.AsyncDirectTransport(ssl.create_default_context())

        async def main(last: bool) -> None:
            it = httpx.AsyncClient(transport=transport, base_url=server.url, timeout=PATIENCE)
            assert (await it.get("/")).content == b"ok"
            if last:
                await it.aclose()

        with no_residue(), RawServer(always(OK)) as server:
            for backend, last in (("asyncio", False), ("trio", False), ("asyncio", True)):
                anyio.run(main, last, backend=backend)
            assert len(server.talks) == 1


@pytest.mark.load
@pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)
def test_closing_under_load_harms_nobody_else(library: Any, authority: Authority) -> None:
    """Sixteen threads in the middle of everything, and another client whose descriptors come next."""
    variant = ClientVariant(library, "sync", True)
    with no_residue(), RawServer(always(OK), pair=authority.server("127.0.0.1")) as server:
        with client(variant, server, trusting(authority)) as other:
            for number in range(100):
                with client(variant, server, trusting(authority)) as it:
                    wrong: list[BaseException] = []
                    threads = [
                        threading.Thread(target=until_it_is_closed, args=(it, library, wrong))
                        for _ in range(16)
                    ]
                    for thread in threads:
                        thread.start()
                    for _ in range(number % 10):
                        assert other.get("/").content == b"ok"
                    it.close()
                    for _ in range(3):
                        assert other.get("/").content == b"ok"
                    for thread in threads:
                        thread.join(PATIENCE)
                        assert not thread.is_alive()
                    assert wrong == []


def until_it_is_closed(driver: Driver, library: Any, wrong: list[BaseException]) -> None:
    try:
        while True:
            assert driver.get("/").content == b"ok"
    except library.TransportError:
        pass
    except RuntimeError as error:
        if "client has been closed" not in str(error):
            wrong.append(error)
    except BaseException as error:
        wrong.append(error)


class Renegotiating(socket.socket):
    """TLS in the middle of something: it must write before it can read, or read before it can write."""

    first: Exception | None = None

    def recv(self, *args: Any) -> bytes:
        self._do_the_other_first(ssl.SSLWantWriteError())
        return super().recv(*args)

    def send(self, *args: Any) -> int:
        self._do_the_other_first(ssl.SSLWantReadError())
        return super().send(*args)

    def do_handshake(self) -> None:
        self._do_the_other_first(ssl.SSLWantWriteError())

    def _do_the_other_first(self, reason: Exception) -> None:
        if self.first is None:
            self.first = reason
            raise reason


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tls_may_have_to_do_the_other_thing_first(backend: str) -> None:
    async def main() -> None:
        for verb in ("read", "write", "shake hands"):
            here, there = socket.socketpair()
            with there, Renegotiating(fileno=here.detach()) as ours:
                ours.setblocking(False)
                there.sendall(b"hello")
                connection = _async_backend.Connection(ours, ("https", "h", 443, "h"), httpx)
                if verb == "read":
                    assert await connection.read(100) == b"hello"
                elif verb == "write":
                    await connection.write(b"hello")
                    assert there.recv(100) == b"hello"
                else:
                    await _async_backend._handshake(ours)  # type: ignore[arg-type]
                assert ours.first is not None

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
class TestManyAddresses:
    """A name may have several, of which some lead nowhere."""

    @contextmanager
    def deaf(self) -> Iterator[_async_backend.Address]:
        """An address that does not answer: its queue is full, and nobody takes anything out."""
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for _ in range(8):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            yield self.address(listener.getsockname())

    def address(self, where: Any) -> _async_backend.Address:
        return socket.AF_INET, socket.SOCK_STREAM, 0, "", where

    def connected(self, backend: str, *addresses: _async_backend.Address) -> Any:
        async def main() -> Any:
            with anyio.fail_after(PATIENCE):
                with await _async_backend.connect_to_fastest(addresses) as found:
                    return found.getpeername()

        with no_residue():
            return anyio.run(main, backend=backend)

    def test_one_that_does_not_answer_is_not_waited_for(self, backend: str) -> None:
        with RawServer(always(OK)) as server, self.deaf() as deaf:
            here = ("127.0.0.1", server.port)
            assert self.connected(backend, deaf, self.address(here)) == here

    def test_one_that_refuses_is_not_waited_for(self, backend: str) -> None:
        with RawServer(always(OK)) as gone:
            pass
        with RawServer(always(OK)) as server:
            refused, here = ("127.0.0.1", gone.port), ("127.0.0.1", server.port)
            assert self.connected(backend, self.address(refused), self.address(here)) == here

    def test_if_all_refuse_the_first_says_why(self, backend: str) -> None:
        with RawServer(always(OK)) as gone:
            pass
        with pytest.raises(ConnectionRefusedError):
            self.connected(backend, *[self.address(("127.0.0.1", gone.port))] * 3)

    def test_of_two_that_answer_at_once_one_is_enough(self, backend: str) -> None:
        opened: list[socket.socket] = []

        async def main() -> None:
            both = anyio.Event()

            async def one(address: _async_backend.Address) -> socket.socket:
                connected = await _async_backend.connect_to_address(address)
                opened.append(connected)
                try:
                    await both.wait()
                except BaseException:
                    connected.close()
                    raise
                return connected

            async def at_once() -> None:
                while len(opened) < 2:  # noqa: ASYNC110 -- what it waits for does not know of it
                    await anyio.sleep(0.01)
                both.set()

            async with anyio.create_task_group() as group:
                group.start_soon(at_once)
                with await _async_backend.connect_to_fastest([here, here], one, attempt_delay=0.01) as found:
                    assert [each.fileno() >= 0 for each in opened].count(True) == 1
                    assert found.getpeername() == here[4]

        with no_residue(), RawServer(Talk.until_closed) as server:
            here = self.address(("127.0.0.1", server.port))
            anyio.run(main, backend=backend)

    def test_cancelled_at_the_last_moment_it_leaves_nothing_behind(self, backend: str) -> None:
        async def main() -> None:
            with anyio.CancelScope() as scope:

                async def one(address: _async_backend.Address) -> socket.socket:
                    connected = await _async_backend.connect_to_address(address)
                    scope.cancel()
                    return connected

                await _async_backend.connect_to_fastest([self.address(("127.0.0.1", server.port))], one)
            assert scope.cancelled_caught
            assert server.ended.acquire(timeout=PATIENCE)

        with no_residue(), RawServer(Talk.until_closed) as server:
            anyio.run(main, backend=backend)

    def test_cancelled_it_leaves_nothing_behind(self, backend: str) -> None:
        async def main() -> None:
            with anyio.move_on_after(0.4):
                await _async_backend.connect_to_fastest([deaf, deaf])

        with self.deaf() as deaf, no_residue():
            anyio.run(main, backend=backend)


def test_through_a_proxy_it_is_the_librarys_own(variant: ClientVariant, server: APIServer) -> None:
    """Which knows every kind of them: see test_proxies."""
    proxy = variant.library.Proxy("http://127.0.0.1:9")
    transport = variant.PlainTransport(ssl.create_default_context(), proxy)
    own = variant.library.AsyncHTTPTransport if variant.is_async else variant.library.HTTPTransport
    assert isinstance(transport._proxy_transport, own)


def test_a_copy_in_a_child_is_closed_and_the_connection_is_not() -> None:
    """Though a thread of the parent's was reading from it when the child was forked."""
    ours, theirs = socket.socketpair()
    with theirs, ours.dup() as the_parents:
        copy = _sync_backend.Connection(ours, ("http", "h", 80, "h"), httpx)
        copy._pid, copy._is_reading = 0, True
        copy.abort()
        assert ours.fileno() == -1
        theirs.sendall(b"still there")
        assert the_parents.recv(100) == b"still there"


def test_without_poll_there_is_select(variant: ClientVariant, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.delattr("select.poll", raising=False)
    with RawServer(once(OK), always(OK)) as server, client(variant, server) as it:
        assert it.get("/").content == b"ok"
        assert server.ended.acquire(timeout=PATIENCE)
        assert [it.get("/").content for _ in range(2)] == [b"ok"] * 2
        assert len(server.talks) == 2


def test_the_names_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dir(kubeauth.transports) == ["AsyncDirectTransport", "DirectTransport"]
    monkeypatch.delattr(kubeauth.transports, "httpx2")
    assert issubclass(kubeauth.transports.httpx2.DirectTransport, httpx2.BaseTransport)
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        getattr(kubeauth.transports, "nope")  # noqa: B009 -- an unknown name
