"""DirectTransport with real servers that are slow, invalid, gone, or close early."""

from __future__ import annotations

import gzip
import os
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
from tests.support.raw_server import OK, RawServer, ServerConnection, always, once
from tests.support.residue import no_residue, wait_until

# httpx does not close the generator of a partially sent body, with any transport; trio warns about that.
HALF_SENT = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
RUNTIMES = ("sync", "asyncio", "trio")
# Long enough for a busy machine; no test waits that long.
LONG_TIMEOUT = 60.0
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
def open_client(
    variant: ClientVariant,
    server: RawServer,
    context: ssl.SSLContext | None = None,
    *,
    timeout: Any = LONG_TIMEOUT,
    **options: Any,
) -> Iterator[Driver]:
    """A client of the library with DirectTransport, or with the library's own transport for comparison."""

    def build() -> Any:
        ssl_context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        transport = variant.PlainTransport(ssl_context, **options)
        return variant.PlainClient(transport=transport, base_url=server.url, timeout=timeout)

    with variant.drive(build) as driver:
        yield driver


def build_ssl_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.pem.decode())
    return context


class TestResponses:
    @pytest.mark.parametrize(
        ("response", "body", "connections"),
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
    def test_framing_decides_whether_the_connection_is_reused(
        self, variant: ClientVariant, response: bytes, body: bytes, connections: int
    ) -> None:
        with no_residue(), RawServer(always(response)) as server, open_client(variant, server) as client:
            for _ in range(2):
                assert client.get("/").content == body
            assert len(server.connections) == connections

    def test_a_body_without_a_length_ends_with_the_connection(self, variant: ClientVariant) -> None:
        with (
            RawServer(once(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")) as server,
            open_client(variant, server) as client,
        ):
            assert [client.get("/").content for _ in range(2)] == [b"until the end"] * 2

    def test_a_response_that_arrives_byte_by_byte_is_read(self, variant: ClientVariant) -> None:
        def send_single_bytes(connection: ServerConnection) -> None:
            while connection.read_request():
                for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":
                    connection.send(bytes([byte]))

        with RawServer(send_single_bytes) as server, open_client(variant, server) as client:
            assert [client.get("/").content for _ in range(2)] == [b"ok"] * 2
            assert len(server.connections) == 1

    def test_status_and_headers_are_returned(self, variant: ClientVariant) -> None:
        sent = b"HTTP/1.1 409 Conflict, Really\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 0\r\n\r\n"
        with RawServer(always(sent)) as server, open_client(variant, server) as client:
            response = client.get("/")

        assert (response.status_code, response.reason_phrase) == (409, "Conflict, Really")
        assert response.http_version == "HTTP/1.1"
        assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert response.headers.raw[:2] == [(b"Set-Cookie", b"a=1"), (b"set-cookie", b"b=2")]

    def test_an_encoded_body_is_returned_raw_and_decoded_by_the_library(self, variant: ClientVariant) -> None:
        compressed = gzip.compress(b"kubernetes" * 1000)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(compressed)
        with RawServer(always(head + compressed)) as server, open_client(variant, server) as client:
            assert client.get("/").content == b"kubernetes" * 1000
            with client.stream("GET", "/") as stream:
                assert b"".join(read_parts(stream)) == compressed

    def test_a_response_to_head_has_no_body(self, variant: ClientVariant) -> None:
        with (
            RawServer(always(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")) as server,
            open_client(variant, server) as client,
        ):
            for _ in range(2):
                response = client.request("HEAD", "/")
                assert (response.content, response.headers["content-length"]) == (b"", "7")
            assert len(server.connections) == 1

    @pytest.mark.parametrize(
        "response",
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
    def test_an_invalid_response_is_a_remote_protocol_error(
        self, variant: ClientVariant, response: bytes
    ) -> None:
        with (
            no_residue(),
            RawServer(once(response), always(OK)) as server,
            open_client(variant, server) as client,
        ):
            with pytest.raises(variant.library.RemoteProtocolError) as caught:
                client.get("/")
            assert caught.value.request.url.path == "/"
            assert client.get("/").content == b"ok"
            assert len(server.connections) == 2

    @pytest.mark.parametrize(
        ("method", "response"),
        [
            ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n"),
            ("GET", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: gzip\r\n\r\n"),
            ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: -1\r\n\r\n"),
            ("GET", b"HTTP/1.1 103 Early Hints\r\nContent-Length: x\r\n\r\n" + OK),
        ],
    )
    def test_bad_framing_without_a_body_is_an_error_and_the_connection_is_closed(
        self, variant: ClientVariant, method: str, response: bytes
    ) -> None:
        with (
            no_residue(),
            RawServer(always(response), always(OK)) as server,
            open_client(variant, server) as client,
        ):
            with pytest.raises(variant.library.RemoteProtocolError):
                client.request(method, "/")
            assert client.get("/").content == b"ok"
            assert len(server.connections) == 2

    def test_a_large_body_is_received(self, variant: ClientVariant, authority: Authority) -> None:
        body = bytes(range(256)) * 20_000
        response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        with RawServer(always(response), pair=authority.server("127.0.0.1")) as server:
            with open_client(variant, server, build_ssl_context(authority)) as client:
                assert client.get("/").content == client.get("/").content == body
            assert len(server.connections) == 1


def read_parts(stream: Any) -> Iterator[bytes]:
    while True:
        try:
            yield stream.part()
        except StopIteration:
            return


class TestRequests:
    def test_head_and_body_are_sent(self, variant: ClientVariant) -> None:
        with RawServer(respond_after(b"body")) as server, open_client(variant, server) as client:
            client.request("POST", "/x?y=z", content=b"body", headers={"Host": "h", "User-Agent": "u"})
        head, _, body = server.requests[0].partition(b"\r\n\r\n")

        assert head.splitlines()[0] == b"POST /x?y=z HTTP/1.1"
        assert b"Host: h" in head
        assert body == b"body"

    def test_an_iterator_body_is_sent_in_chunks(self, variant: ClientVariant) -> None:
        with RawServer(respond_after(b"0\r\n\r\n")) as server, open_client(variant, server) as client:
            assert client.request("POST", "/", content=parts(variant, b"one", b"", b"three")).content == b"ok"
        assert server.requests[0].partition(b"\r\n\r\n")[2] == b"3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"

    def test_the_head_is_sent_before_the_first_part_of_the_body(self, variant: ClientVariant) -> None:
        """The caller may want to know that the server accepts the request."""
        head_received = threading.Event()

        def handle(connection: ServerConnection) -> None:
            connection.read_request()
            head_received.set()
            connection.read_request(b"0\r\n\r\n")
            connection.send(OK)

        def wait_for_head() -> Iterator[bytes]:
            assert head_received.wait(LONG_TIMEOUT)
            yield b"body"

        content: Any = wait_for_head()
        if variant.is_async:
            content = iterate_in_thread(content)
        with RawServer(handle) as server, open_client(variant, server) as client:
            assert client.request("POST", "/", content=content).content == b"ok"

    @pytest.mark.parametrize(("length", "message"), [("3", "Too much"), ("9", "Too little")])
    @pytest.mark.parametrize("kind", ["parts", "bytes"])
    @HALF_SENT
    def test_a_body_that_does_not_match_content_length_is_rejected(
        self, variant: ClientVariant, length: str, message: str, kind: str
    ) -> None:
        with (
            no_residue(),
            RawServer(ServerConnection.wait_closed, always(OK)) as server,
            open_client(variant, server) as client,
        ):
            content = parts(variant, b"on", b"e!") if kind == "parts" else b"one!"

            with pytest.raises(variant.library.LocalProtocolError, match=message):
                client.request("POST", "/", content=content, headers={"Content-Length": length})
            assert client.get("/").content == b"ok"
            assert len(server.connections) == 2

    @pytest.mark.parametrize("headers", [{"A": "b\r\nEvil: c"}, {"A": "b\nEvil: c"}, {"A b": "c"}])
    def test_header_injection_is_rejected(self, variant: ClientVariant, headers: dict[str, str]) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            with pytest.raises(variant.library.LocalProtocolError):
                client.get("/", headers=headers)
        assert server.connections == []

    @pytest.mark.parametrize(
        "headers",
        [
            [("Content-Length", "5"), ("Content-Length", "0")],
            [("Transfer-Encoding", "chunked")] * 2,
            [("Host", "a"), ("Host", "b")],
        ],
    )
    def test_an_ambiguous_request_is_not_sent(
        self, variant: ClientVariant, headers: list[tuple[str, str]]
    ) -> None:
        """As with the transport of httpx."""
        for each in (variant, replace(variant, direct=False)):
            with RawServer(always(OK)) as server, open_client(each, server) as client:
                with pytest.raises(variant.library.LocalProtocolError):
                    client.request("POST", "/", content=b"", headers=headers)
                assert server.requests == []

    @HALF_SENT
    def test_an_error_of_the_body_iterator_is_raised_unchanged(self, variant: ClientVariant) -> None:
        """It is not mistaken for a failed write, after which the response is read."""

        def handle(connection: ServerConnection) -> None:
            connection.read_request(b"half\r\n")
            connection.send(OK)
            connection.wait_closed()

        def fail_after_first_part() -> Iterator[bytes]:
            yield b"half"
            raise failure

        failure = variant.library.WriteError("from the iterator")
        for each in (variant, replace(variant, direct=False)):
            content: Any = (
                iterate_in_thread(fail_after_first_part()) if variant.is_async else fail_after_first_part()
            )
            with no_residue(), RawServer(handle) as server, open_client(each, server) as client:
                with pytest.raises(variant.library.WriteError) as caught:
                    client.request("POST", "/", content=content)
                assert caught.value is failure

    def test_a_large_body_is_sent(self, variant: ClientVariant, authority: Authority) -> None:
        body = bytes(range(256)) * 20_000 + b"end"
        with RawServer(respond_after(b"end"), pair=authority.server("127.0.0.1")) as server:
            with open_client(variant, server, build_ssl_context(authority)) as client:
                assert client.request("POST", "/", content=body).content == b"ok"
        assert server.requests[0].endswith(body)

    @HALF_SENT
    def test_a_response_before_the_end_of_the_request_body_is_returned(self, variant: ClientVariant) -> None:
        """The server closes the connection while the client is still sending."""

        def handle(connection: ServerConnection) -> None:
            connection.read_request(b"A" * 100)
            connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
            connection.stream.shutdown(socket.SHUT_WR)
            has_responded.set()
            connection.stream.recv(65536)

        has_responded = threading.Event()

        def send_more() -> Iterator[bytes]:
            yield b"A" * 100
            assert has_responded.wait(LONG_TIMEOUT)
            for _ in range(1000):
                yield b"A" * 65536

        with no_residue(), RawServer(handle, always(OK)) as server, open_client(variant, server) as client:
            content: Any = iterate_in_thread(send_more()) if variant.is_async else send_more()
            response = client.request("POST", "/", content=content, headers={"Content-Length": "999999999"})

            assert (response.status_code, response.content) == (413, b"no")
            assert client.get("/").content == b"ok"
            assert len(server.connections) == 2

    def test_connection_close_closes_the_connection(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            for _ in range(2):
                client.get("/", headers={"Connection": "close"})
            assert len(server.connections) == 2

    def test_the_target_extension_replaces_the_path(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            client.request("OPTIONS", "/", extensions={"target": b"*"})
        assert server.requests[0].startswith(b"OPTIONS * HTTP/1.1\r\n")

    @pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "//127.0.0.1/"])
    def test_an_unsupported_scheme_is_rejected(self, variant: ClientVariant, url: str) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            transport = client.client._transport
            request = variant.library.Request("GET", url)
            with pytest.raises(variant.library.UnsupportedProtocol, match="http or https"):
                send(client, transport, request)


def send(driver: Driver, transport: Any, request: Any) -> Any:
    """Send without the client, which rejects such URLs itself."""
    if driver._portal is None:
        return transport.handle_request(request)
    return driver._portal.call(transport.handle_async_request, request)


def respond_after(end: bytes) -> Callable[[ServerConnection], None]:
    """Respond to each request after its body has ended with `end`."""

    def handle(connection: ServerConnection) -> None:
        while connection.read_request(end):
            connection.send(OK)

    return handle


def parts(variant: ClientVariant, *content: bytes) -> Any:
    return iterate_in_thread(iter(content)) if variant.is_async else iter(content)


async def iterate_in_thread(content: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (part := await anyio.to_thread.run_sync(next, content, None)) is not None:
        yield part


class TestTimeouts:
    def test_no_response_is_a_read_timeout(self, variant: ClientVariant) -> None:
        timeout = variant.library.Timeout(LONG_TIMEOUT, read=0.05)
        with no_residue(), RawServer(ServerConnection.wait_closed, always(OK)) as server:
            with open_client(variant, server, timeout=timeout) as client:
                with pytest.raises(variant.library.ReadTimeout):
                    client.get("/")
                assert client.get("/", timeout=LONG_TIMEOUT).content == b"ok"

    def test_a_stalled_body_is_a_read_timeout(self, variant: ClientVariant) -> None:
        def handle(connection: ServerConnection) -> None:
            connection.read_request(b"body\r\n")
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok")
            has_responded.set()
            connection.wait_closed()

        has_responded = threading.Event()

        def wait_for_response() -> Iterator[bytes]:
            """End the request after the first half of the response was sent, however slow the server is."""
            yield b"body"
            assert has_responded.wait(LONG_TIMEOUT)

        timeout = variant.library.Timeout(LONG_TIMEOUT, read=0.05)
        content: Any = iterate_in_thread(wait_for_response()) if variant.is_async else wait_for_response()
        with (
            no_residue(),
            RawServer(handle) as server,
            open_client(variant, server, timeout=timeout) as client,
        ):
            with client.stream("POST", "/", content=content) as stream:
                assert stream.part() == b"ok"
                with pytest.raises(variant.library.ReadTimeout):
                    stream.part()
            assert server.closed.acquire(timeout=LONG_TIMEOUT)

    def test_a_server_that_does_not_read_is_a_write_timeout(self, variant: ClientVariant) -> None:
        is_done = threading.Event()
        timeout = variant.library.Timeout(LONG_TIMEOUT, write=0.05)
        with no_residue(), RawServer(lambda _: wait_for(is_done)) as server:
            with (
                open_client(variant, server, timeout=timeout) as client,
                pytest.raises(variant.library.WriteTimeout),
            ):
                client.request("POST", "/", content=b"x" * 20_000_000)
            is_done.set()

    @pytest.mark.slow
    def test_the_write_timeout_applies_to_each_write(self) -> None:
        """As in httpx with threads."""

        def handle(connection: ServerConnection) -> None:
            connection.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            left = len(body)
            while left > 0:
                left -= len(connection.stream.recv(100_000))
                time.sleep(0.04)
            connection.send(OK)

        body = b"x" * 15_000_000
        timeout = httpx.Timeout(LONG_TIMEOUT, write=5.0)  # the whole body takes longer, no single write does
        with (
            RawServer(handle) as server,
            open_client(ClientVariant(httpx, "sync", True), server, timeout=timeout) as client,
        ):
            assert client.request("POST", "/", content=body).content == b"ok"

    def test_a_stalled_tls_handshake_is_a_connect_timeout(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        timeout = variant.library.Timeout(LONG_TIMEOUT, connect=0.05)
        with no_residue(), RawServer(ServerConnection.wait_closed) as server:
            server.url = server.url.replace("http:", "https:")
            with open_client(variant, server, build_ssl_context(authority), timeout=timeout) as client:
                with pytest.raises(variant.library.ConnectTimeout):
                    client.get("/")

    def test_each_request_on_a_connection_has_its_own_timeout(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            for timeout in (None, LONG_TIMEOUT, None, LONG_TIMEOUT / 2):
                assert client.get("/", timeout=timeout).content == b"ok"
            assert len(server.connections) == 1


def wait_for(event: threading.Event) -> None:
    assert event.wait(LONG_TIMEOUT)


class TestConnect:
    def test_connection_refused_is_a_connect_error(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server:
            pass
        with (
            no_residue(),
            open_client(variant, server) as client,
            pytest.raises(variant.library.ConnectError) as caught,
        ):
            client.get("/")
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)

    def test_a_host_name_is_resolved(self, variant: ClientVariant, authority: Authority) -> None:
        with RawServer(always(OK), pair=authority.server("localhost")) as server:
            server.url = server.url.replace("127.0.0.1", "localhost")
            with open_client(variant, server, build_ssl_context(authority)) as client:
                assert client.get("/").content == b"ok"

    def test_an_invalid_host_name_is_a_connect_error(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            with pytest.raises(variant.library.ConnectError):
                client.get(f"http://{'a' * 64}.example:{server.port}/")

    def test_a_certificate_of_another_ca_is_a_connect_error(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        with no_residue(), RawServer(always(OK), pair=Authority("other").server("127.0.0.1")) as server:
            with open_client(variant, server, build_ssl_context(authority)) as client:
                with pytest.raises(variant.library.ConnectError) as caught:
                    client.get("/")
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)

    def test_the_certificate_is_verified_for_sni_hostname(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        with RawServer(always(OK), pair=authority.server("kubernetes")) as server:
            with open_client(variant, server, build_ssl_context(authority)) as client:
                for _ in range(2):
                    assert client.get("/", extensions={"sni_hostname": "kubernetes"}).content == b"ok"
                assert len(server.connections) == 1

    def test_a_connection_with_another_sni_hostname_is_not_reused(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        """It is idle and goes to the same port, but its certificate was verified for another name."""
        with RawServer(always(OK), pair=authority.server("kubernetes")) as server:
            with open_client(variant, server, build_ssl_context(authority)) as client:
                client.get("/", extensions={"sni_hostname": "kubernetes"})
                with pytest.raises(variant.library.ConnectError) as caught:
                    client.get("/")
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)

    def test_ws_and_http_urls_share_connections(self, variant: ClientVariant) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            assert client.get(server.url.replace("http", "ws")).content == b"ok"
            assert client.get("/").content == b"ok"
            assert len(server.connections) == 1

    def test_max_connections_is_rejected(self, variant: ClientVariant) -> None:
        with pytest.raises(ValueError, match="max_connections"):
            variant.PlainTransport(
                ssl.create_default_context(), limits=variant.library.Limits(max_connections=5)
            )


class TestKeepAlive:
    def test_a_connection_closed_by_the_server_is_not_reused(self, variant: ClientVariant) -> None:
        """A POST would fail, because it is not retried."""
        with RawServer(once(OK)) as server, open_client(variant, server) as client:
            for count in range(1, 4):
                assert client.request("POST", "/", content=b"").content == b"ok"
                assert server.closed.acquire(timeout=LONG_TIMEOUT)
                assert len(server.connections) == count

    def test_idle_connections_expire_after_ninety_seconds(
        self, variant: ClientVariant, clock: FakeClock
    ) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server, clock=clock) as client:
            for seconds in (0.0, 89.9, 89.9, 90.0):
                clock.advance(seconds)
                client.get("/")
            assert [len(connection.requests) for connection in server.connections] == [3, 1]
            assert server.closed.acquire(timeout=LONG_TIMEOUT)

    def test_idle_connections_expire_after_keepalive_expiry(
        self, variant: ClientVariant, clock: FakeClock
    ) -> None:
        limits = variant.library.Limits(max_keepalive_connections=1, keepalive_expiry=5.0)
        with (
            RawServer(always(OK)) as server,
            open_client(variant, server, clock=clock, limits=limits) as client,
        ):
            for seconds in (0.0, 4.9, 5.0):
                clock.advance(seconds)
                client.get("/")
            assert [len(connection.requests) for connection in server.connections] == [2, 1]

    def test_max_keepalive_connections_limits_only_idle_connections(self, variant: ClientVariant) -> None:
        limits = variant.library.Limits(max_keepalive_connections=2)
        with RawServer(always(OK)) as server, open_client(variant, server, limits=limits) as client:
            with ExitStack() as stack:
                for _ in range(5):
                    stack.enter_context(client.stream("GET", "/"))
                assert len(server.connections) == 5
            for _ in range(5):
                assert server.closed.acquire(timeout=LONG_TIMEOUT)  # none was read to the end

            for _ in range(3):
                client.get("/")
            assert len(server.connections) == 6


class TestClose:
    def test_close_closes_idle_and_active_connections(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        """One idle connection, one with a partially read response, one with an unread response."""

        def send_first_part(connection: ServerConnection) -> None:
            connection.read_request()
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
            connection.wait_closed()

        pair = authority.server("127.0.0.1")
        with no_residue(), RawServer(send_first_part, send_first_part, always(OK), pair=pair) as server:
            with open_client(variant, server, build_ssl_context(authority)) as client, ExitStack() as stack:
                streams = [stack.enter_context(client.stream("GET", "/")) for _ in range(2)]
                assert streams[0].part() == b"ok"

                client.get("/")
                client.close()
                for _ in range(3):
                    assert server.closed.acquire(timeout=LONG_TIMEOUT)
                with pytest.raises(variant.library.ReadError):
                    streams[0].part()

    def test_close_interrupts_a_request_that_waits_for_its_response(self, variant: ClientVariant) -> None:
        """Also in a thread, which closing the socket would not wake up."""
        with (
            no_residue(),
            RawServer(ServerConnection.wait_closed) as server,
            open_client(variant, server) as client,
        ):
            errors: list[BaseException] = []

            def request() -> None:
                try:
                    client.get("/")
                except BaseException as error:
                    errors.append(error)

            thread = threading.Thread(target=request)
            thread.start()
            wait_until(lambda: len(server.connections) == 1)
            wait_until(
                lambda: any(
                    connection._is_reading for connection in list(client.client._transport._pool._in_use)
                )
            )
            client.close()
            thread.join(LONG_TIMEOUT)

            assert [type(error) for error in errors] == [variant.library.ReadError]

    def test_a_connection_opened_after_close_is_not_retained(self, variant: ClientVariant) -> None:
        """A request in progress gets its response, and its connection is closed afterwards."""
        with no_residue(), RawServer(always(OK)) as server, open_client(variant, server) as client:
            client.client._transport._pool.close()
            for _ in range(2):
                assert client.get("/").content == b"ok"
                assert server.closed.acquire(timeout=LONG_TIMEOUT)

    def test_a_response_closed_several_times_releases_its_connection_once(
        self, variant: ClientVariant
    ) -> None:
        with RawServer(always(OK)) as server, open_client(variant, server) as client:
            with client.stream("GET", "/") as stream:
                body = stream.response.stream
                while hasattr(body, "_stream"):
                    body = body._stream
                stream.part()
                for _ in range(3):
                    body.close() if not variant.is_async else client._portal.call(body.aclose)  # type: ignore[union-attr]

                pool = client.client._transport._pool

                assert (len(pool._idle), len(pool._in_use)) == (1, 0)

    @HALF_SENT
    def test_the_connection_of_an_abandoned_response_is_closed(self, variant: ClientVariant) -> None:
        """As in httpx: the garbage collector closes the response and its connection."""
        response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"
        for each in (variant, replace(variant, direct=False)):
            with no_residue(), RawServer(always(response)) as server, open_client(each, server) as client:
                abandon_response(client)
                assert server.closed.acquire(timeout=LONG_TIMEOUT)

    def test_the_connection_of_a_partially_read_response_is_not_reused(self, variant: ClientVariant) -> None:
        response = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000
        with no_residue(), RawServer(always(response)) as server, open_client(variant, server) as client:
            with client.stream("GET", "/") as stream:
                stream.part()

            assert server.closed.acquire(timeout=LONG_TIMEOUT)
            assert len(client.get("/").content) == 200_000
            assert len(server.connections) == 2


def abandon_response(driver: Driver) -> None:
    request = driver.client.build_request("GET", "/")

    async def abandon() -> None:
        response = await driver.client.send(request, stream=True)
        async for part in response.aiter_raw():
            assert part == b"ok"
            break

    if driver._portal is not None:
        driver._portal.call(abandon)
        return
    for part in driver.client.send(request, stream=True).iter_raw():
        assert part == b"ok"
        break


class TestNetworkStream:
    @pytest.mark.parametrize("method", ["GET", "CONNECT"])
    def test_an_upgraded_connection_can_be_read_and_written(
        self, variant: ClientVariant, authority: Authority, method: str
    ) -> None:
        def handle(connection: ServerConnection) -> None:
            connection.read_request()
            status = b"101 Switching" if method == "GET" else b"200 Go"
            connection.send(
                b"HTTP/1.1 " + status + b"\r\nConnection: Upgrade\r\nUpgrade: spdy/3.1\r\n\r\nhello"
            )
            connection.send(connection.read_request(b"!").upper())
            connection.wait_closed()

        with no_residue(), RawServer(handle, pair=authority.server("127.0.0.1")) as server:
            with open_client(variant, server, build_ssl_context(authority)) as client:
                with client.stream(method, "/exec", headers=UPGRADE) as stream:
                    network = stream.response.extensions["network_stream"]
                    call = get_runner(client)
                    assert call(network.read, 3) + call(network.read, 100) == b"hello"

                    call(network.write, b"you!")
                    assert call(network.read, 100, LONG_TIMEOUT) == b"YOU!"
                    with pytest.raises(variant.library.ReadTimeout):
                        call(network.read, 100, 0.05)

                    call(network.write, b"", LONG_TIMEOUT)
                    call(network.aclose if variant.is_async else network.close)

                    with pytest.raises(variant.library.ReadError):
                        call(network.read, 100)
                    with pytest.raises(variant.library.WriteError):
                        call(network.write, b"x")
                    assert network.is_readable
            assert server.closed.acquire(timeout=LONG_TIMEOUT)

    def test_extra_info_of_the_connection(self, variant: ClientVariant, authority: Authority) -> None:
        for pair in (None, authority.server("127.0.0.1")):
            with RawServer(always(OK), pair=pair) as server:
                with (
                    open_client(variant, server, build_ssl_context(authority)) as client,
                    client.stream("GET", "/") as stream,
                ):
                    network = stream.response.extensions["network_stream"]
                    assert network.get_extra_info("server_addr") == ("127.0.0.1", server.port)
                    assert network.get_extra_info("client_addr")[0] == "127.0.0.1"
                    assert isinstance(network.get_extra_info("socket"), socket.socket)
                    assert isinstance(network.get_extra_info("ssl_object"), ssl.SSLSocket) == (
                        pair is not None
                    )
                    assert network.get_extra_info("is_readable") is False
                    assert network.get_extra_info("nonsense") is None


def get_runner(driver: Driver) -> Callable[..., Any]:
    if driver._portal is None:
        return lambda work, *args: work(*args)
    return driver._portal.call


class TestEventLoops:
    @pytest.mark.every_variant
    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_a_cancelled_request_leaves_nothing_behind(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        """During the TLS handshake, while sending the body, and while waiting for the response."""

        def never_read(_: ServerConnection) -> None:
            wait_for(is_done)

        is_done = threading.Event()
        pair = authority.server("127.0.0.1")
        with no_residue(), ExitStack() as stack:
            cases = [
                (stack.enter_context(RawServer(ServerConnection.wait_closed, pair=pair)), b""),
                (stack.enter_context(RawServer(never_read, pair=pair)), b"x" * 20_000_000),
                (stack.enter_context(RawServer(ServerConnection.wait_closed)), b""),
            ]
            cases[2][0].url = cases[2][0].url.replace("http:", "https:")
            stack.callback(is_done.set)

            async def main() -> None:
                for server, content in cases:
                    transport = variant.PlainTransport(build_ssl_context(authority))
                    async with variant.PlainClient(
                        transport=transport, base_url=server.url, timeout=None
                    ) as client:
                        with anyio.move_on_after(0.2) as scope:
                            await client.post("/", content=content)
                        assert scope.cancelled_caught
                        assert not transport._pool._idle
                        assert not transport._pool._in_use

            anyio.run(main, backend=variant.runtime)

    @pytest.mark.every_variant
    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_a_request_in_a_cancelled_scope_is_not_sent(self, variant: ClientVariant) -> None:
        """Even if an idle connection is available; as in httpx."""

        async def main(each: ClientVariant) -> None:
            transport = each.PlainTransport(ssl.create_default_context())
            async with each.PlainClient(
                transport=transport, base_url=server.url, timeout=LONG_TIMEOUT
            ) as client:
                await client.get("/")
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await client.post("/")
                assert scope.cancelled_caught

        for each in (variant, replace(variant, direct=False)):
            with no_residue(), RawServer(always(OK)) as server:
                anyio.run(main, each, backend=variant.runtime)
            assert len(server.requests) == 1

    @pytest.mark.parametrize("variant", ASYNC, ids=str)
    def test_other_tasks_run_while_buffered_data_is_read(
        self, variant: ClientVariant, authority: Authority
    ) -> None:
        """Each read returns one TLS record; none of them waits, since all records have been received."""
        records, size = 100, 100
        turns = 0
        head_received = threading.Event()

        def handle(connection: ServerConnection) -> None:
            connection.read_request()
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (records * size))
            assert head_received.wait(LONG_TIMEOUT)
            for _ in range(records):
                connection.send(b"x" * size)
            connection.wait_closed()

        def are_all_received(stream: socket.socket) -> bool:
            with socket.socket(fileno=os.dup(stream.fileno())) as duplicate:
                try:
                    encrypted = duplicate.recv(2**20, socket.MSG_PEEK)
                except BlockingIOError:  # nothing yet
                    return False
            return len(encrypted) >= records * (5 + size + 16)  # each has a header and a tag

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async def main() -> None:
            transport = variant.PlainTransport(build_ssl_context(authority))
            async with variant.PlainClient(
                transport=transport, base_url=server.url, timeout=LONG_TIMEOUT
            ) as client:
                async with client.stream("GET", "/") as response, anyio.create_task_group() as group:
                    head_received.set()
                    network = response.extensions["network_stream"]
                    wait_until(lambda: are_all_received(network.get_extra_info("socket")))
                    group.start_soon(count_turns)
                    body = b"".join([chunk async for chunk in response.aiter_raw()])
                    group.cancel_scope.cancel()
            assert len(body) == records * size

        with RawServer(handle, pair=authority.server("127.0.0.1")) as server:
            anyio.run(main, backend=variant.runtime)

        assert turns > 10

    def test_a_transport_can_be_used_in_several_event_loops(self) -> None:
        transport = kubeauth.transports.AsyncDirectTransport(ssl.create_default_context())

        async def main(is_last: bool) -> None:
            client = httpx.AsyncClient(transport=transport, base_url=server.url, timeout=LONG_TIMEOUT)
            assert (await client.get("/")).content == b"ok"
            if is_last:
                await client.aclose()

        with no_residue(), RawServer(always(OK)) as server:
            for backend, is_last in (("asyncio", False), ("trio", False), ("asyncio", True)):
                anyio.run(main, is_last, backend=backend)
            assert len(server.connections) == 1


@pytest.mark.load
@pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)
def test_closing_a_busy_client_does_not_affect_another_client(library: Any, authority: Authority) -> None:
    """Sixteen threads use the closed client; the other client may get the descriptors it frees."""
    variant = ClientVariant(library, "sync", True)
    with no_residue(), RawServer(always(OK), pair=authority.server("127.0.0.1")) as server:
        with open_client(variant, server, build_ssl_context(authority)) as other:
            for number in range(100):
                with open_client(variant, server, build_ssl_context(authority)) as client:
                    errors: list[BaseException] = []
                    threads = [
                        threading.Thread(target=request_until_closed, args=(client, library, errors))
                        for _ in range(16)
                    ]
                    for thread in threads:
                        thread.start()
                    for _ in range(number % 10):
                        assert other.get("/").content == b"ok"
                    client.close()
                    for _ in range(3):
                        assert other.get("/").content == b"ok"
                    for thread in threads:
                        thread.join(LONG_TIMEOUT)
                        assert not thread.is_alive()
                    assert errors == []


def request_until_closed(driver: Driver, library: Any, errors: list[BaseException]) -> None:
    try:
        while True:
            assert driver.get("/").content == b"ok"
    except library.TransportError:
        pass
    except RuntimeError as error:
        if "client has been closed" not in str(error):
            errors.append(error)
    except BaseException as error:
        errors.append(error)


class Renegotiating(socket.socket):
    """A socket whose first read wants a write, or whose first write wants a read, as in a TLS renegotiation."""

    raised: Exception | None = None

    def recv(self, *args: Any) -> bytes:
        self._raise_first(ssl.SSLWantWriteError())
        return super().recv(*args)

    def send(self, *args: Any) -> int:
        self._raise_first(ssl.SSLWantReadError())
        return super().send(*args)

    def do_handshake(self) -> None:
        self._raise_first(ssl.SSLWantWriteError())

    def _raise_first(self, reason: Exception) -> None:
        if self.raised is None:
            self.raised = reason
            raise reason


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tls_may_need_to_write_before_reading_and_read_before_writing(backend: str) -> None:
    async def main() -> None:
        for operation in ("read", "write", "handshake"):
            local, peer = socket.socketpair()
            with peer, Renegotiating(fileno=local.detach()) as ours:
                ours.setblocking(False)
                peer.sendall(b"hello")
                connection = _async_backend.Connection(ours, ("https", "h", 443, "h"), httpx)
                if operation == "read":
                    assert await connection.read(100) == b"hello"
                elif operation == "write":
                    await connection.write(b"hello")
                    assert peer.recv(100) == b"hello"
                else:
                    await _async_backend._handshake(ours)  # type: ignore[arg-type]
                assert ours.raised is not None

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
class TestSeveralAddresses:
    """A host name may have several addresses, some of which are not reachable."""

    @contextmanager
    def unresponsive_address(self) -> Iterator[_async_backend.Address]:
        """An address that does not respond: the backlog of its listener is full."""
        with ExitStack() as stack:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for _ in range(8):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            yield self.address(listener.getsockname())

    def address(self, sockaddr: Any) -> _async_backend.Address:
        return socket.AF_INET, socket.SOCK_STREAM, 0, "", sockaddr

    def connect(self, backend: str, *addresses: _async_backend.Address) -> Any:
        async def main() -> Any:
            with anyio.fail_after(LONG_TIMEOUT):
                with await _async_backend.connect_to_fastest(addresses) as connected:
                    return connected.getpeername()

        with no_residue():
            return anyio.run(main, backend=backend)

    def test_the_next_address_is_tried_if_one_does_not_respond(self, backend: str) -> None:
        with RawServer(always(OK)) as server, self.unresponsive_address() as unresponsive:
            here = ("127.0.0.1", server.port)
            assert self.connect(backend, unresponsive, self.address(here)) == here

    def test_the_next_address_is_tried_if_one_refuses(self, backend: str) -> None:
        with RawServer(always(OK)) as gone:
            pass
        with RawServer(always(OK)) as server:
            refused, here = ("127.0.0.1", gone.port), ("127.0.0.1", server.port)
            assert self.connect(backend, self.address(refused), self.address(here)) == here

    def test_if_all_addresses_refuse_the_first_error_is_raised(self, backend: str) -> None:
        with RawServer(always(OK)) as gone:
            pass
        with pytest.raises(ConnectionRefusedError):
            self.connect(backend, *[self.address(("127.0.0.1", gone.port))] * 3)

    def test_of_two_simultaneous_connections_one_is_closed(self, backend: str) -> None:
        opened: list[socket.socket] = []

        async def main() -> None:
            both_connected = anyio.Event()

            async def connect(address: _async_backend.Address) -> socket.socket:
                connected = await _async_backend.connect_to_address(address)
                opened.append(connected)
                try:
                    await both_connected.wait()
                except BaseException:
                    connected.close()
                    raise
                return connected

            async def wait_for_both() -> None:
                while len(opened) < 2:  # noqa: ASYNC110 -- a list has no event
                    await anyio.sleep(0.01)
                both_connected.set()

            async with anyio.create_task_group() as group:
                group.start_soon(wait_for_both)
                with await _async_backend.connect_to_fastest(
                    [here, here], connect, attempt_delay=0.01
                ) as connected:
                    assert sum(each.fileno() >= 0 for each in opened) == 1
                    assert connected.getpeername() == here[4]

        with no_residue(), RawServer(ServerConnection.wait_closed) as server:
            here = self.address(("127.0.0.1", server.port))
            anyio.run(main, backend=backend)

    def test_cancellation_after_connecting_leaves_nothing_behind(self, backend: str) -> None:
        async def main() -> None:
            with anyio.CancelScope() as scope:

                async def connect(address: _async_backend.Address) -> socket.socket:
                    connected = await _async_backend.connect_to_address(address)
                    scope.cancel()
                    return connected

                await _async_backend.connect_to_fastest([self.address(("127.0.0.1", server.port))], connect)
            assert scope.cancelled_caught
            assert server.closed.acquire(timeout=LONG_TIMEOUT)

        with no_residue(), RawServer(ServerConnection.wait_closed) as server:
            anyio.run(main, backend=backend)

    def test_cancellation_while_connecting_leaves_nothing_behind(self, backend: str) -> None:
        async def main() -> None:
            with anyio.move_on_after(0.4):
                await _async_backend.connect_to_fastest([unresponsive, unresponsive])

        with self.unresponsive_address() as unresponsive, no_residue():
            anyio.run(main, backend=backend)


def test_a_proxy_uses_the_transport_of_the_library(variant: ClientVariant, server: APIServer) -> None:
    """Which supports all kinds of proxies: see test_proxies."""
    proxy = variant.library.Proxy("http://127.0.0.1:9")
    transport = variant.PlainTransport(ssl.create_default_context(), proxy)
    own = variant.library.AsyncHTTPTransport if variant.is_async else variant.library.HTTPTransport

    assert isinstance(transport._proxy_transport, own)


def test_aborting_a_forked_copy_does_not_shut_down_the_parents_connection() -> None:
    """Even if a thread of the parent was reading from it at the time of the fork."""
    ours, peer = socket.socketpair()
    with peer, ours.dup() as parents:
        copy = _sync_backend.Connection(ours, ("http", "h", 80, "h"), httpx)
        copy._pid, copy._is_reading = 0, True
        copy.abort()
        assert ours.fileno() == -1

        peer.sendall(b"still there")
        assert parents.recv(100) == b"still there"


def test_select_is_used_if_poll_is_not_available(
    variant: ClientVariant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows."""
    monkeypatch.delattr("select.poll", raising=False)
    with RawServer(once(OK), always(OK)) as server, open_client(variant, server) as client:
        assert client.get("/").content == b"ok"
        assert server.closed.acquire(timeout=LONG_TIMEOUT)
        assert [client.get("/").content for _ in range(2)] == [b"ok"] * 2
        assert len(server.connections) == 2


def test_names_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dir(kubeauth.transports) == ["AsyncDirectTransport", "DirectTransport"]

    monkeypatch.delattr(kubeauth.transports, "httpx2")
    assert issubclass(kubeauth.transports.httpx2.DirectTransport, httpx2.BaseTransport)
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        getattr(kubeauth.transports, "nope")  # noqa: B009 -- an unknown name
