"""HTTP/1.1 as the webhook's server speaks it, byte by byte, on real TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from anyio import to_thread

from kubeauth.testing import Authority
from tests.gmsa.test_connections import PATIENT, Server, rest_of, serving
from tests.io.test_leaks import SENTINEL

LAST = b"GET /text HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def exchange(tmp_path: Path, authority: Authority, *sent: bytes) -> bytes:
    """All that the server sends on one connection, until it closes it."""

    def talk(connection: ssl.SSLSocket) -> bytes:
        for part in sent:
            connection.sendall(part)
        return rest_of(connection)

    async def work(server: Server) -> bytes:
        with await server.connected() as connection:
            found: bytes = await to_thread.run_sync(talk, connection)
        assert await server.is_answered()
        return found

    answer = serving(tmp_path, authority, work, PATIENT)
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
    ],
    ids=["no HTTP", "no host", "giant head", "CONNECT", "no chunk", "other coding", "two lengths"],
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
    # Its body is not read; it has to arrive before the next request.
    second = b"POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    answer = exchange(tmp_path, authority, first + second + LAST)
    bodies = [part.split(b"\r\n\r\n")[1] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"first", b"Not Found", b"text"]


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
