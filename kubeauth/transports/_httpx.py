"""DirectTransport and AsyncDirectTransport for httpx."""

from __future__ import annotations

import ssl

import httpx

from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._transport.httpx import LIMITS
from kubeauth.transports import _async_backend, _sync_backend
from kubeauth.transports._async import AsyncBody, AsyncDirect
from kubeauth.transports._connection import refuse_a_limit
from kubeauth.transports._http11 import Answer
from kubeauth.transports._sync import Body, SyncDirect

__all__ = ["AsyncDirectTransport", "DirectTransport"]


class _Body(Body, httpx.SyncByteStream):
    pass


class _AsyncBody(AsyncBody, httpx.AsyncByteStream):
    pass


class DirectTransport(SyncDirect[httpx.Request, httpx.Response], httpx.BaseTransport):
    """HTTP/1.1 straight on sockets, for many requests a second.

        kubeauth.Client(transport_factory=kubeauth.transports.DirectTransport)

    Opens as many connections as there are requests at a time, and keeps idle ones as `limits` says. Behind a
    proxy it is httpx's own transport. May be shared between threads.
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
        refuse_a_limit(limits.max_connections)
        super().__init__(
            httpx,
            context,
            most_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # Every kind of proxy is known there, and the way through one takes longer than what is saved here.
        self._through = None if proxy is None else httpx.HTTPTransport(context, limits=limits, proxy=proxy)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._send(request) if self._through is None else self._through.handle_request(request)

    def close(self) -> None:
        self._pool.close()
        if self._through is not None:
            self._through.close()

    def _answered(
        self, answer: Answer, connection: _sync_backend.Connection, timeout: float | None
    ) -> httpx.Response:
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(self._pool, connection, answer, timeout),
            extensions=answer.extensions(connection),
        )


class AsyncDirectTransport(AsyncDirect[httpx.Request, httpx.Response], httpx.AsyncBaseTransport):
    """As DirectTransport, for asyncio and trio.

        kubeauth.AsyncClient(transport_factory=kubeauth.transports.AsyncDirectTransport)

    Belongs to no event loop: one that was used in a loop that has ended may be used in another.
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
        refuse_a_limit(limits.max_connections)
        super().__init__(
            httpx,
            context,
            most_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # Every kind of proxy is known there, and the way through one takes longer than what is saved here.
        self._through = (
            None if proxy is None else httpx.AsyncHTTPTransport(context, limits=limits, proxy=proxy)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return (
            await self._send(request)
            if self._through is None
            else await self._through.handle_async_request(request)
        )

    async def aclose(self) -> None:
        self._pool.close()
        if self._through is not None:
            await self._through.aclose()

    def _answered(
        self, answer: Answer, connection: _async_backend.Connection, timeout: float | None
    ) -> httpx.Response:
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_AsyncBody(self._pool, connection, answer, timeout),
            extensions=answer.extensions(connection),
        )
