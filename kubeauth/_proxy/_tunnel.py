"""Two connections as one, when HTTP is over: exec, attach, port-forward, websockets. They are only bytes."""

from __future__ import annotations

import logging
import socket
import ssl
from contextlib import suppress
from typing import Protocol

import anyio

from kubeauth._proxy._caller import Caller

logger = logging.getLogger("kubeauth.proxy")

_SIZE = 65536


class Network(Protocol):
    """`network_stream` of a response: of ours and of httpcore."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...  # noqa: ASYNC109 -- theirs
    async def write(self, buffer: bytes, timeout: float | None = None) -> None: ...  # noqa: ASYNC109 -- theirs
    def get_extra_info(self, info: str) -> object: ...


async def join(caller: Caller, server: Network, *, early: bytes = b"", keepalive: float = 0.0) -> None:
    """Until both have said all they had to say, or one of them is gone. `early`: what was said already.

    Who ends a TLS connection ends both directions of it: then that is the end of all.
    """
    if keepalive > 0:
        _keep_alive(server, keepalive)

    async def there() -> None:
        with _end_of(tasks.cancel_scope):
            data = early or await caller.more()
            while data:
                await server.write(data)
                data = await caller.more()
            if not _says_no_more(server):
                tasks.cancel_scope.cancel()

    async def back() -> None:
        with _end_of(tasks.cancel_scope):
            while data := await server.read(_SIZE):
                await caller.write(data)
            await caller.stream.send_eof()
            if _tls(server):
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(there)
        tasks.start_soon(back)


class _end_of:
    """Whatever goes wrong on one of the two connections, both are over."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        logger.debug("an upgraded connection broke: %s", kind.__name__)
        self._scope.cancel()
        return True


def _tls(server: Network) -> bool:
    return server.get_extra_info("ssl_object") is not None


def _says_no_more(server: Network) -> bool:
    """Tells the server that nothing more will come, and that it may go on. Whether that could be said."""
    connection = server.get_extra_info("socket")
    if _tls(server) or not isinstance(connection, socket.socket) or isinstance(connection, ssl.SSLSocket):
        return False
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    return True


def _keep_alive(server: Network, seconds: float) -> None:
    """Has the system ask whether the server is there, as often as that."""
    # By what it can do: behind a proxy of the cluster it is asyncio's or trio's own kind.
    set_option = getattr(server.get_extra_info("socket"), "setsockopt", None)
    if set_option is None:
        return
    with suppress(OSError):
        set_option(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
            if hasattr(socket, name):  # macOS has another name for the first
                set_option(socket.IPPROTO_TCP, getattr(socket, name), max(1, round(seconds)))
