"""HTTP/1.1 as the webhook's server speaks it, byte by byte, on real TLS."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubeauth.testing import Authority
from tests.gmsa.test_connections import APPLICATION, PATIENT, Server, rest_of, serving
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL

LAST = b"GET /text HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Application:
    """An ASGI application without a framework, which would answer for its bugs. It records what it receives."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.is_waiting = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"4")],
        }
        if scope["path"] == "/raise":
            raise ValueError(SENTINEL)
        if scope["path"] == "/start":
            await send(start)
            raise ValueError(SENTINEL)
        if scope["path"] == "/part":
            await send(start)
            await send({"type": "http.response.body", "body": b"te", "more_body": True})
            raise ValueError(SENTINEL)
        if scope["path"] == "/nothing":
            return
        if scope["path"] == "/status":
            start["status"] = 299
        if scope["path"] == "/close":
            start["headers"] = [*start["headers"], (b"Connection", b"close")]
        async with anyio.create_task_group() as tasks:
            if scope["path"] == "/receive":
                await self._receive_all(receive)
            if scope["path"] == "/listen":
                tasks.start_soon(self._receive_all, receive)
                await self.is_waiting.wait()
            await send(start)
            await send({"type": "http.response.body", "body": b"text"})

    async def _receive_all(self, receive: Receive) -> None:
        while len(self.messages) < 1000:
            if len(self.messages) == 1:
                self.is_waiting.set()
            self.messages.append(await receive())
            if self.messages[-1]["type"] == "http.disconnect":
                return


BODY_AND_DISCONNECT = [
    {"type": "http.request", "body": b"", "more_body": False},
    {"type": "http.disconnect"},
]


def exchange(tmp_path: Path, authority: Authority, *sent: bytes, application: ASGIApp = APPLICATION) -> bytes:
    """All that the server sends on one connection, until it closes it."""

    def talk(connection: ssl.SSLSocket) -> bytes:
        for part in sent:
            connection.sendall(part)
        return rest_of(connection)

    async def work(server: Server) -> bytes:
        with await server.connected() as connection:
            found: bytes = await to_thread.run_sync(talk, connection)
        if application is APPLICATION:
            assert await server.is_answered()
        return found

    answer = serving(tmp_path, authority, work, PATIENT, application=application)
    assert isinstance(answer, bytes)
    return answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"GET /text HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /text HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2**17, b"431 Request Header Fields Too Large"),
        (b"CONNECT /health HTTP/1.1\r\nHost: a\r\n\r\n", b"405 Method Not Allowed"),
        (b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", b"400 Bad Request"),
        (b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", b"501 Not Implemented"),
        (
            b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
            b"400 Bad Request",
        ),
        (b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 19 + b"\r\n\r\n", b"400 Bad Request"),
        (
            b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            b"400 Bad Request",
        ),
        (
            b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nz\r\n",
            b"400 Bad Request",
        ),
    ],
    ids=[
        "no HTTP",
        "no host",
        "giant head",
        "CONNECT",
        "no chunk",
        "other coding",
        "two lengths",
        "19 digits",
        "length and chunks",
        "no second chunk",
    ],
)
def test_an_invalid_request_is_rejected_and_the_connection_closed(
    tmp_path: Path, authority: Authority, sent: bytes, status: bytes
) -> None:
    """The client reads why, also if it was still sending."""
    answer = exchange(tmp_path, authority, sent, LAST)
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1 ") == 1


def test_requests_that_arrive_together_are_answered_in_order(tmp_path: Path, authority: Authority) -> None:
    first = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst"
    second = b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    answer = exchange(tmp_path, authority, first + second + LAST)
    bodies = [part.split(b"\r\n\r\n")[1] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"first", b"abc", b"text"]


@pytest.mark.parametrize(
    "sent",
    [
        # Read until its end, it would keep the others waiting.
        b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10000,
        b"Content-Length: 3\r\n\r\nabc",
        b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    ],
    ids=["chunks", "complete", "100-continue"],
)
def test_a_body_that_the_application_does_not_read_closes_the_connection(
    tmp_path: Path, authority: Authority, sent: bytes
) -> None:
    head = b"POST /close HTTP/1.1\r\nHost: a\r\n"
    answer = exchange(tmp_path, authority, head + sent, application=Application())
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\ntext")
    assert answer.lower().count(b"connection: close") == 1  # not one more than the application's
    head = b"POST /nowhere HTTP/1.1\r\nHost: a\r\n"
    answer = exchange(tmp_path, authority, head + sent)
    assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert answer.count(b"connection: close") == 1


