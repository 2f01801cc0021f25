"""Connections that take too long, or are too many, on real TLS: nobody keeps the webhook from answering others."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kubeauth.gmsa._http import Limits
from kubeauth.gmsa._http import Server as HTTPServer
from kubeauth.gmsa._pair import ServedPair
from kubeauth.gmsa._serve import GRACE, listening, serve
from kubeauth.testing import Authority
from tests.gmsa.serving import port_of
from tests.support.leaks import SENTINEL

FEW = 5
# Far more than fits in the buffers on the way.
LARGE = 64 * 2**20


# With limits that a test can wait for. Who is to be answered may be late on a busy machine, and tries again.
HASTY = Limits(max_connections=FEW, head_seconds=0.5, write_seconds=0.5, close_seconds=0.2)
# Who ends nothing by itself, so that only too many count.
PATIENT = Limits(max_connections=FEW, head_seconds=1000.0, write_seconds=1000.0)
# Who waits for everything but to be read: whoever is to be answered cannot be late.
TO_BE_READ = Limits(max_connections=FEW, head_seconds=1000.0, write_seconds=0.5, close_seconds=0.2)


async def pieces() -> AsyncIterator[bytes]:
    for _ in range(LARGE // 2**16):
        yield b"x" * 2**16


class Large(StreamingResponse):
    """Far too much. Says when it is over, whichever way."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            ENDED.set()


async def large(_request: Request) -> Response:
    return Large(pieces())


async def slow(_request: Request) -> Response:
    await ASKED.wait()
    return Response(status_code=204)


async def body(request: Request) -> Response:
    try:
        return Response(await request.body())
    except ClientDisconnect:
        return Response(status_code=400)


async def bug(_request: Request) -> Response:
    raise ValueError(SENTINEL)


ASKED, ENDED = anyio.Event(), anyio.Event()
APPLICATION = Starlette(
    routes=[
        Route("/health", Response(status_code=204)),
        Route("/large", large),
        Route("/slow", slow),
        Route("/body", body, methods=["POST"]),
        Route("/bug", bug),
        Route("/text", Response("text")),
    ]
)


