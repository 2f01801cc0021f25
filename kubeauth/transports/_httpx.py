"""DirectTransport and AsyncDirectTransport for httpx."""

from __future__ import annotations

import ssl

import httpx

from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._transport.httpx import LIMITS
from kubeauth.transports import _async_backend, _sync_backend
from kubeauth.transports._async import AsyncBody, AsyncDirect
from kubeauth.transports._connection import reject_connection_limit
from kubeauth.transports._http11 import ResponseParser
from kubeauth.transports._sync import Body, SyncDirect

__all__ = ["AsyncDirectTransport", "DirectTransport"]


class _Body(Body, httpx.SyncByteStream):
    pass


class _AsyncBody(AsyncBody, httpx.AsyncByteStream):
    pass


class DirectTransport(SyncDirect[httpx.Request, httpx.Response], httpx.BaseTransport):
    """An HTTP/1.1 transport on plain sockets, for programs that send many requests per second.

        kubeauth.Client(transport_factory=kubeauth.transports.DirectTransport)

    It opens one connection per concurrent request, without a maximum; `limits` sets how many idle connections
    it retains and for how long. Requests through a proxy use httpx's own transport. Thread-safe.
    """

    _byte_stream = httpx.ByteStream

    def __init__(
        self,
        context: ssl.SSLContext,
        proxy: httpx.Proxy | None = None,
        *,
        limits: httpx.Limits = LIMITS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        reject_connection_limit(limits.max_connections)
        super().__init__(
            httpx,
            context,
            max_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # httpx supports every kind of proxy, and a proxy costs more time than this transport saves.
        self._proxy_transport = (
            None if proxy is None else httpx.HTTPTransport(context, limits=limits, proxy=proxy)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._proxy_transport is not None:
            return self._proxy_transport.handle_request(request)
        return self._send(request)

    def close(self) -> None:
        self._pool.close()
        if self._proxy_transport is not None:
            self._proxy_transport.close()

    def _build_response(
        self, parser: ResponseParser, connection: _sync_backend.Connection, timeout: float | None
    ) -> httpx.Response:
        return httpx.Response(
            parser.status,
            headers=parser.headers,
            stream=_Body(self._pool, connection, parser, timeout),
            extensions=parser.build_extensions(connection),
        )


class AsyncDirectTransport(AsyncDirect[httpx.Request, httpx.Response], httpx.AsyncBaseTransport):
    """DirectTransport for asyncio and trio.

        kubeauth.AsyncClient(transport_factory=kubeauth.transports.AsyncDirectTransport)

    It is not bound to an event loop: after the loop has ended, another loop may use the same transport.
    """

    _byte_stream = httpx.ByteStream

    def __init__(
        self,
        context: ssl.SSLContext,
        proxy: httpx.Proxy | None = None,
        *,
        limits: httpx.Limits = LIMITS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        reject_connection_limit(limits.max_connections)
        super().__init__(
            httpx,
            context,
            max_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # httpx supports every kind of proxy, and a proxy costs more time than this transport saves.
        self._proxy_transport = (
            None if proxy is None else httpx.AsyncHTTPTransport(context, limits=limits, proxy=proxy)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._proxy_transport is not None:
            return await self._proxy_transport.handle_async_request(request)
        return await self._send(request)

    async def aclose(self) -> None:
        self._pool.close()
        if self._proxy_transport is not None:
            await self._proxy_transport.aclose()

    def _build_response(
        self, parser: ResponseParser, connection: _async_backend.Connection, timeout: float | None
    ) -> httpx.Response:
        return httpx.Response(
            parser.status,
            headers=parser.headers,
            stream=_AsyncBody(self._pool, connection, parser, timeout),
            extensions=parser.build_extensions(connection),
        )
