# Generated from _transport/_httpx.py by scripts/generate.py: edit that and run `make generate`.
"""The httpx2 classes: KubeTransport, AsyncKubeTransport, KubeAuth."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

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

SyncFactory = Callable[[ssl.SSLContext, httpx2.Proxy | None], httpx2.BaseTransport]
AsyncFactory = Callable[[ssl.SSLContext, httpx2.Proxy | None], httpx2.AsyncBaseTransport]

# As client-go: no limit on connections, and idle ones kept for a minute and a half.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=90.0)


class _LeasedStream(LeasedStream, httpx2.SyncByteStream):
    pass


class _AsyncLeasedStream(AsyncLeasedStream, httpx2.AsyncByteStream):
    pass


class ServerCertificateError(errors.ServerCertificateError, httpx2.ConnectError):
    """Both, so that a handler for either catches it."""


class ClientCertificateError(errors.ClientCertificateError, httpx2.ReadError):
    """Both, so that a handler for either catches it."""


class KubeTransport(SyncTransport[httpx2.Request, httpx2.Response], httpx2.BaseTransport):
    """Everything a client needs to talk to the cluster of `config`, for an httpx2.Client of your own.

        httpx2.Client(transport=kubeauth.KubeTransport(config), base_url=config.server)

    Trust, client certificate, token, impersonation and proxy are those of the config, and go to its server
    alone: any other origin is reached with the system's trust and without credentials. Files are read
    again while it runs. Without a config it loads the one kubectl would use.

    - `inner` makes the transport below, for each pool of connections: a function of an ssl.SSLContext and an
      httpx2.Proxy, or None, that returns an httpx2 transport.
    - `http1`, `http2` and `limits` are for the one that is made without it. The limits are
      100 idle connections, kept for 90 seconds, and any number in use.
    - `trust_env=False`: no proxy is taken from the environment.
    - `drain_timeout`: seconds after which requests still open on an old certificate are cut; None for never.
    - `clock` is for tests: kubeauth.testing.FakeClock.

    Raises ConfigError, TLSError or CredentialError for what is wrong with the config. May be shared between
    threads, and used in a child process after a fork.
    """

    _byte_stream = httpx2.ByteStream

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        inner: SyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx2.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        def default(context: ssl.SSLContext, proxy: httpx2.Proxy | None) -> httpx2.BaseTransport:
            return httpx2.HTTPTransport(context, http1=http1, http2=http2, limits=limits, proxy=proxy)

        factory = inner or default

        def make(
            context: ssl.SSLContext, proxy: Secret[str] | None, to_proxy: ssl.SSLContext | None
        ) -> httpx2.BaseTransport:
            return factory(context, _proxy(proxy, to_proxy))

        need_http2(http2)
        super().__init__(
            config, make, httpx2.URL, trust_env=trust_env, drain_timeout=drain_timeout, clock=clock
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._send(request)

    def close(self) -> None:
        self._close()

    def _consumed(self) -> Exception:
        return httpx2.StreamConsumed()

    def _new_lease(self) -> LeasedStream:
        return _LeasedStream()

    def _signed(self, request: httpx2.Request, credential: Credential) -> httpx2.Request:
        return _signed(self._signer, request, credential)

    def _is_dead(self, error: BaseException) -> bool:
        return _is_dead(error)

    def _explained(
        self, failure: ssl.SSLError, pool: Pool[Any] | None, elsewhere: httpx2.Request | None
    ) -> Exception | None:
        server, proxy = self._where(elsewhere)
        return _explained(failure, server, proxy, pool)


class AsyncKubeTransport(AsyncTransport[httpx2.Request, httpx2.Response], httpx2.AsyncBaseTransport):
    """As KubeTransport, for an httpx2.AsyncClient of your own, on asyncio or trio.

        httpx2.AsyncClient(transport=kubeauth.AsyncKubeTransport(config), base_url=config.server)

    Belongs to the event loop it is first used in; in a child after a fork, to one of the child's own.
    """

    _byte_stream = httpx2.ByteStream

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        inner: AsyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx2.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        def default(context: ssl.SSLContext, proxy: httpx2.Proxy | None) -> httpx2.AsyncBaseTransport:
            return httpx2.AsyncHTTPTransport(context, http1=http1, http2=http2, limits=limits, proxy=proxy)

        factory = inner or default

        def make(
            context: ssl.SSLContext, proxy: Secret[str] | None, to_proxy: ssl.SSLContext | None
        ) -> httpx2.AsyncBaseTransport:
            return factory(context, _proxy(proxy, to_proxy))

        need_http2(http2)
        super().__init__(
            config, make, httpx2.URL, trust_env=trust_env, drain_timeout=drain_timeout, clock=clock
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._send(request)

    async def aclose(self) -> None:
        await self._close()

    def _consumed(self) -> Exception:
        return httpx2.StreamConsumed()

    def _new_lease(self) -> AsyncLeasedStream:
        return _AsyncLeasedStream()

    def _signed(self, request: httpx2.Request, credential: Credential) -> httpx2.Request:
        return _signed(self._signer, request, credential)

    def _is_dead(self, error: BaseException) -> bool:
        return _is_dead(error)

    def _explained(
        self, failure: ssl.SSLError, pool: Pool[Any] | None, elsewhere: httpx2.Request | None
    ) -> Exception | None:
        server, proxy = self._where(elsewhere)
        return _explained(failure, server, proxy, pool)


class KubeAuth(AuthFlow[httpx2.Request, httpx2.Response], httpx2.Auth):
    """The token or password of `config`, for an httpx2 client that is set up in every other respect.

        httpx2.Client(auth=KubeAuth(config), verify=ssl_context(config), base_url=config.server)

    Signs requests to the config's server and no others. Raises ConfigError, naming KubeTransport, if the
    only credential is a client certificate, and for impersonation. Errors of kubeauth pass through httpx2
    unchanged.
    """

    _byte_stream = httpx2.ByteStream

    def __init__(self, config: ClientConfig | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(config, httpx2.URL, clock=clock)

    def _signed(self, request: httpx2.Request, credential: Credential) -> httpx2.Request:
        headers = self._signer.headers(request.headers, credential) or httpx2.Headers(request.headers)
        signed = copy_request(request, headers)
        signed.extensions = {**request.extensions, SIGNED_BY_AUTH: True}
        return signed

    def _forget(self, signed: httpx2.Request, outcome: httpx2.Response | BaseException | None) -> None:
        forget(SIGNED_BY_AUTH, signed, outcome)


def forget(mark: str, signed: httpx2.Request, outcome: httpx2.Response | BaseException | None) -> None:
    """Takes Authorization off a request that was sent, and off all that its outcome holds with that mark."""
    for request in (signed, *_requests_of(outcome)):
        # What is handled just now may be an error of somebody else, who has signed that request.
        if mark in request.extensions:
            request.headers.pop("Authorization", None)


def _requests_of(outcome: httpx2.Response | BaseException | None) -> Iterator[httpx2.Request]:
    """All that it holds. Redirects are copies, headers and all; and a hook may raise about a response."""
    if isinstance(outcome, httpx2.HTTPError) and (request := request_of(outcome)) is not None:
        yield request
    last = getattr(outcome, "response", outcome)
    if isinstance(last, httpx2.Response):
        for response in (*last.history, last):
            requests = (request_of(response), response.next_request)
            yield from (each for each in requests if each is not None)


def _signed(signer: Signer, request: httpx2.Request, credential: Credential) -> httpx2.Request:
    headers = signer.headers(request.headers, credential)
    return request if headers is None else copy_request(request, headers)


def _proxy(url: Secret[str] | None, context: ssl.SSLContext | None) -> httpx2.Proxy | None:
    if url is None:
        return None
    need_proxy(url)
    return httpx2.Proxy(url.reveal(), ssl_context=context)


def _is_dead(error: BaseException) -> bool:
    if isinstance(error, httpx2.RemoteProtocolError):
        return is_disconnect(str(error))
    return isinstance(error, httpx2.ReadError | httpx2.WriteError)


def _explained(
    failure: ssl.SSLError, server: str, proxy: str | None, pool: Pool[Any] | None
) -> Exception | None:
    if isinstance(failure, ssl.SSLCertVerificationError):
        message = refused_server(failure, server, proxy, ours=pool is not None)
        return ServerCertificateError(message, verify_code=verify_code(failure))
    has_certificate = pool is not None and pool.client_certificate is not None
    refusal = refused_client(failure, server, proxy, ours=pool is not None, has_certificate=has_certificate)
    return ClientCertificateError(refusal) if refusal else None
