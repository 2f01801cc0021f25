"""Responses on a TLS connection that is closed with a FIN and without close_notify.

As in Go and curl, a body without length is complete at the end of the connection, and a truncated body with length or
in chunks is an error. DirectTransport and the transports of httpx and httpx2 behave alike.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
import pytest

from kubeauth.testing import Authority
from tests.support.clients import ClientVariant, Driver
from tests.support.raw_server import RawServer, ServerConnection

RUNTIMES = ("sync", "asyncio", "trio")
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(
    params=[
        ClientVariant(library, runtime, direct)
        for library in (httpx, httpx2)
        for runtime in RUNTIMES
        for direct in (False, True)
    ],
    ids=str,
)
def variant(request: pytest.FixtureRequest) -> ClientVariant:
    found: ClientVariant = request.param
    return found


def close_after(response: bytes) -> Callable[[ServerConnection], None]:
    """Send `response` and then a FIN, without close_notify."""

    def handle(connection: ServerConnection) -> None:
        connection.read_request()
        connection.send(response)
        socket.socket.shutdown(connection.stream, socket.SHUT_WR)
        # Wait until the client has read the response: closing at once could reset the connection.
        while socket.socket.recv(connection.stream, 65536):
            pass

    return handle


@contextmanager
def client(variant: ClientVariant, server: RawServer, authority: Authority) -> Iterator[Driver]:
    def new_client() -> Any:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority.pem.decode())
        return variant.PlainClient(
            transport=variant.PlainTransport(context), base_url=server.url, timeout=60.0
        )

    with variant.drive(new_client) as driver:
        yield driver


def test_the_test_server_sends_no_close_notify(authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.pem.decode())
    with RawServer(close_after(HEAD + b"\r\nhalf"), pair=authority.server("127.0.0.1")) as server:
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as stream,
        ):
            stream.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            with pytest.raises(ssl.SSLEOFError):
                b"".join(iter(lambda: stream.recv(65536), b""))


def test_a_body_without_length_is_complete_without_close_notify(
    variant: ClientVariant, authority: Authority
) -> None:
    with RawServer(close_after(HEAD + b"\r\nhalf of it"), pair=authority.server("127.0.0.1")) as server:
        with client(variant, server, authority) as it:
            response = it.get("/")
            assert (response.status_code, response.content) == (200, b"half of it")


@pytest.mark.parametrize(
    "rest",
    [b"Content-Length: 100\r\n\r\nhalf of it", b"Transfer-Encoding: chunked\r\n\r\na\r\nhalf of it\r\n"],
)
def test_a_truncated_body_with_length_or_in_chunks_is_an_error(
    variant: ClientVariant, authority: Authority, rest: bytes
) -> None:
    with RawServer(close_after(HEAD + rest), pair=authority.server("127.0.0.1")) as server:
        with (
            client(variant, server, authority) as it,
            pytest.raises(variant.library.RemoteProtocolError, match="peer closed connection"),
        ):
            it.get("/")
