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
from kubeauth.transports._connection import refuse_a_limit
from kubeauth.transports._http11 import Answer
from kubeauth.transports._sync import Body, SyncDirect

__all__ = ["AsyncDirectTransport", "DirectTransport"]


class _Body(Body, httpx2.SyncByteStream):
    pass


class _AsyncBody(AsyncBody, httpx2.AsyncByteStream):
    pass


class DirectTransport(SyncDirect[httpx2.Request, httpx2.Response], httpx2.BaseTransport):
    """HTTP/1.1 straight on sockets, for many requests a second.

        kubeauth.httpx2.Client(transport_factory=kubeauth.transports.httpx2.DirectTransport)

    Opens as many connections as there are requests at a time, and keeps idle ones as `limits` says. Behind a
    proxy it is httpx2's own transport. May be shared between threads.
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
        refuse_a_limit(limits.max_connections)
        super().__init__(
            httpx2,
            context,
            most_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # Every kind of proxy is known there, and the way through one takes longer than what is saved here.
        self._through = None if proxy is None else httpx2.HTTPTransport(context, limits=limits, proxy=proxy)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._send(request) if self._through is None else self._through.handle_request(request)

    def close(self) -> None:
        self._pool.close()
        if self._through is not None:
            self._through.close()

    def _answered(
        self, answer: Answer, connection: _sync_backend.Connection, timeout: float | None
    ) -> httpx2.Response:
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(self._pool, connection, answer, timeout),
            extensions=answer.extensions(connection),
        )


class AsyncDirectTransport(AsyncDirect[httpx2.Request, httpx2.Response], httpx2.AsyncBaseTransport):
    """As DirectTransport, for asyncio and trio.

        kubeauth.httpx2.AsyncClient(transport_factory=kubeauth.transports.httpx2.AsyncDirectTransport)

    Belongs to no event loop: one that was used in a loop that has ended may be used in another.
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
        refuse_a_limit(limits.max_connections)
        super().__init__(
            httpx2,
            context,
            most_idle=limits.max_keepalive_connections,
            expiry=limits.keepalive_expiry,
            now=clock.monotonic,
        )
        # Every kind of proxy is known there, and the way through one takes longer than what is saved here.
        self._through = (
            None if proxy is None else httpx2.AsyncHTTPTransport(context, limits=limits, proxy=proxy)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
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
    ) -> httpx2.Response:
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_AsyncBody(self._pool, connection, answer, timeout),
            extensions=answer.extensions(connection),
        )
