"""HTTP/1.1 requests on plain sockets, without httpcore."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, ClassVar, Generic

from kubeauth._transport.types import Request, Response
from kubeauth.transports._async_backend import Connection, connect
from kubeauth.transports._connection import READ_SIZE, Library, get_origin
from kubeauth.transports._http11 import RequestEncoder, ResponseParser
from kubeauth.transports._pool import Pool


class AsyncBodyIterator(AsyncIterator[bytes]):
    """Iterates over the parts of a response body as they arrive."""

    def __init__(self, body: AsyncBody) -> None:
        self._body = body

    async def __anext__(self) -> bytes:
        body = self._body
        parser = body.parser
        try:
            while not parser.is_complete:
                data = parser.buffered or await body.connection.read(READ_SIZE, body.timeout)
                if part := parser.feed_body(data):
                    return part
        except BaseException:
            body.release()
            raise
        raise StopAsyncIteration

    def __del__(self) -> None:
        # A caller that breaks out of the loop and drops the response never closes it: release the connection
        # here, or it stays in use until the pool is closed.
        self._body.release()


class AsyncBody:
    """A response body. Closing it releases its connection, which is reused if all of the body was read."""

    def __init__(
        self, pool: Pool[Connection], connection: Connection, parser: ResponseParser, timeout: float | None
    ) -> None:
        self.connection = connection
        self.parser = parser
        self.timeout = timeout
        self._pool = pool
        self._unreleased = [connection]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return AsyncBodyIterator(self)

    async def aclose(self) -> None:
        self.release()

    @property
    def has_buffered_data(self) -> bool:
        """Whether the next part, or the end of the body, is available without waiting for the server."""
        return bool(self.parser.buffered) or self.parser.is_complete

    def release(self) -> None:
        """Return the connection to the pool, or discard it if it cannot be reused. Idempotent."""
        try:
            # Atomic: a connection that is released twice would serve two requests at once.
            connection = self._unreleased.pop()
        except IndexError:
            return
        if self.parser.is_complete and self.parser.can_reuse_connection:
            self._pool.release(connection)
        else:
            self._pool.discard(connection)


class AsyncDirect(ABC, Generic[Request, Response]):
    """Sends requests over pooled connections, one request at a time on each."""

    _byte_stream: ClassVar[type[Iterable[bytes]]]
    """The library's class for request bodies that are already in memory."""

    def __init__(
        self,
        library: Library,
        context: ssl.SSLContext,
        *,
        max_idle: int | None,
        expiry: float | None,
        now: Callable[[], float],
    ) -> None:
        context.set_alpn_protocols(["http/1.1"])
        self._library = library
        self._context = context
        self._pool: Pool[Connection] = Pool(max_idle, expiry, now)

    async def _send(self, request: Request) -> Response:
        target = request.extensions.get("target", request.url.raw_path)
        encoder = RequestEncoder(
            request.method, target, request.headers.raw, self._library.LocalProtocolError
        )
        parser = ResponseParser(
            request.method, self._library.RemoteProtocolError, allow_upgrade=encoder.requests_upgrade
        )
        timeouts = request.extensions.get("timeout", {})
        connection = await self._get_connection(request, timeouts.get("connect"))
        try:
            try:
                await self._write(connection, encoder, request.stream, timeouts.get("write"))
            except self._library.WriteError:
                if not connection.has_write_failed:
                    raise  # raised by the request body, which may be the response of another request
                # The server may have responded and closed the connection before it read all of the body.
                encoder.closes_connection = True
            while not parser.feed_head(await connection.read(READ_SIZE, timeouts.get("read"))):
                pass
        except BaseException:
            self._pool.discard(connection)
            raise
        if encoder.closes_connection:
            parser.can_reuse_connection = False
        if parser.is_upgraded:
            connection.push_back(parser.buffered)
        return self._build_response(parser, connection, timeouts.get("read"))

    async def _get_connection(self, request: Request, connect_timeout: float | None) -> Connection:
        origin = get_origin(request, self._library)
        while (idle := self._pool.acquire(origin)) is not None:
            if not idle.is_readable:
                return idle
            self._pool.discard(idle)  # the server has closed it
        context = self._context if origin[0] == "https" else None
        connection = await connect(origin, context, connect_timeout, self._library)
        self._pool.add(connection)
        return connection

    async def _write(
        self, connection: Connection, encoder: RequestEncoder, stream: Any, write_timeout: float | None
    ) -> None:
        if isinstance(stream, self._byte_stream):
            # One write, so that a small request is sent in one packet.
            body = encoder.encode_body(b"".join(stream))
            return await connection.write(encoder.head + body + encoder.encode_end(), write_timeout)
        await connection.write(encoder.head, write_timeout)
        async for part in stream:
            await connection.write(encoder.encode_body(part), write_timeout)
        await connection.write(encoder.encode_end(), write_timeout)

    @abstractmethod
    def _build_response(
        self, parser: ResponseParser, connection: Connection, timeout: float | None
    ) -> Response:
        """Return a response of the library's class, with an AsyncBody as its stream."""
