# Generated from transports/_httpx.py by scripts/generate.py: edit that and run `make generate`.
"""DirectTransport and AsyncDirectTransport for httpx2."""

from __future__ import annotations

import ssl

try:
    import httpx2
except ImportError as error:
    raise ImportError(
        "kubeauth.transports.httpx2 needs httpx2. Install it: pip install 'kubeauth[httpx2]'"
    ) from error

from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._transport.httpx2 import LIMITS
from kubeauth.transports import _async_backend, _sync_backend
from kubeauth.transports._async import AsyncBody, AsyncDirect
from kubeauth.transports._connection import reject_connection_limit
from kubeauth.transports._http11 import ResponseParser
from kubeauth.transports._sync import Body, SyncDirect

__all__ = ["AsyncDirectTransport", "DirectTransport"]


class _Body(Body, httpx2.SyncByteStream):
    pass


class _AsyncBody(AsyncBody, httpx2.AsyncByteStream):
    pass


class DirectTransport(SyncDirect[httpx2.Request, httpx2.Response], httpx2.BaseTransport):
    """An HTTP/1.1 transport on plain sockets, for programs that send many requests per second.

        kubeauth.httpx2.Client(transport_factory=kubeauth.transports.httpx2.DirectTransport)

    It opens one connection per concurrent request, without a maximum; `limits` sets how many idle connections
    it retains and for how long. Requests through a proxy use httpx2's own transport. Thread-safe.
    """

    _byte_stream = httpx2.ByteStream

    def __init__(
        self,
        context: ssl.SSLContext,
        proxy: httpx2.Proxy | None = None,
        *,
        limits: httpx2.Limits = LIMITS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        reject_connection_limit(limits.max_connections)
        super().__init__(
            httpx2,
            context,
            max_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # httpx2 supports every kind of proxy, and a proxy costs more time than this transport saves.
        self._proxy_transport = (
            None if proxy is None else httpx2.HTTPTransport(context, limits=limits, proxy=proxy)
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._proxy_transport is not None:
            return self._proxy_transport.handle_request(request)
        return self._send(request)

    def close(self) -> None:
        self._pool.close()
        if self._proxy_transport is not None:
            self._proxy_transport.close()

    def _build_response(
        self, parser: ResponseParser, connection: _sync_backend.Connection, timeout: float | None
    ) -> httpx2.Response:
        return httpx2.Response(
            parser.status,
            headers=parser.headers,
            stream=_Body(self._pool, connection, parser, timeout),
            extensions=parser.build_extensions(connection),
        )


class AsyncDirectTransport(AsyncDirect[httpx2.Request, httpx2.Response], httpx2.AsyncBaseTransport):
    """DirectTransport for asyncio and trio.

        kubeauth.httpx2.AsyncClient(transport_factory=kubeauth.transports.httpx2.AsyncDirectTransport)

    It is not bound to an event loop: after the loop has ended, another loop may use the same transport.
    """

    _byte_stream = httpx2.ByteStream

    def __init__(
        self,
        context: ssl.SSLContext,
        proxy: httpx2.Proxy | None = None,
        *,
        limits: httpx2.Limits = LIMITS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        reject_connection_limit(limits.max_connections)
        super().__init__(
            httpx2,
            context,
            max_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # httpx2 supports every kind of proxy, and a proxy costs more time than this transport saves.
        self._proxy_transport = (
            None if proxy is None else httpx2.AsyncHTTPTransport(context, limits=limits, proxy=proxy)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._proxy_transport is not None:
            return await self._proxy_transport.handle_async_request(request)
        return await self._send(request)

    async def aclose(self) -> None:
        self._pool.close()
        if self._proxy_transport is not None:
            await self._proxy_transport.aclose()

    def _build_response(
        self, parser: ResponseParser, connection: _async_backend.Connection, timeout: float | None
    ) -> httpx2.Response:
        return httpx2.Response(
            parser.status,
            headers=parser.headers,
            stream=_AsyncBody(self._pool, connection, parser, timeout),
            extensions=parser.build_extensions(connection),
        )