class Server:
    """One that runs, and who talks to it."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.trust = trust
        self.ended = anyio.Event()
        self._port = port

    async def raw(self) -> socket.socket:
        """Somebody who is there, and says nothing yet."""
        return await to_thread.run_sync(
            lambda: socket.create_connection(("127.0.0.1", self._port), timeout=50)
        )

    async def connected(self) -> ssl.SSLSocket:
        """The same, after shaking hands. That may be too late for the hasty as well, and they try again."""
        for _ in range(100):
            raw = await self.raw()
            with suppress(ConnectionError, ssl.SSLError):
                shake = partial(self.trust.wrap_socket, raw, server_hostname="127.0.0.1")
                return await to_thread.run_sync(shake)
        raise AssertionError("nobody shakes hands")

    async def is_answered(self) -> bool:
        """Somebody who asks at once: on a busy machine that may be too late for the hasty, and they try again."""
        for _ in range(100):
            async with httpx.AsyncClient(verify=self.trust, timeout=50) as client:
                with suppress(httpx.TransportError):
                    return (await client.get(f"{self.url}/health")).status_code == 204
        return False


def serving(
    tmp_path: Path,
    authority: Authority,
    work: Callable[[Server], Awaitable[Any]],
    limits: Limits = HASTY,
    grace: float = GRACE,
    application: ASGIApp = APPLICATION,
) -> Any:
    """What comes of talking to a server."""
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.server("127.0.0.1").write(*files)
    trust = ssl.create_default_context(cadata=authority.pem.decode())

    async def main() -> Any:
        async with listening(0, "127.0.0.1") as listener:
            port = port_of(listener)
            async with anyio.create_task_group() as tasks:
                server = Server(port, trust)

                async def run() -> None:
                    await serve(application, ServedPair(*files), listener, limits=limits, grace=grace)
                    server.ended.set()

                tasks.start_soon(run)
                found = await work(server)
                tasks.cancel_scope.cancel()
            return found

    return anyio.run(main)


def rest_of(connection: socket.socket) -> bytes:
    """What arrives until the other side hangs up, whichever way."""
    found = b""
    try:
        while chunk := connection.recv(2**16):
            found += chunk
    except (ConnectionError, ssl.SSLError):
        pass
    return found


@pytest.mark.slow
@pytest.mark.attack(
    "GMSA webhook",
    "slowloris: no handshake, half a head, half a body, responses that are not read",
    "closed after a time limit; other clients are served",
)
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"G",
        b"GET /health HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        # After an answer, too: of the next head only the beginning.
        b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.1\r\n",
        # A body that nobody wants, and that does not end.
        b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx",
    ],
    ids=["nothing", "a letter", "half a head", "half a second head", "half a body"],
)
def test_who_does_not_say_enough_is_hung_up_on_b19(tmp_path: Path, authority: Authority, said: bytes) -> None:
    answers = said.count(b"\r\n\r\n")

    async def work(server: Server) -> int:
        for _ in range(20):
            with await server.connected() as slow:

                def talk(slow: ssl.SSLSocket = slow) -> bytes:
                    with suppress(OSError):  # it may have been too late
                        slow.sendall(said)
                    return rest_of(slow)

                found = await to_thread.run_sync(talk)
            if found.count(b"HTTP/1.1 ") == answers:
                break
        assert await server.is_answered()
        return found.count(b"HTTP/1.1 ")

    assert serving(tmp_path, authority, work) == answers


@pytest.mark.attack(
    "GMSA webhook",
    "slowloris: no handshake, half a head, half a body, responses that are not read",
    "closed after a time limit; other clients are served",
)
@pytest.mark.parametrize(
    "said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "a part", "http"]
)
def test_who_does_not_shake_hands_is_hung_up_on_b19(
    tmp_path: Path, authority: Authority, said: bytes
) -> None:
    async def work(server: Server) -> None:
        with await server.raw() as slow:

            def talk() -> None:
                slow.sendall(said)
                rest_of(slow)  # until it is over

            await to_thread.run_sync(talk)
        assert await server.is_answered()

    serving(tmp_path, authority, work)


def test_a_client_that_still_sends_a_body_reads_the_response_b19(
    tmp_path: Path, authority: Authority
) -> None:
    """The application does not read the body: the connection is closed, but not reset."""

    async def work(server: Server) -> tuple[int, str]:
        async with httpx.AsyncClient(verify=server.trust, timeout=50) as client:
            response = await client.post(f"{server.url}/nowhere", content=b"x" * 500_000)
            return response.status_code, response.headers["connection"]

    assert serving(tmp_path, authority, work, PATIENT) == (404, "close")


def test_what_comes_right_behind_the_handshake_is_answered(tmp_path: Path, authority: Authority) -> None:
    """In the same packet, as whoever speaks TLS 1.3 may send it; and who hangs up then is no error."""

    async def work(server: Server) -> int:
        answered = 0
        for number in range(30):
            with await server.raw() as raw:

                def talk(raw: socket.socket = raw, hangs_up: bool = number % 3 == 0) -> bytes:
                    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
                    client = server.trust.wrap_bio(there, back, server_hostname="127.0.0.1")
                    while True:
                        try:
                            client.do_handshake()
                            break
                        except ssl.SSLWantReadError:
                            raw.sendall(back.read())
                            there.write(raw.recv(2**16))
                    client.write(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                    raw.sendall(back.read())
                    return b"" if hangs_up else raw.recv(2**16)

                answered += bool(await to_thread.run_sync(talk))
        return answered

    assert serving(tmp_path, authority, work, PATIENT) == 20


def test_who_says_it_slowly_and_in_time_is_answered_b19(tmp_path: Path, authority: Authority) -> None:
    async def work(server: Server) -> bytes:
        with await server.connected() as slow:
            for part in (b"GET /health HT", b"TP/1.1\r\nHost: a\r\n", b"Connection: close\r\n\r\n"):
                await to_thread.run_sync(slow.sendall, part)
                await anyio.sleep(0.05)
            return await to_thread.run_sync(rest_of, slow)

    assert b"204 No Content" in serving(tmp_path, authority, work, PATIENT)


@pytest.mark.attack(
    "GMSA webhook",
    "slowloris: no handshake, half a head, half a body, responses that are not read",
    "closed after a time limit; other clients are served",
)
def test_who_does_not_read_is_hung_up_on_b19(tmp_path: Path, authority: Authority) -> None:
    async def work(server: Server) -> int:
        with await server.connected() as lazy:

            def ask() -> None:
                lazy.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")

            await to_thread.run_sync(ask)
            with anyio.fail_after(60):
                await ENDED.wait()  # though nothing was read
            assert await server.is_answered()
            return len(await to_thread.run_sync(rest_of, lazy))

    global ENDED
    ENDED = anyio.Event()
    # What is in the buffers on the way.
    assert 0 < serving(tmp_path, authority, work, TO_BE_READ) < LARGE


@pytest.mark.attack(
    "GMSA webhook",
    "slowloris: no handshake, half a head, half a body, responses that are not read",
    "closed after a time limit; other clients are served",
)
def test_a_client_that_reads_slowly_has_one_time_limit_for_a_response_b19(
    tmp_path: Path, authority: Authority
) -> None:
    """However often it reads: with a limit for each part it would get all of it."""

    def read_slowly(connection: ssl.SSLSocket) -> int:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        received = 0
        with suppress(ConnectionError, ssl.SSLError):
            while data := connection.recv(2**14):
                received += len(data)
                time.sleep(0.001)
        return received

    async def work(server: Server) -> int:
        with await server.connected() as slow:
            return await to_thread.run_sync(read_slowly, slow)

    assert 0 < serving(tmp_path, authority, work, TO_BE_READ) < LARGE


def test_who_reads_gets_all_of_it(tmp_path: Path, authority: Authority) -> None:
    async def work(server: Server) -> int:
        async with httpx.AsyncClient(verify=server.trust, timeout=50) as client:
            return len((await client.get(f"{server.url}/large")).content)

    assert serving(tmp_path, authority, work, PATIENT) == LARGE


def is_over(connection: socket.socket) -> bool:
    connection.settimeout(0.3)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True


@pytest.mark.slow
@pytest.mark.attack(
    "GMSA webhook",
    "connection flood, before and after the handshake",
    "never more than the limit; idle connections make room, requests in progress are answered",
)
@pytest.mark.parametrize("kind", ["raw", "silent", "used"])
def test_who_has_been_idle_for_the_longest_makes_room_b19(
    tmp_path: Path, authority: Authority, kind: str
) -> None:
    """Whether it has not shaken hands, has not asked, or was answered once."""

    async def idle(server: Server) -> socket.socket:
        if kind == "raw":
            return await server.raw()
        connection = await server.connected()
        if kind == "used":
            await to_thread.run_sync(connection.sendall, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"204" in await to_thread.run_sync(connection.recv, 2**16)
        return connection

    async def work(server: Server) -> list[bool]:
        many = [await idle(server) for _ in range(FEW)]
        for _ in range(3):  # each of whom needs a connection
            assert await server.is_answered()
        try:
            return [await to_thread.run_sync(is_over, each) for each in many]
        finally:
            for each in many:
                each.close()

    gone = serving(tmp_path, authority, work, PATIENT)
    # Those that came first went first, and no more than had to.
    assert gone == sorted(gone, reverse=True)
    assert 1 <= sum(gone) <= 3


@pytest.mark.attack(
    "GMSA webhook",
    "connection flood, before and after the handshake",
    "never more than the limit; idle connections make room, requests in progress are answered",
)
def test_if_all_are_being_answered_nobody_new_is_let_in_b19(tmp_path: Path, authority: Authority) -> None:
    async def work(server: Server) -> bytes:
        busy = [await server.connected() for _ in range(FEW)]
        try:
            for each in busy:
                await to_thread.run_sync(each.sendall, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            while ASKED.statistics().tasks_waiting < FEW:  # noqa: ASYNC110 -- there is no event for that
                await anyio.sleep(0.01)
            with await server.raw() as late:
                refused = await to_thread.run_sync(rest_of, late)
            ASKED.set()
            for each in busy:
                assert b"204" in await to_thread.run_sync(each.recv, 2**16)
        finally:
            for each in busy:
                each.close()
        return refused

    global ASKED
    ASKED = anyio.Event()
    assert serving(tmp_path, authority, work, PATIENT) == b""


@pytest.mark.attack(
    "GMSA webhook",
    "connection flood, before and after the handshake",
    "never more than the limit; idle connections make room, requests in progress are answered",
)
def test_half_a_body_keeps_no_other_client_out_b19(tmp_path: Path, authority: Authority) -> None:
    """A request is in progress when all of it has arrived. Until then its connection can be evicted."""
    half = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx"

    async def work(server: Server) -> None:
        many = [await server.connected() for _ in range(FEW)]
        try:
            for each in many:
                await to_thread.run_sync(each.sendall, half)
            for _ in range(FEW):
                with await server.connected() as new:
                    await to_thread.run_sync(new.sendall, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                    assert b"204" in await to_thread.run_sync(new.recv, 2**16)
        finally:
            for each in many:
                each.close()

    serving(tmp_path, authority, work, PATIENT)


@pytest.mark.slow
@pytest.mark.attack(
    "GMSA webhook",
    "connection flood, before and after the handshake",
    "never more than the limit; idle connections make room, requests in progress are answered",
)
def test_many_who_say_nothing_are_never_more_than_there_may_be_b19(
    tmp_path: Path, authority: Authority
) -> None:
    """Before they have shaken hands, too: each would cost a quarter of a megabyte."""

    async def work(server: Server) -> int:
        many = [await server.raw() for _ in range(20 * FEW)]
        assert await server.is_answered()
        try:
            return sum([not await to_thread.run_sync(is_over, each) for each in many[-2 * FEW :]])
        finally:
            for each in many:
                each.close()

    assert serving(tmp_path, authority, work, PATIENT) <= FEW


@pytest.mark.slow
@pytest.mark.attack(
    "GMSA webhook",
    "clients that keep their connection open while the webhook stops",
    "it stops after a time limit",
)
@pytest.mark.parametrize(
    "said", [b"", b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /health HTTP/1.1\r\n"]
)
def test_the_end_does_not_wait_for_who_does_not_hang_up_b80(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    """A peer that was told that it is over, and keeps its end of the connection open."""
    caplog.set_level(logging.INFO)

    async def work(server: Server) -> None:
        held = await server.connected()
        await to_thread.run_sync(held.sendall, said)
        assert await server.is_answered()
        signal.raise_signal(signal.SIGTERM)
        await server.ended.wait()
        held.close()

    serving(tmp_path, authority, work, Limits(head_seconds=1000.0, close_seconds=0.2))
    assert "has answered everybody, and ends" in caplog.text
    assert "Cancel" not in caplog.text


def test_a_request_that_has_arrived_is_answered_when_the_server_closes_b80(
    tmp_path: Path, authority: Authority
) -> None:
    """The connection is idle as far as the server knows: the request is still in the socket's buffer."""
    request = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.server("127.0.0.1").write(*files)
    trust = ssl.create_default_context(cadata=authority.pem.decode())

    async def main() -> bytes:
        server = HTTPServer(APPLICATION, ServedPair(*files).context, Limits())
        async with listening(0, "127.0.0.1") as listener, anyio.create_task_group() as tasks:
            client = Server(port_of(listener), trust)
            tasks.start_soon(server.accept, listener.listeners[0], tasks)
            with await client.connected() as connection:
                await to_thread.run_sync(connection.sendall, request)
                assert b"204" in await to_thread.run_sync(connection.recv, 2**16)
                connection.sendall(request)  # in the server's own thread, so that it cannot read it before
                server.close()
                found = await to_thread.run_sync(rest_of, connection)
            tasks.cancel_scope.cancel()
        return found

    answer = anyio.run(main)
    assert answer.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"connection: close" in answer


