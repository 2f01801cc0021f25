"""exec, attach, port-forward, websockets: both connections become one, whatever is spoken on them."""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubeauth import ClientConfig, load_config
from kubeauth._proxy import _exchange
from kubeauth._proxy._caller import Caller, Limits, Part
from kubeauth._proxy._tunnel import Network, join
from kubeauth.testing import Answer, APIServer, Authority, PluginScript
from tests.proxy.conftest import Proxied
from tests.proxy.serving import PATIENCE, Proxy, Wire, code_of
from tests.support.proxy_servers import Proxy as ForwardProxy
from tests.support.raw_server import RawServer, ServerConnection
from tests.support.residue import wait_until

SPDY = {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
WEBSOCKET = {
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
}
PATH = "/api/v1/namespaces/default/pods/web/portforward"


def asking(headers: dict[str, str], method: str = "GET", path: str = PATH) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


def agreed(request: bytes) -> bytes:
    """101, with what was asked for."""
    said = [b"HTTP/1.1 101 Switching Protocols", b"Connection: Upgrade"]
    for line in request.split(b"\r\n"):
        if line.lower().startswith((b"upgrade:", b"x-stream", b"sec-websocket-protocol")):
            said.append(line)
    return b"\r\n".join([*said, b"", b""])


def echo(connection: ServerConnection) -> None:
    """Agrees, greets in the same breath, and says again what it hears."""
    connection.send(agreed(connection.read_request()) + b"hello ")
    while data := connection.stream.recv(65536):
        connection.stream.sendall(data)


def config_of(server: RawServer, authority: Authority) -> ClientConfig:
    tls = server.url.startswith("https")
    return ClientConfig(server=server.url, ca_data=authority.pem if tls else None)


def switched(proxy: Proxy, said: bytes) -> Wire:
    wire = proxy.connect()
    wire.say(said)
    return wire


@pytest.mark.parametrize("headers", [SPDY, WEBSOCKET], ids=["spdy", "websocket"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("tls", [True, False])
def test_bytes_go_both_ways(
    proxied: Proxied, authority: Authority, headers: dict[str, str], method: str, tls: bool
) -> None:
    with RawServer(echo, pair=authority.server("127.0.0.1") if tls else None) as server:
        proxy = proxied(config_of(server, authority), keepalive=30.0)
        with switched(proxy, asking(headers, method) + b"and ") as wire:
            head = wire.until(b"hello and ")
            assert head.startswith(b"HTTP/1.1 101 ")
            for name, value in headers.items():
                sent_back = name in ("Upgrade", "X-Stream-Protocol-Version", "Sec-WebSocket-Protocol")
                assert (f"{name}: {value}".lower().encode() in head.lower()) == sent_back
            assert proxy.counts.upgrades == 1
            blob = bytes(range(256)) * 4096  # more than fits in between
            received = bytearray()

            def read() -> None:
                while len(received) < len(blob):
                    received.extend(wire.socket.recv(65536))

            reader = threading.Thread(target=read)
            reader.start()
            wire.say(blob)
            reader.join(PATIENCE)
            assert received == blob
        # Who leaves ends both.
        assert server.closed.acquire(timeout=PATIENCE)
    (request,) = server.requests
    for name, value in headers.items():
        assert f"{name}: {value}".lower() in request.decode().lower()
    wait_until(lambda: proxy.counts.requests[method, "1xx"] == 1)  # the last that is counted
    assert proxy.counts.upgrades == proxy.counts.in_flight == 0


@pytest.mark.parametrize("tls", [True, False])
def test_the_server_may_end_it(proxied: Proxied, authority: Authority, tls: bool) -> None:
    def brief(connection: ServerConnection) -> None:
        connection.send(agreed(connection.read_request()) + b"that was all")

    with RawServer(brief, pair=authority.server("127.0.0.1") if tls else None) as server:
        proxy = proxied(config_of(server, authority))
        with switched(proxy, asking(SPDY)) as wire:
            assert wire.rest().endswith(b"that was all")
    wait_until(lambda: proxy.counts.upgrades == 0)


def test_who_has_said_everything_may_still_listen(proxied: Proxied, authority: Authority) -> None:
    """Without TLS, which has no half of a connection."""

    def patient(connection: ServerConnection) -> None:
        connection.send(agreed(connection.read_request()))
        heard = b""
        while data := connection.stream.recv(65536):
            heard += data
        connection.send(b"you said " + heard)

    with RawServer(patient) as server:
        with switched(proxied(config_of(server, authority)), asking(SPDY)) as wire:
            wire.until(b"\r\n\r\n")
            wire.say(b"all of it")
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.rest() == b"you said all of it"


def test_who_has_nothing_to_say_may_say_so_at_once(
    proxied: Proxied, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as it is told that both are one, which the proxy may not know yet itself."""
    send = Caller.send

    async def until_there_is_no_more(caller: Caller, *parts: Part) -> None:
        await send(caller, *parts)
        while not caller._over:  # noqa: ASYNC110 -- there is no event for it
            await anyio.sleep(0.01)

    def greeting(connection: ServerConnection) -> None:
        connection.send(agreed(connection.read_request()))
        connection.wait_closed()
        connection.send(b"all the same")

    monkeypatch.setattr(Caller, "send", until_there_is_no_more)
    with RawServer(greeting) as server:
        with switched(proxied(config_of(server, authority)), asking(SPDY)) as wire:
            wire.until(b"\r\n\r\n")
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.rest() == b"all the same"


def test_who_hangs_up_with_a_reset_does_not_listen(proxied: Proxied, authority: Authority) -> None:
    """Without TLS too, and while the server has nothing to say."""

    def quiet(connection: ServerConnection) -> None:
        connection.send(agreed(connection.read_request()))
        connection.wait_closed()
        over.wait(PATIENCE)  # it does not close by itself

    over = threading.Event()
    with RawServer(quiet) as server:
        proxy = proxied(config_of(server, authority))
        with switched(proxy, asking(SPDY)) as wire:
            wire.until(b"\r\n\r\n")
            wait_until(lambda: proxy.counts.upgrades == 1)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            wait_until(lambda: proxy.counts.upgrades == proxy.counts.in_flight == 0)
        finally:
            over.set()
    wait_until(lambda: proxy.counts.requests["GET", "1xx"] == 1)


@pytest.mark.parametrize("protocol", ["h2c/1", '"h2c"', "h2c;x", "tcp", "websocket, h2c"])
def test_other_protocols_are_not_requested_from_the_server(
    proxied: Proxied, server: APIServer, protocol: str
) -> None:
    """The request is forwarded without the upgrade, and its response is one like any other."""
    upgrade = asking({"Upgrade": protocol, "HTTP2-Settings": "AAMAAABkAAQAAP__"}, path="/version")
    with switched(proxied(server.config(token="alices-token")), upgrade) as wire:
        assert code_of(wire.until(b"linux/amd64")) == 200
    (request,) = server.requests
    assert request.header("Upgrade") is None
    assert "upgrade" not in (request.header("Connection") or "").lower()


def test_a_server_that_does_not_want_to(proxied: Proxied, server: APIServer) -> None:
    """Then it is an answer as any other, and there may be another request."""
    server.on("GET", PATH, Answer(403, {"kind": "Status", "message": "no"}))
    with switched(proxied(server.config(token="alices-token")), asking(SPDY)) as wire:
        assert code_of(wire.until(b'"no"}')) == 403
        wire.say(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert code_of(wire.until(b"linux/amd64")) == 200


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_upgrade_is_asked_for_again_when_the_credential_is_refused(
    proxied: Proxied, authority: Authority, tmp_path: Path, method: str
) -> None:
    def picky(connection: ServerConnection) -> None:
        while b"Bearer new" not in (request := connection.read_request()):
            connection.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        connection.send(agreed(request))
        while data := connection.stream.recv(65536):
            connection.stream.sendall(data)

    plugin = PluginScript(tmp_path)
    plugin.answer(token="old")
    with (
        APIServer(authority=authority) as known,
        RawServer(picky, pair=authority.server("127.0.0.1")) as server,
    ):
        document = known.kubeconfig({"exec": plugin.exec_config()}, {"server": server.url})
        proxy = proxied(load_config(document))
        assert code_of(proxy.say(asking({}, path="/version").replace(b"Upgrade", b"close"))) == 401
        plugin.answer(token="new")
        wait_until(lambda: can_switch(proxy, method))


def can_switch(proxy: Proxy, method: str) -> bool:
    """Another credential is not asked for at once again, after one that was refused."""
    with switched(proxy, asking({**SPDY, "Content-Length": "0"}, method)) as wire:
        if code_of(wire.until(b"\r\n\r\n")) != 101:
            return False
        wire.say(b"it is me")
        return wire.until(b"it is me") == b"it is me"


def test_a_connection_that_breaks_is_the_end_of_both(
    proxied: Proxied, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with RawServer(echo, pair=authority.server("127.0.0.1")) as server:
        proxy = proxied(config_of(server, authority))
        with switched(proxy, asking(SPDY)) as wire:
            wire.until(b"hello ")
            # Not as TLS ends: in the middle of it.
            socket.socket.shutdown(server.connections[0].stream, socket.SHUT_RDWR)
            wire.rest()
    wait_until(lambda: proxy.counts.upgrades == 0)
    assert "fault" not in caplog.text


def test_through_a_proxy_of_the_cluster(proxied: Proxied, authority: Authority) -> None:
    with RawServer(echo, pair=authority.server("127.0.0.1")) as server, ForwardProxy("http") as between:
        config = ClientConfig(server=server.url, ca_data=authority.pem, proxy_url=between.url)
        with switched(proxied(config, keepalive=1.0), asking(SPDY)) as wire:
            wire.until(b"hello ")
            wire.say(b"through")
            wire.until(b"through")
        assert server.closed.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("between", [False, True], ids=["straight", "through a proxy"])
@pytest.mark.parametrize("tls", [True, False])
def test_the_system_asks_whether_the_server_is_there(
    proxied: Proxied, authority: Authority, monkeypatch: pytest.MonkeyPatch, tls: bool, between: bool
) -> None:
    joined: list[Network] = []

    async def noted(caller: Caller, server: Network, *, early: bytes, keepalive: float) -> None:
        joined.append(server)
        await join(caller, server, early=early, keepalive=keepalive)

    monkeypatch.setattr(_exchange, "join", noted)
    pair = authority.server("127.0.0.1") if tls else None
    with RawServer(echo, pair=pair) as server, ForwardProxy("http") as forward:
        config = replace(config_of(server, authority), proxy_url=forward.url if between else None)
        with switched(proxied(config, keepalive=7.0), asking(SPDY)) as wire:
            wire.until(b"hello ")
            connection: Any = joined[0].get_extra_info("socket")
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
            if hasattr(socket, "TCP_KEEPINTVL"):
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 7


class Odd:
    """A network stream that says nothing of itself, and breaks."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 -- as others
        raise OSError("broken")

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- as others
        raise OSError("broken")

    def get_extra_info(self, info: str) -> object:
        return None


def test_whatever_breaks_is_the_end(backend: str, tmp_path: Path) -> None:
    path = str(tmp_path / "sock")

    async def main() -> None:
        listener = await anyio.create_unix_listener(path)
        async with listener, await anyio.connect_unix(path), await listener.accept() as stream:
            with anyio.fail_after(PATIENCE):
                await join(Caller(stream, Limits()), Odd(), early=b"hi", keepalive=1.0)

    anyio.run(main, backend=backend)


def test_an_upgrade_ends_with_the_proxy(proxied: Proxied, authority: Authority) -> None:
    with RawServer(echo, pair=authority.server("127.0.0.1")) as server:
        proxy = proxied(config_of(server, authority))
        with switched(proxy, asking(SPDY)) as wire:
            wire.until(b"hello ")
            proxy.stop()
            assert proxy.future.result(PATIENCE) is None
            wire.rest()
        assert server.closed.acquire(timeout=PATIENCE)
