"""What an aiohttp.ClientSession is to a client: signs what is for the cluster, and rotates. asyncio only."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import Coroutine, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
import httpx
from aiohttp import RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from kubeauth import errors
from kubeauth._compat import hide_proxy, hide_request_info
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import find_proxy_problem
from kubeauth._credentials.credential import Credential
from kubeauth._runtime import Clock
from kubeauth._secret import Secret
from kubeauth._transport.async_ import AsyncLeasedStream, AsyncTransport
from kubeauth._transport.pools import Pool
from kubeauth._transport.types import RequestLike
from kubeauth.adapters._wire import Again, Request, is_short, signed

WebSocket = aiohttp.ClientWebSocketResponse

# What aiohttp writes headers in.
_WIRE = "utf-8"
# A watch sends each object as one line, and etcd takes objects of 1.5 MB.
_LINE = 2**21

# For errors, which show them when they are printed.
NO_HEADERS: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())

_REDIRECTS = (301, 302, 303, 307, 308)
_FOR_ONE_ORIGIN = ("authorization", "cookie", "proxy-authorization")


class ServerCertificateError(errors.ServerCertificateError, aiohttp.ClientConnectionError):
    """Both, so that a handler for either catches it."""


class ClientCertificateError(errors.ClientCertificateError, aiohttp.ClientConnectionError):
    """Both, so that a handler for either catches it."""


class _Body:
    """What is left of a response that the caller will not see."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def __aiter__(self) -> Any:
        return self._response.content.__aiter__()

    async def aclose(self) -> None:
        try:
            if is_short(self._response.headers.get("content-length")):
                # A body that breaks off costs the connection and nothing else: the caller will not see it.
                with suppress(aiohttp.ClientError, OSError, asyncio.TimeoutError):
                    await self._response.read()
        finally:
            self._response.close()


class _NoBody:
    """Of a handshake for a websocket."""

    def __aiter__(self) -> Any:
        raise RuntimeError("a websocket has no body")

    async def aclose(self) -> None:
        pass


@dataclass(slots=True)
class Response:
    """A response of aiohttp, a websocket, or why there is none."""

    url: httpx.URL
    status_code: int
    stream: Any
    raw: Any
    is_closed: bool = False
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    extensions: dict[str, Any] = field(default_factory=dict[str, Any])


class Inner:
    """The connections of one certificate and one trust."""

    def __init__(self, context: ssl.SSLContext, proxy: Secret[str] | None, limit: int | None) -> None:
        self._context = context
        self._proxy = proxy
        self._limit = limit
        self._session: aiohttp.ClientSession | None = None
        self._for_websockets: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: Request) -> Response:
        headers = CIMultiDict(
            (name.decode(_WIRE), value.decode(_WIRE)) for name, value in request.headers.raw
        )
        options: dict[str, Any] = {**request.options, "headers": headers}
        if self._proxy is not None:
            options["proxy"] = self._proxy.reveal()
        if "websocket" in request.extensions:
            return await self._connect(request, options)
        options["allow_redirects"] = False  # each is a request of its own
        try:
            raw: Any = await self._open().request(request.method, request.address, **options)
        except aiohttp.ClientError as error:
            _hide(error)
            raise
        # An error raised later would show it too, as from raise_for_status().
        hide_request_info(raw, _hidden)
        return Response(request.url, raw.status, _Body(raw), raw)

    async def _connect(self, request: Request, options: dict[str, Any]) -> Response:
        session = self._open()
        if self._for_websockets is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_redirect.append(_refuse_redirect)
            self._for_websockets = aiohttp.ClientSession(
                connector=session.connector, connector_owner=False, trace_configs=[trace]
            )
        try:
            websocket = await self._for_websockets.ws_connect(request.address, **options)
        except aiohttp.WSServerHandshakeError as error:
            _hide(error)
            # Without where it was raised: what was sent is there.
            clean = error.with_traceback(None)
        except aiohttp.ClientError as error:
            _hide(error)
            raise
        else:
            return Response(request.url, 101, _NoBody(), websocket)
        return Response(request.url, clean.status, _NoBody(), clean)

    async def aclose(self) -> None:
        """All of them, whoever uses them: there is a lease for each that must not be cut."""
        if self._for_websockets is not None:
            await self._for_websockets.close()
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        # Not before: a session can be made in its event loop only, and this object is made in a thread.
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._context, limit=self._limit or 0)
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=_LINE)
        return self._session