def test_the_end_does_not_wait_longer_than_the_grace_period_b80(tmp_path: Path, authority: Authority) -> None:
    async def work(server: Server) -> bytes:
        with await server.connected() as busy:
            await to_thread.run_sync(busy.sendall, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            while ASKED.statistics().tasks_waiting < 1:  # noqa: ASYNC110 -- there is no event for that
                await anyio.sleep(0.01)
            signal.raise_signal(signal.SIGTERM)
            await server.ended.wait()
            return await to_thread.run_sync(rest_of, busy)

    global ASKED
    ASKED = anyio.Event()
    assert serving(tmp_path, authority, work, PATIENT, grace=0.1) == b""


def test_an_upgrade_is_no_reason_to_install_anything(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(server: Server) -> int:
        headers = {"connection": "upgrade", "upgrade": "websocket"}
        async with httpx.AsyncClient(verify=server.trust, timeout=50) as client:
            return (await client.get(f"{server.url}/health", headers=headers)).status_code

    assert serving(tmp_path, authority, work, PATIENT) == 204
    assert "pip install" not in caplog.text


def test_limits_by_default() -> None:
    limits = Limits()
    # Kubernetes gives a pod 30 seconds, of which preStop takes 5.
    assert GRACE + limits.close_seconds + 5 < 30
    assert (limits.max_connections, limits.head_seconds, limits.write_seconds) == (300, 5.0, 10.0)
    assert limits.idle_seconds > 90  # client-go's: the client closes first
