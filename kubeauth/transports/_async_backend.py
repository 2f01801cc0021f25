"""Sockets that wait in an event loop, of asyncio or trio. `_threads` has the same for callers that may block.

They belong to no loop: it is asked when there is something to wait for, which is once in most requests. The
streams of asyncio and anyio have TLS put together in Python, between two buffers, which costs more than that.
TLS may have to write before it can read, and the other way round.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from kubeauth.transports._connection import Channel, Library
from kubeauth.transports._pool import Origin

# As getaddrinfo has it: family, kind, protocol, name, address.
Address = tuple[Any, Any, int, str, Any]

# As in RFC 8305: how long an address has to itself before the next is tried beside it.
_HEAD_START = 0.25
# How often it may find something to read, and read it, before others have their turn.
_IN_A_ROW = 4


class Connection(Channel):
    """To be read from and written to by tasks. Also what `network_stream` of a response is.

    So its methods have the signatures of httpcore's.
    """

    _in_a_row = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 -- httpcore's signature
        """What comes next; nothing if the other side has closed."""
        if self._unread:
            return self._taken(max_bytes)
        self._reading = True
        try:
            if timeout is None:
                return await self._received(max_bytes)
            with anyio.fail_after(timeout):
                return await self._received(max_bytes)
        except TimeoutError as error:
            raise self._library.ReadTimeout(str(error)) from error
        except (OSError, ValueError) as error:  # the latter of a TLS connection that is no longer one
            raise self._library.ReadError(str(error)) from error
        finally:
            self._reading = False
            self._close_if_ended()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- httpcore's signature
        """All of it."""
        self._writing = True
        try:
            if timeout is None:
                await self._sent(buffer)
            else:
                with anyio.fail_after(timeout):
                    await self._sent(buffer)
        except TimeoutError as error:
            raise self._library.WriteTimeout(str(error)) from error
        except (OSError, ValueError) as error:
            self.has_hung_up = True
            raise self._library.WriteError(str(error)) from error
        finally:
            self._writing = False
            self._close_if_ended()

    async def aclose(self) -> None:
        self.end()

    async def _received(self, most: int) -> bytes:
        if self._in_a_row == _IN_A_ROW:
            self._in_a_row = 0
            await checkpoint()
        while True:
            self._check_open()
            try:
                data = self._socket.recv(most)
            except ssl.SSLWantWriteError:
                wait = anyio.wait_writable
            except (ssl.SSLWantReadError, BlockingIOError):
                wait = anyio.wait_readable
            else:
                self._in_a_row += 1
                return data
            self._in_a_row = 0
            await wait(self._socket)

    async def _sent(self, buffer: bytes) -> None:
        # There may be nothing to wait for below, and what is cancelled must not be done.
        await checkpoint_if_cancelled()
        left = memoryview(buffer)
        while left:
            self._check_open()
            try:
                left = left[self._socket.send(left) :]
                continue
            except ssl.SSLWantReadError:
                wait = anyio.wait_readable
            except (ssl.SSLWantWriteError, BlockingIOError):
                wait = anyio.wait_writable
            await wait(self._socket)


async def connect(
    origin: Origin, context: ssl.SSLContext | None, within: float | None, library: Library
) -> Connection:
    """A new connection, with TLS if there is a context for it."""
    _, host, port, server_name = origin
    try:
        with anyio.fail_after(within):
            connected = await connect_to_first(await _addresses(host, port))
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if context is not None:
                    connected = context.wrap_socket(
                        connected, do_handshake_on_connect=False, server_hostname=server_name
                    )
                    await _shake_hands(connected)
            except BaseException:
                connected.close()
                raise
    except TimeoutError as error:
        raise library.ConnectTimeout(str(error)) from error
    except (OSError, ValueError) as error:  # the latter for a name that cannot be one
        raise library.ConnectError(str(error)) from error
    return Connection(connected, origin, library)


async def connect_to(address: Address) -> socket.socket:
    """A connection to this address."""
    family, kind, protocol, _, where = address
    connecting = socket.socket(family, kind, protocol)
    try:
        connecting.setblocking(False)
        try:
            connecting.connect(where)
        except BlockingIOError:
            await anyio.wait_writable(connecting)
            if number := connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(number, os.strerror(number)) from None
    except BaseException:
        connecting.close()
        raise
    return connecting


async def connect_to_first(
    addresses: Sequence[Address],
    one: Callable[[Address], Awaitable[socket.socket]] = connect_to,
    head_start: float = _HEAD_START,
) -> socket.socket:
    """To the address that answers first; one that does not answer must not keep us from the others."""
    made: list[socket.socket] = []
    failures: list[OSError] = []

    async def attempt(address: Address, failed: anyio.Event) -> None:
        try:
            made.append(await one(address))
        except OSError as error:
            failures.append(error)
            failed.set()
        else:
            group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for address in addresses:
                failed = anyio.Event()
                group.start_soon(attempt, address, failed)
                with anyio.move_on_after(head_start):
                    await failed.wait()
    except BaseException:
        for each in made:
            each.close()
        raise
    for spare in made[1:]:
        spare.close()
    if not made:
        raise failures[0]
    return made[0]


async def _addresses(host: str, port: int) -> Sequence[Address]:
    try:
        # Whoever has a number need not look it up.
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _shake_hands(connected: ssl.SSLSocket) -> None:
    while True:
        try:
            return connected.do_handshake()
        except ssl.SSLWantWriteError:
            wait = anyio.wait_writable
        except ssl.SSLWantReadError:
            wait = anyio.wait_readable
        await wait(connected)
