"""Retries on stale connections, redirects, and request bodies that can be read only once."""

from __future__ import annotations

import io
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from kubeauth.testing import Answer, APIServer, Authority, FakeClock
from tests.support.clients import VARIANTS, ClientVariant

pytestmark = pytest.mark.every_variant


@pytest.fixture
def flaky_server(server: APIServer) -> APIServer:
    """Closes the connection on the second request to /flaky, without a response."""
    count = itertools.count(1)

    def respond(_request: Any) -> Answer:
        return Answer(hang_up=next(count) == 2)

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        server.on(method, "/flaky", respond)
    return server


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_get_and_head_are_retried_on_a_stale_connection(
    variant: ClientVariant, flaky_server: APIServer, method: str
) -> None:
    with variant.client(flaky_server.config(token="alices-token")) as client:
        assert client.request(method, "/flaky").status_code == 200
        assert client.request(method, "/flaky").status_code == 200

    assert [request.connection for request in flaky_server.requests] == [1, 1, 2]
    assert {request.user for request in flaky_server.requests} == {"alice"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_methods_that_change_something_are_not_retried(
    variant: ClientVariant, flaky_server: APIServer, method: str
) -> None:
    with variant.client(flaky_server.config(token="alices-token")) as client:
        assert client.request(method, "/flaky").status_code == 200
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.request(method, "/flaky")

    assert len(flaky_server.requests) == 2


def test_a_request_is_retried_only_once(variant: ClientVariant, server: APIServer) -> None:
    server.on("GET", "/closed", Answer(hang_up=True))
    with variant.client(server.config(token="alices-token")) as client:
        client.get("/version")
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.get("/closed")

    assert [request.path for request in server.requests] == ["/version", "/closed", "/closed"]


def test_a_request_on_the_first_connection_is_not_retried(variant: ClientVariant, server: APIServer) -> None:
    server.on("GET", "/closed", Answer(hang_up=True))
    with variant.client(server.config(token="alices-token")) as client:
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.get("/closed")

    assert len(server.requests) == 1


def test_requests_succeed_after_the_server_closed_every_connection(
    variant: ClientVariant, server: APIServer
) -> None:
    with variant.client(server.config(token="alices-token")) as client:
        for _ in range(5):
            assert client.get("/version").status_code == 200
            server.hang_up()

    assert len(server.requests) == 5


def test_an_invalid_response_is_not_retried(variant: ClientVariant, server: APIServer) -> None:
    """Only a connection that was closed without a response is stale."""
    server.on("GET", "/invalid", Answer(200, headers={"Bad Header": "x"}))
    with variant.client(server.config(token="alices-token")) as client:
        client.get("/version")
        with pytest.raises(variant.library.RemoteProtocolError):
            client.get("/invalid")

    assert len(server.requests) == 2


def chunks() -> Iterator[bytes]:
    yield b"first "
    yield b"second"


async def achunks() -> AsyncIterator[bytes]:
    yield b"first "
    yield b"second"


def body_options(variant: ClientVariant, kind: str) -> Any:
    if kind == "file":
        return {"files": {"f": io.BytesIO(b"first second")}}
    if kind == "bytes":
        return {"content": b"first second"}
    return {"content": achunks() if variant.is_async else chunks()}


@pytest.mark.parametrize("kind", ["bytes", "generator", "file"])
def test_a_body_is_sent_completely(variant: ClientVariant, server: APIServer, kind: str) -> None:
    server.on("POST", "/upload", Answer(201))
    with variant.client(server.config(token="alices-token")) as client:
        assert client.request("POST", "/upload", **body_options(variant, kind)).status_code == 201

    assert b"first second" in server.requests[0].body
    assert server.requests[0].user == "alice"


@pytest.mark.parametrize("kind", ["generator", "file"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_that_can_be_read_once_is_not_retried(
    variant: ClientVariant, flaky_server: APIServer, kind: str, method: str
) -> None:
    with variant.client(flaky_server.config(token="alices-token")) as client:
        client.get("/version")
        assert client.request(method, "/flaky", **body_options(variant, kind)).status_code == 200
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.request(method, "/flaky", **body_options(variant, kind))

    bodies = [request.body for request in flaky_server.requests if request.path == "/flaky"]
    assert len(bodies) == 2
    assert all(b"first second" in body for body in bodies)


@pytest.mark.parametrize("kind", ["open file", "iterator", "generator"])
def test_a_redirect_of_a_consumed_body_raises_stream_consumed(
    variant: ClientVariant, server: APIServer, kind: str, tmp_path: Path
) -> None:
    """httpx would send an empty body with the old Content-Length."""
    server.on("POST", "/from", Answer(307, headers={"Location": "/to"}))
    server.on("POST", "/to", Answer(201))
    (tmp_path / "f").write_bytes(b"first second")

    with (tmp_path / "f").open("rb") as file:
        contents = {"open file": file, "iterator": iter([b"first ", b"second"]), "generator": chunks()}
        content = achunks() if variant.is_async else contents[kind]
        with variant.client(server.config(token="alices-token"), follow_redirects=True) as client:
            with pytest.raises(variant.library.StreamConsumed):
                client.request("POST", "/from", content=content)

    assert [request.path for request in server.requests] == ["/from"]
    assert server.requests[0].body == b"first second"


@pytest.mark.parametrize("kind", ["bytes", "file"])
def test_a_redirect_sends_a_replayable_body_again(
    variant: ClientVariant, server: APIServer, kind: str
) -> None:
    server.on("POST", "/from", Answer(307, headers={"Location": "/to"}))
    server.on("POST", "/to", Answer(201))
    with variant.client(server.config(token="alices-token"), follow_redirects=True) as client:
        assert client.request("POST", "/from", **body_options(variant, kind)).status_code == 201

    assert all(b"first second" in request.body for request in server.requests)
    assert len(server.requests) == 2


def test_a_retry_after_a_rotation_uses_the_new_certificate(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """The connection is closed after its pool was retired: the retry uses the new pool."""
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    is_retry = False

    with variant.client(config, clock=clock) as client:

        def respond(_request: Any) -> Answer:
            nonlocal is_retry
            if is_retry:
                return Answer()
            is_retry = True
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            # This request, from the thread of the server, rotates the certificate.
            client.get("/version")
            return Answer(hang_up=True)

        server.on("GET", "/flaky", respond)
        client.get("/version")

        assert client.get("/flaky").status_code == 200

    assert [request.user for request in server.requests] == ["carol", "carol", "dave", "dave"]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_request_is_retried_after_http2_goaway(variant: ClientVariant, authority: Authority) -> None:
    from tests.support.h2_server import H2Server

    with H2Server(authority.server("127.0.0.1"), go_away_on=2) as server:
        config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret("t"))
        with variant.client(config, http2=True) as client:
            assert [client.get("/x").status_code for _ in range(3)] == [200] * 3

    assert len(server.requests) == 4


def test_a_get_with_a_bytes_body_is_retried_with_its_body(
    variant: ClientVariant, flaky_server: APIServer
) -> None:
    with variant.client(flaky_server.config(token="alices-token")) as client:
        client.request("GET", "/flaky", content=b"query")
        assert client.request("GET", "/flaky", content=b"query").status_code == 200
    assert [request.body for request in flaky_server.requests] == [b"query"] * 3


def test_signing_leaves_the_request_content_readable(variant: ClientVariant, server: APIServer) -> None:
    """For an event hook, for a custom transport, and on `response.request`, as without kubeauth."""
    contents: list[bytes] = []
    config = server.config(token="alices-token")

    def read_content(request: Any) -> None:
        contents.append(request.content)

    async def aread_content(request: Any) -> None:
        read_content(request)

    def respond(request: Any) -> Any:
        read_content(request)
        return variant.library.Response(200, request=request)

    def new_plain_client() -> Any:
        hooks = {"request": [aread_content if variant.is_async else read_content]}
        verify = variant.kubeauth.ssl_context(config)
        return variant.PlainClient(auth=variant.kubeauth.KubeAuth(config), verify=verify, event_hooks=hooks)

    with variant.client(config, transport_factory=variant.in_memory(respond)) as client:
        client.request("POST", "/x", content=b"body")

    with variant.drive(new_plain_client) as client:
        response = client.request("POST", f"{server.url}/x", content=b"body")

    assert [*contents, response.request.content] == [b"body"] * 3
