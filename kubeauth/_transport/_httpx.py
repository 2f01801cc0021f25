"""The httpx classes: KubeTransport, AsyncKubeTransport, KubeAuth."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from kubeauth import errors
from kubeauth._compat import copy_request, is_disconnect, request_of
from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials.credential import Credential
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._secret import Secret
from kubeauth._transport._async import AsyncLeasedStream, AsyncTransport
from kubeauth._transport._auth import AuthFlow
from kubeauth._transport._leases import Pool
from kubeauth._transport._needs import need_http2, need_proxy
from kubeauth._transport._sign import SIGNED_BY_AUTH, Signer
from kubeauth._transport._sync import LeasedStream, SyncTransport
from kubeauth._transport._words import refused_client, refused_server, verify_code

SyncFactory = Callable[[ssl.SSLContext, httpx.Proxy | None], httpx.BaseTransport]
AsyncFactory = Callable[[ssl.SSLContext, httpx.Proxy | None], httpx.AsyncBaseTransport]

# As client-go: no limit on connections, and idle ones kept for a minute and a half.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=90.0)


class _LeasedStream(LeasedStream, httpx.SyncByteStream):
    pass


class _AsyncLeasedStream(AsyncLeasedStream, httpx.AsyncByteStream):
    pass


class ServerCertificateError(errors.ServerCertificateError, httpx.ConnectError):
    """Both, so that a handler for either catches it."""


class ClientCertificateError(errors.ClientCertificateError, httpx.ReadError):
    """Both, so that a handler for either catches it."""


class KubeTransport(SyncTransport[httpx.Request, httpx.Response], httpx.BaseTransport):
    """Everything a client needs to talk to the cluster of `config`, for an httpx.Client of your own.

        httpx.Client(transport=kubeauth.KubeTransport(config), base_url=config.server)

    Trust, client certificate, token, impersonation and proxy are those of the config, and go to its server
    alone: any other origin is reached with the system's trust and without credentials. Files are read
    again while it runs. Without a config it loads the one kubectl would use.

    - `inner` makes the transport below, for each pool of connections: a function of an ssl.SSLContext and an
      httpx.Proxy, or None, that returns an httpx transport.
    - `http1`, `http2` and `limits` are for the one that is made without it. The limits are
      100 idle connections, kept for 90 seconds, and any number in use.
    - `trust_env=False`: no proxy is taken from the environment.
    - `drain_timeout`: seconds after which requests still open on an old certificate are cut; None for never.
    - `clock` is for tests: kubeauth.testing.FakeClock.

    Raises ConfigError, TLSError or CredentialError for what is wrong with the config. May be shared between
    threads, and used in a child process after a fork.
    """

    _byte_stream = httpx.ByteStream

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        inner: SyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        def default(context: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.BaseTransport:
            return httpx.HTTPTransport(context, http1=http1, http2=http2, limits=limits, proxy=proxy)

        factory = inner or default

        def make(
            context: ssl.SSLContext, proxy: Secret[str] | None, to_proxy: ssl.SSLContext | None
        ) -> httpx.BaseTransport:
            return factory(context, _proxy(proxy, to_proxy))

        need_http2(http2)
        super().__init__(
            config, make, httpx.URL, trust_env=trust_env, drain_timeout=drain_timeout, clock=clock
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._send(request)

    def close(self) -> None:
        self._close()

    def _consumed(self) -> Exception:
        return httpx.StreamConsumed()

    def _new_lease(self) -> LeasedStream:
        return _LeasedStream()

    def _signed(self, request: httpx.Request, credential: Credential) -> httpx.Request:
        return _signed(self._signer, request, credential)

    def _is_dead(self, error: BaseException) -> bool:
        return _is_dead(error)

    def _explained(
        self, failure: ssl.SSLError, pool: Pool[Any] | None, elsewhere: httpx.Request | None
    ) -> Exception | None:
        server, proxy = self._where(elsewhere)
        return _explained(failure, server, proxy, pool)


class AsyncKubeTransport(AsyncTransport[httpx.Request, httpx.Response], httpx.AsyncBaseTransport):
    """As KubeTransport, for an httpx.AsyncClient of your own, on asyncio or trio.

        httpx.AsyncClient(transport=kubeauth.AsyncKubeTransport(config), base_url=config.server)

    Belongs to the event loop it is first used in; in a child after a fork, to one of the child's own.
    """

    _byte_stream = httpx.ByteStream

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        inner: AsyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        def default(context: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.AsyncBaseTransport:
            return httpx.AsyncHTTPTransport(context, http1=http1, http2=http2, limits=limits, proxy=proxy)

        factory = inner or default

        def make(
            context: ssl.SSLContext, proxy: Secret[str] | None, to_proxy: ssl.SSLContext | None
        ) -> httpx.AsyncBaseTransport:
            return factory(context, _proxy(proxy, to_proxy))

        need_http2(http2)
        super().__init__(
            config, make, httpx.URL, trust_env=trust_env, drain_timeout=drain_timeout, clock=clock
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._send(request)

    async def aclose(self) -> None:
        await self._close()

    def _consumed(self) -> Exception:
        return httpx.StreamConsumed()

    def _new_lease(self) -> AsyncLeasedStream:
        return _AsyncLeasedStream()

    def _signed(self, request: httpx.Request, credential: Credential) -> httpx.Request:
        return _signed(self._signer, request, credential)

    def _is_dead(self, error: BaseException) -> bool:
        return _is_dead(error)

    def _explained(
        self, failure: ssl.SSLError, pool: Pool[Any] | None, elsewhere: httpx.Request | None
    ) -> Exception | None:
        server, proxy = self._where(elsewhere)
        return _explained(failure, server, proxy, pool)


class KubeAuth(AuthFlow[httpx.Request, httpx.Response], httpx.Auth):
    """The token or password of `config`, for an httpx client that is set up in every other respect.

        httpx.Client(auth=KubeAuth(config), verify=ssl_context(config), base_url=config.server)

    Signs requests to the config's server and no others. Raises ConfigError, naming KubeTransport, if the
    only credential is a client certificate, and for impersonation. Errors of kubeauth pass through httpx
    unchanged.
    """

    _byte_stream = httpx.ByteStream

    def __init__(self, config: ClientConfig | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(config, httpx.URL, clock=clock)

    def _signed(self, request: httpx.Request, credential: Credential) -> httpx.Request:
        headers = self._signer.headers(request.headers, credential) or httpx.Headers(request.headers)
        signed = copy_request(request, headers)
        signed.extensions = {**request.extensions, SIGNED_BY_AUTH: True}
        return signed

    def _forget(self, signed: httpx.Request, outcome: httpx.Response | BaseException | None) -> None:
        forget(SIGNED_BY_AUTH, signed, outcome)


def forget(mark: str, signed: httpx.Request, outcome: httpx.Response | BaseException | None) -> None:
    """Takes Authorization off a request that was sent, and off all that its outcome holds with that mark."""
    for request in (signed, *_requests_of(outcome)):
        # What is handled just now may be an error of somebody else, who has signed that request.
        if mark in request.extensions:
            request.headers.pop("Authorization", None)


def _requests_of(outcome: httpx.Response | BaseException | None) -> Iterator[httpx.Request]:
    """All that it holds. Redirects are copies, headers and all; and a hook may raise about a response."""
    if isinstance(outcome, httpx.HTTPError) and (request := request_of(outcome)) is not None:
        yield request
    last = getattr(outcome, "response", outcome)
    if isinstance(last, httpx.Response):
        for response in (*last.history, last):
            requests = (request_of(response), response.next_request)
            yield from (each for each in requests if each is not None)


def _signed(signer: Signer, request: httpx.Request, credential: Credential) -> httpx.Request:
    headers = signer.headers(request.headers, credential)
    return request if headers is None else copy_request(request, headers)


def _proxy(url: Secret[str] | None, context: ssl.SSLContext | None) -> httpx.Proxy | None:
    if url is None:
        return None
    need_proxy(url)
    return httpx.Proxy(url.reveal(), ssl_context=context)


def _is_dead(error: BaseException) -> bool:
    if isinstance(error, httpx.RemoteProtocolError):
        return is_disconnect(str(error))
    return isinstance(error, httpx.ReadError | httpx.WriteError)


def _explained(
    failure: ssl.SSLError, server: str, proxy: str | None, pool: Pool[Any] | None
) -> Exception | None:
    if isinstance(failure, ssl.SSLCertVerificationError):
        message = refused_server(failure, server, proxy, ours=pool is not None)
        return ServerCertificateError(message, verify_code=verify_code(failure))
    has_certificate = pool is not None and pool.client_certificate is not None
    refusal = refused_client(failure, server, proxy, ours=pool is not None, has_certificate=has_certificate)
    return ClientCertificateError(refusal) if refusal else None
