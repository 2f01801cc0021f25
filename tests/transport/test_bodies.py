"""What is sent twice, and what never is: dead connections, and bodies that can be read once."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from kubeauth.testing import Answer, APIServer, Authority, FakeClock
from tests.support.clients import VARIANTS, ClientVariant

pytestmark = pytest.mark.every_variant


@pytest.fixture
def moody(server: APIServer) -> APIServer:
    """Hangs up on the second request of each path, and answers the others."""
    asked: dict[str, int] = {}

    def answer(request: Any) -> Answer:
        asked[request.path] = asked.get(request.path, 0) + 1
        return Answer(hang_up=asked[request.path] == 2)

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        server.on(method, "/moody", answer)
    return server


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_dead_connection_is_tried_once_more(variant: ClientVariant, moody: APIServer, method: str) -> None:
    with variant.client(moody.config(token="alices-token")) as client:
        assert client.request(method, "/moody").status_code == 200
        assert client.request(method, "/moody").status_code == 200
    assert [request.connection for request in moody.requests] == [1, 1, 2]
    assert {request.user for request in moody.requests} == {"alice"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_changes_something_is_not(variant: ClientVariant, moody: APIServer, method: str) -> None:
    with variant.client(moody.config(token="alices-token")) as client:
        assert client.request(method, "/moody").status_code == 200
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.request(method, "/moody")
    assert len(moody.requests) == 2


def test_once_more_and_not_twice(variant: ClientVariant, server: APIServer) -> None:
    server.on("GET", "/dead", Answer(hang_up=True))
    with variant.client(server.config(token="alices-token")) as client:
        client.get("/version")
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.get("/dead")
    assert [request.path for request in server.requests] == ["/version", "/dead", "/dead"]


def test_a_first_connection_that_dies_is_not_an_old_one(variant: ClientVariant, server: APIServer) -> None:
    server.on("GET", "/dead", Answer(hang_up=True))
    with variant.client(server.config(token="alices-token")) as client:
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.get("/dead")
    assert len(server.requests) == 1


def test_the_whole_server_restarted(variant: ClientVariant, server: APIServer) -> None:
    with variant.client(server.config(token="alices-token")) as client:
        for _ in range(5):
            assert client.get("/version").status_code == 200
            server.hang_up()
    assert len(server.requests) == 5


def test_an_answer_that_makes_no_sense_was_an_answer(variant: ClientVariant, server: APIServer) -> None:
    """Only silence is tried again."""
    server.on("GET", "/odd", Answer(200, headers={"Bad Header": "x"}))
    with variant.client(server.config(token="alices-token")) as client:
        client.get("/version")
        with pytest.raises(variant.library.RemoteProtocolError):
            client.get("/odd")
    assert len(server.requests) == 2


def chunks() -> Iterator[bytes]:
    yield b"first "
    yield b"second"


async def achunks() -> AsyncIterator[bytes]:
    yield b"first "
    yield b"second"


def body(variant: ClientVariant, kind: str) -> Any:
    if kind == "file":
        return {"files": {"f": io.BytesIO(b"first second")}}
    if kind == "bytes":
        return {"content": b"first second"}
    return {"content": achunks() if variant.is_async else chunks()}


@pytest.mark.parametrize("kind", ["bytes", "generator", "file"])
def test_a_body_arrives_whole(variant: ClientVariant, server: APIServer, kind: str) -> None:
    server.on("POST", "/upload", Answer(201))
    with variant.client(server.config(token="alices-token")) as client:
        assert client.request("POST", "/upload", **body(variant, kind)).status_code == 201
    assert b"first second" in server.requests[0].body
    assert server.requests[0].user == "alice"


@pytest.mark.parametrize("kind", ["generator", "file"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_that_can_be_read_once_is_never_sent_again_empty(
    variant: ClientVariant, moody: APIServer, kind: str, method: str
) -> None:
    with variant.client(moody.config(token="alices-token")) as client:
        client.get("/version")
        assert client.request(method, "/moody", **body(variant, kind)).status_code == 200
        with pytest.raises((variant.library.RemoteProtocolError, variant.library.ReadError)):
            client.request(method, "/moody", **body(variant, kind))
    sent = [request.body for request in moody.requests if request.path == "/moody"]
    assert len(sent) == 2
    assert all(b"first second" in each for each in sent)


@pytest.mark.parametrize("kind", ["open file", "iterator", "generator"])
def test_a_redirect_does_not_send_what_is_gone(
    variant: ClientVariant, server: APIServer, kind: str, tmp_path: Path
) -> None:
    """httpx would send nothing, and call it the same length."""
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
def test_a_redirect_sends_again_what_is_there(variant: ClientVariant, server: APIServer, kind: str) -> None:
    server.on("POST", "/from", Answer(307, headers={"Location": "/to"}))
    server.on("POST", "/to", Answer(201))
    with variant.client(server.config(token="alices-token"), follow_redirects=True) as client:
        assert client.request("POST", "/from", **body(variant, kind)).status_code == 201
    assert all(b"first second" in request.body for request in server.requests)
    assert len(server.requests) == 2


def test_a_retry_meets_a_rotation(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """The connection died while its pool was retired: the request goes on the new one."""
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    asked: list[Any] = []
    with variant.client(config, clock=clock) as client:

        def answer(request: Any) -> Answer:
            asked.append(request)
            if len(asked) > 1:
                return Answer()
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            # Another request rotates, from the server's own thread.
            client.get("/version")
            return Answer(hang_up=True)

        server.on("GET", "/moody", answer)
        client.get("/version")
        assert client.get("/moody").status_code == 200
    assert [request.user for request in server.requests] == ["carol", "carol", "dave", "dave"]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_http2_is_told_to_go_away(variant: ClientVariant, authority: Authority) -> None:
    from tests.support.h2_server import H2Server

    with H2Server(authority.server("127.0.0.1"), go_away_on=2) as server:
        config = ClientConfig(server=server.url, ca_data=authority.pem, token=Secret("t"))
        with variant.client(config, http2=True) as client:
            assert [client.get("/x").status_code for _ in range(3)] == [200] * 3
    assert len(server.requests) == 4


def test_a_get_with_bytes_for_a_body_is_sent_again_whole(variant: ClientVariant, moody: APIServer) -> None:
    with variant.client(moody.config(token="alices-token")) as client:
        client.request("GET", "/moody", content=b"query")
        assert client.request("GET", "/moody", content=b"query").status_code == 200
    assert [request.body for request in moody.requests] == [b"query"] * 3


def test_what_signs_a_request_leaves_its_content_to_be_read(
    variant: ClientVariant, server: APIServer
) -> None:
    """By an event hook, by a transport of the caller's, and on `response.request`, as without us."""
    seen: list[bytes] = []
    config = server.config(token="alices-token")

    def see(request: Any) -> None:
        seen.append(request.content)

    async def asee(request: Any) -> None:
        see(request)

    def answer(request: Any) -> Any:
        see(request)
        return variant.library.Response(200, request=request)

    with variant.client(config, transport_factory=variant.in_memory(answer)) as client:
        client.request("POST", "/x", content=b"body")

    def plain() -> Any:
        hooks = {"request": [asee if variant.is_async else see]}
        verify = variant.kubeauth.ssl_context(config)
        return variant.PlainClient(auth=variant.kubeauth.KubeAuth(config), verify=verify, event_hooks=hooks)

    with variant.drive(plain) as client:
        seen.append(client.request("POST", f"{server.url}/x", content=b"body").request.content)
    assert seen == [b"body"] * 3