class Transport(AsyncTransport[Request, Response]):
    """Signs, rotates and repeats as AsyncKubeTransport does, over aiohttp."""

    _byte_stream = Again
    _server_cert_error = ServerCertificateError
    _client_cert_error = ClientCertificateError

    def __init__(self, config: ClientConfig, *, limit: int | None, clock: Clock) -> None:
        def make(
            context: ssl.SSLContext, proxy: Secret[str] | None, to_proxy: ssl.SSLContext | None
        ) -> Inner:
            _check(proxy)
            return Inner(context, proxy, limit)

        self._closing: set[asyncio.Task[None]] = set()
        super().__init__(config, make, httpx.URL, trust_env=True, drain_timeout=None, clock=clock)

    async def send(self, request: Request) -> aiohttp.ClientResponse:
        """The answer to `request`, signed if it is for the cluster."""
        response = await self.handle_async_request(request)
        raw: aiohttp.ClientResponse = response.raw
        if isinstance(lease := response.stream, AsyncLeasedStream):
            lease.body = None  # the caller's, who closes it
            give_back = partial(self._give_back, lease, asyncio.get_running_loop())
            if raw.connection is None:  # it had no body, or that came with its headers
                give_back()
            else:
                raw.connection.add_callback(give_back)
        return raw

    async def connect(self, request: Request) -> tuple[WebSocket, weakref.finalize[Any, Any]]:
        """A websocket, and what to call when it is done with; that is called too when it is garbage."""
        response = await self.handle_async_request(request)
        lease, loop = response.stream, asyncio.get_running_loop()
        if isinstance(response.raw, Exception):
            self._give_back(lease, loop)
            raise response.raw
        done = weakref.finalize(response.raw, self._give_back, lease, loop)
        done.atexit = False
        return response.raw, done

    async def aclose(self) -> None:
        """Closes everything, and leaves the source. The next request opens new connections."""
        await super().aclose()
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)

    def _give_back(self, lease: object, loop: asyncio.AbstractEventLoop) -> None:
        """From wherever a response ends: in its loop, or in a thread that collects garbage."""
        if not isinstance(lease, AsyncLeasedStream) or loop.is_closed():
            return
        pool, lease.pool = lease.pool, None
        inner = None if pool is None else pool.checkin(lease)
        if inner is not None:
            loop.call_soon_threadsafe(self._close_in_background, inner)

    def _close_in_background(self, inner: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(inner.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _body_consumed_error(self) -> Exception:
        return ValueError("the body of this request was sent before, and is gone")

    def _sign(self, request: Request, credential: Credential) -> Request:
        return signed(self._signer, request, credential)

    def _is_stale_connection(self, error: BaseException) -> bool:
        return False  # aiohttp has tried again by itself

    def _tls_error(
        self, error: ssl.SSLError, pool: Pool[Any] | None, public: RequestLike | None
    ) -> Exception | None:
        # aiohttp's own errors are subclasses of ssl.SSLError too, and have no reason.
        error = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
        return super()._tls_error(error, pool, public)


class KubeSession:
    """In the place of a client's own aiohttp.ClientSession: what the generated clients call of one."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(
        self,
        method: str,
        url: str | URL,
        *,
        headers: Any = None,
        data: object = None,
        allow_redirects: bool = True,
        max_redirects: int = 10,
        **options: Any,
    ) -> aiohttp.ClientResponse:
        """As aiohttp's. Redirects are followed for GET and HEAD; others change something, and get theirs."""
        request = Request.of(method, str(url), _raw(headers), data, {**options, "data": data})
        follows = allow_redirects and method.upper() in ("GET", "HEAD")
        for left in range(max_redirects, -1, -1):
            response = await self._transport.send(request)
            if not follows or response.status not in _REDIRECTS or "Location" not in response.headers:
                return response
            response.release()
            if not left:
                break
            there = _redirected(response)
            given = list(request.headers.raw)
            if there.origin() != response.url.origin():
                given = [header for header in given if header[0].decode().lower() not in _FOR_ONE_ORIGIN]
            request = Request.of(method, str(there), given, data, request.options)
        raise aiohttp.TooManyRedirects(RequestInfo(URL(url), method, NO_HEADERS, URL(url)), ())

    def ws_connect(self, url: str | URL, *, headers: Any = None, **options: Any) -> _Connecting:
        """As aiohttp's: to be awaited, or used in an `async with`."""
        request = Request.of("GET", str(url), _raw(headers), None, options)
        request.extensions = {"websocket": True}
        return _Connecting(self._transport.connect(request))

    async def close(self) -> None:
        """Closes everything; the next request opens new connections."""
        await self._transport.aclose()


class _Connecting:
    def __init__(self, work: Coroutine[Any, Any, tuple[WebSocket, weakref.finalize[Any, Any]]]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, WebSocket]:
        websocket, _ = yield from self._work.__await__()
        return websocket

    async def __aenter__(self) -> WebSocket:
        self._websocket, self._done = await self._work
        return self._websocket

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._websocket.close()
        finally:
            self._done()


async def _refuse_redirect(_session: object, _context: object, _parameters: object) -> None:
    # aiohttp would follow it with our certificate in hand, wherever it leads.
    raise aiohttp.ClientConnectionError("the server redirects a websocket, which kubeauth does not follow")


def _redirected(response: aiohttp.ClientResponse) -> URL:
    """Where a redirect leads. An error of aiohttp's if that is nowhere."""
    said = response.headers["Location"]
    try:
        there = response.url.join(URL(said))
        there.origin()  # ValueError for what has no host, or is not http
        httpx.URL(str(there))
    except (ValueError, httpx.InvalidURL):
        pass
    else:
        return there
    raise aiohttp.InvalidUrlRedirectClientError(said, "the server redirects to what is no address")


def _hide(error: aiohttp.ClientError) -> None:
    """What was sent, or to whom: the repr of an error has the token, or the password of a proxy, in it."""
    if isinstance(error, aiohttp.ClientResponseError):
        error.request_info = _hidden(error.request_info)
        error.args = (error.request_info, *error.args[1:])
    elif isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        hide_proxy(error)


def _hidden(info: RequestInfo) -> RequestInfo:
    return RequestInfo(info.url.with_user(None), info.method, NO_HEADERS, info.real_url.with_user(None))


def _raw(headers: Any) -> Iterable[tuple[bytes, bytes]]:
    return [(name.encode(_WIRE), str(value).encode(_WIRE)) for name, value in (headers or {}).items()]


def _check(proxy: Secret[str] | None) -> None:
    """ConfigError for a proxy that aiohttp cannot use, or not without giving away a credential."""
    if proxy is None:
        return
    url = proxy.reveal()
    if why := find_proxy_problem(url.replace("socks5h:", "socks5:", 1)):
        raise errors.ConfigError(f"the proxy cannot be used: {why}. Check proxy-url or HTTPS_PROXY.")
    if not url.lower().startswith("http:"):
        raise errors.ConfigError(
            "with aiohttp a proxy must be http://. It knows no SOCKS, and would show an https proxy the "
            "cluster's client certificate. Use kubeauth.AsyncClient, or another proxy."
        )
