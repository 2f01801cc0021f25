"""Non-blocking sockets for asyncio and trio. `_sync_backend` has the same for blocking sockets.

A connection belongs to no event loop: it uses the running one when it has to wait, which most requests do
once. The streams of asyncio and anyio run TLS in Python between two memory buffers, which costs more time.
TLS may have to write before it can read, and to read before it can write.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from kubeauth.transports._connection import BaseConnection, Library
from kubeauth.transports._pool import Origin

# An item of the list that getaddrinfo() returns: family, type, protocol, canonical name, socket address.
Address = tuple[Any, Any, int, str, Any]

# The Connection Attempt Delay of RFC 8305, in seconds.
_ATTEMPT_DELAY = 0.25
# How many reads may return at once, without waiting, before other tasks get a turn.
_MAX_READS_WITHOUT_YIELD = 4


class Connection(BaseConnection):
    """A connection for tasks. It is also the `network_stream` of a response.

    Therefore its methods have the signatures of httpcore's AsyncNetworkStream.
    """

    _reads_without_yield = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 -- httpcore's signature
        """Return the data that arrives next; empty if the server has closed the connection."""
        if self._pushed_back:
            return self._pop_pushed_back(max_bytes)
        self._is_reading = True
        try:
            if timeout is None:
                return await self._recv(max_bytes)
            with anyio.fail_after(timeout):
                return await self._recv(max_bytes)
        except TimeoutError as error:
            raise self._library.ReadTimeout(str(error)) from error
        except (OSError, ValueError) as error:  # ValueError: the socket was closed or its TLS shut down
            raise self._library.ReadError(str(error)) from error
        finally:
            self._is_reading = False
            self._close_if_aborted()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- httpcore's signature
        """Send all of `buffer`."""
        self._is_writing = True
        try:
            if timeout is None:
                await self._send_all(buffer)
            else:
                with anyio.fail_after(timeout):
                    await self._send_all(buffer)
        except TimeoutError as error:
            raise self._library.WriteTimeout(str(error)) from error
        except (OSError, ValueError) as error:
            self.has_write_failed = True
            raise self._library.WriteError(str(error)) from error
        finally:
            self._is_writing = False
            self._close_if_aborted()

    async def aclose(self) -> None:
        self.abort()

    async def _recv(self, max_bytes: int) -> bytes:
        if self._reads_without_yield == _MAX_READS_WITHOUT_YIELD:
            self._reads_without_yield = 0
            await checkpoint()
        while True:
            self._check_open()
            try:
                data = self._socket.recv(max_bytes)
            except ssl.SSLWantWriteError:
                wait = anyio.wait_writable
            except (ssl.SSLWantReadError, BlockingIOError):
                wait = anyio.wait_readable
            else:
                self._reads_without_yield += 1
                return data
            self._reads_without_yield = 0
            await wait(self._socket)

    async def _send_all(self, buffer: bytes) -> None:
        # The loop below may never wait, and then a cancelled request would still be sent.
        await checkpoint_if_cancelled()
        remaining = memoryview(buffer)
        while remaining:
            self._check_open()
            try:
                remaining = remaining[self._socket.send(remaining) :]
                continue
            except ssl.SSLWantReadError:
                wait = anyio.wait_readable
            except (ssl.SSLWantWriteError, BlockingIOError):
                wait = anyio.wait_writable
            await wait(self._socket)


async def connect(
    origin: Origin, context: ssl.SSLContext | None, connect_timeout: float | None, library: Library
) -> Connection:
    """Open a connection to `origin`, with TLS if `context` is not None."""
    _, host, port, server_name = origin
    try:
        with anyio.fail_after(connect_timeout):
            sock = await connect_to_fastest(await _resolve_host(host, port))
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if context is not None:
                    sock = context.wrap_socket(
                        sock, do_handshake_on_connect=False, server_hostname=server_name
                    )
                    await _handshake(sock)
            except BaseException:
                sock.close()
                raise
    except TimeoutError as error:
        raise library.ConnectTimeout(str(error)) from error
    except (OSError, ValueError) as error:  # ValueError: an invalid host name
        raise library.ConnectError(str(error)) from error
    return Connection(sock, origin, library)


async def connect_to_address(address: Address) -> socket.socket:
    """Return a non-blocking socket that is connected to `address`."""
    family, kind, protocol, _, sockaddr = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        try:
            sock.connect(sockaddr)
        except BlockingIOError:
            await anyio.wait_writable(sock)
            if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(number, os.strerror(number)) from None
    except BaseException:
        sock.close()
        raise
    return sock


async def connect_to_fastest(
    addresses: Sequence[Address],
    connect_one: Callable[[Address], Awaitable[socket.socket]] = connect_to_address,
    attempt_delay: float = _ATTEMPT_DELAY,
) -> socket.socket:
    """Return a socket connected to the first address that responds (RFC 8305, Happy Eyeballs).

    The next attempt starts when the previous one fails or `attempt_delay` has passed. Raise the error of the
    first attempt if all of them fail.
    """
    connected: list[socket.socket] = []
    errors: list[OSError] = []

    async def attempt(address: Address, failed: anyio.Event) -> None:
        try:
            connected.append(await connect_one(address))
        except OSError as error:
            errors.append(error)
            failed.set()
        else:
            group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for address in addresses:
                failed = anyio.Event()
                group.start_soon(attempt, address, failed)
                with anyio.move_on_after(attempt_delay):
                    await failed.wait()
    except BaseException:
        for sock in connected:
            sock.close()
        raise
    for sock in connected[1:]:
        sock.close()
    if not connected:
        raise errors[0]
    return connected[0]


async def _resolve_host(host: str, port: int) -> Sequence[Address]:
    try:
        # An IP address needs no lookup, and so no thread.
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _handshake(sock: ssl.SSLSocket) -> None:
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantWriteError:
            wait = anyio.wait_writable
        except ssl.SSLWantReadError:
            wait = anyio.wait_readable
        await wait(sock)