def test_an_invalid_body_after_its_response_closes_the_connection(
    tmp_path: Path, authority: Authority
) -> None:
    head = b"POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = exchange(tmp_path, authority, head + b"1\r\nx\r\n" + b"z\r\n", LAST)
    assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_body_of_many_small_chunks_arrives_whole(tmp_path: Path, authority: Authority) -> None:
    head = b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    answer = exchange(tmp_path, authority, head, b"1\r\nx\r\n" * 5000, b"0\r\n\r\n")
    assert answer.split(b"\r\n\r\n")[1] == b"x" * 5000


def test_a_body_that_waits_for_100_continue_is_asked_for(tmp_path: Path, authority: Authority) -> None:
    head = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    interim, _, answer = exchange(tmp_path, authority, head, b"body").partition(b"\r\n\r\n")
    assert interim.startswith(b"HTTP/1.1 100 ")
    assert answer.endswith(b"\r\n\r\nbody")


def test_the_response_to_head_has_no_body(tmp_path: Path, authority: Authority) -> None:
    answer = exchange(tmp_path, authority, b"HEAD /text HTTP/1.1\r\nHost: a\r\n\r\n", LAST)
    assert answer.count(b"content-length: 4") == 2
    assert answer.count(b"text") == answer.count(b"text/plain") + 1


def test_a_client_of_http_1_0_is_answered_once(tmp_path: Path, authority: Authority) -> None:
    answer = exchange(tmp_path, authority, b"GET /text HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\ntext")


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(server: Server) -> None:
        for _ in range(10):
            with await server.connected() as connection:
                half = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx"
                await to_thread.run_sync(connection.sendall, half)
        assert await server.is_answered()

    serving(tmp_path, authority, work, PATIENT)
    assert caplog.text == ""


def test_a_bug_of_the_application_is_logged_without_its_message_and_others_are_answered(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    answer = exchange(tmp_path, authority, b"GET /bug HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert "internal error, please report it: ValueError" in caplog.text
    assert "in bug" in caplog.text
    assert SENTINEL not in caplog.text


def close_kind(connection: ssl.SSLSocket, request: bytes) -> tuple[bytes, str]:
    """What the server sends, and whether it ends that with a close_notify."""
    connection.sendall(request)
    answer = b""
    try:
        while data := connection.recv(2**16):
            answer += data
    except ssl.SSLEOFError:
        return answer, "cut"
    return answer, "closed"


@each_case(
    ("path", "status", "end"),
    [
        ("raise", b"500 Internal Server Error", "closed"),
        ("start", b"500 Internal Server Error", "closed"),
        ("nothing", b"500 Internal Server Error", "closed"),
        # Half a response was sent. Without a close_notify, no client takes it for all of it.
        ("part", b"200 OK", "cut"),
    ],
)
def test_an_application_that_does_not_respond_is_a_500_and_logged(
    tmp_path: Path,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    path: str,
    status: bytes,
    end: str,
) -> None:
    async def work(server: Server) -> tuple[bytes, str]:
        raw = await server.raw()
        wrap = partial(server.trust.wrap_socket, raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
        with await to_thread.run_sync(wrap) as connection:
            request = f"GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
            return await to_thread.run_sync(close_kind, connection, request)

    answer, how = serving(tmp_path, authority, work, PATIENT, application=Application())
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert how == end
    assert (b"connection: close" in answer) == (end == "closed")
    assert "internal error, please report it" in caplog.text
    assert SENTINEL not in caplog.text


def test_a_status_without_a_name_is_sent_without_one(tmp_path: Path, authority: Authority) -> None:
    request = b"GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = exchange(tmp_path, authority, request, application=Application())
    assert answer.startswith(b"HTTP/1.1 299 \r\n")
    assert answer.endswith(b"\r\n\r\ntext")


def test_the_application_learns_that_the_client_has_left(tmp_path: Path, authority: Authority) -> None:
    application = Application()

    async def work(server: Server) -> None:
        with await server.connected() as connection:
            await to_thread.run_sync(connection.sendall, b"GET /receive HTTP/1.1\r\nHost: a\r\n\r\n")
            with anyio.fail_after(60):
                await application.is_waiting.wait()
        with anyio.fail_after(60):
            while len(application.messages) < 2:  # noqa: ASYNC110 -- there is no event for that
                await anyio.sleep(0.01)

    serving(tmp_path, authority, work, PATIENT, application=application)
    assert application.messages == BODY_AND_DISCONNECT


@pytest.mark.parametrize("is_together", [True, False])
def test_the_application_learns_that_its_response_is_complete(
    tmp_path: Path, authority: Authority, is_together: bool
) -> None:
    """While it waits for the client to leave; and the request after it is answered."""
    application = Application()
    request = b"GET /listen HTTP/1.1\r\nHost: a\r\n\r\n"
    sent = [request + LAST] if is_together else [request, LAST]
    answer = exchange(tmp_path, authority, *sent, application=application)
    assert answer.count(b"\r\n\r\ntext") == 2
    assert application.messages == BODY_AND_DISCONNECT
