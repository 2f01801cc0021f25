# Generated from _transport/httpx.py by scripts/generate.py: edit that and run `make generate`.
"""The httpx2 classes: KubeTransport, AsyncKubeTransport, KubeAuth."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import ClassVar

import httpx2

from kubeauth import errors
from kubeauth._compat import copy_request, get_request, is_disconnect
from kubeauth._config.client_config import ClientConfig
from kubeauth._credentials.credential import Credential
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._secret import Secret
from kubeauth._transport.async_ import AsyncLeasedStream, AsyncTransport
from kubeauth._transport.auth import AuthFlow
from kubeauth._transport.options import require_http2, require_proxy
from kubeauth._transport.signing import SIGNED_BY_AUTH, Signer
from kubeauth._transport.sync import LeasedStream, SyncTransport

SyncFactory = Callable[[ssl.SSLContext, httpx2.Proxy | None], httpx2.BaseTransport]
AsyncFactory = Callable[[ssl.SSLContext, httpx2.Proxy | None], httpx2.AsyncBaseTransport]

# As client-go: any number of connections; idle ones are closed after 90 seconds.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=90.0)


class _LeasedStream(LeasedStream, httpx2.SyncByteStream):
    pass


class _AsyncLeasedStream(AsyncLeasedStream, httpx2.AsyncByteStream):
    pass


class ServerCertificateError(errors.ServerCertificateError, httpx2.ConnectError):
    """Both, so that a handler for either catches it."""


class ClientCertificateError(errors.ClientCertificateError, httpx2.ReadError):
    """Both, so that a handler for either catches it."""


class _HttpxTransport:
    """What the sync and the async transport need to know of httpx2."""

    _byte_stream: ClassVar[type] = httpx2.ByteStream
    _server_cert_error: ClassVar[type[errors.ServerCertificateError]] = ServerCertificateError
    _client_cert_error: ClassVar[type[errors.ClientCertificateError]] = ClientCertificateError
    _signer: Signer

    def _body_consumed_error(self) -> Exception:
        return httpx2.StreamConsumed()

    def _sign(self, request: httpx2.Request, credential: Credential) -> httpx2.Request:
        headers = self._signer.sign(request.headers, credential)
        return request if headers is None else copy_request(request, headers)

    def _is_stale_connection(self, error: BaseException) -> bool:
        if isinstance(error, httpx2.RemoteProtocolError):
            return is_disconnect(str(error))
        return isinstance(error, httpx2.ReadError | httpx2.WriteError)


class KubeTransport(_HttpxTransport, SyncTransport[httpx2.Request, httpx2.Response], httpx2.BaseTransport):
    """A transport for an httpx2.Client of your own, with everything the cluster of `config` needs.

        httpx2.Client(transport=kubeauth.KubeTransport(config), base_url=config.server)

    CA, client certificate, token, impersonation and proxy are those of the config, and are used for its
    server only: requests to any other origin use the system's trust and no credentials. Files are reloaded
    when they change. Without a config, it loads the one kubectl would use.

    - `transport_factory` creates the underlying transport, for each pool of connections: a function of an
      ssl.SSLContext and an httpx2.Proxy or None, which returns an httpx2 transport.
    - `http1`, `http2` and `limits` apply to the default one, an httpx2.HTTPTransport. The limits are 100 idle
      connections, for 90 seconds each, and any number in use.
    - `trust_env=False` ignores the proxy variables of the environment.
    - `drain_timeout`: seconds after a certificate rotation until requests on the old connections are
      aborted; None for never.
    - `clock` is for tests: kubeauth.testing.FakeClock.

    Raises ConfigError, TLSError or CredentialError if the config is not valid. Thread-safe, and may be used
    in a child process after a fork.
    """

    _lease_class = _LeasedStream

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        transport_factory: SyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx2.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        def default(context: ssl.SSLContext, proxy: httpx2.Proxy | None) -> httpx2.BaseTransport:
            return httpx2.HTTPTransport(context, http1=http1, http2=http2, limits=limits, proxy=proxy)

        def create(
            context: ssl.SSLContext, proxy: Secret[str] | None, proxy_context: ssl.SSLContext | None
        ) -> httpx2.BaseTransport:
            return (transport_factory or default)(context, _build_proxy(proxy, proxy_context))

        require_http2(http2)
        super().__init__(
            config, create, httpx2.URL, trust_env=trust_env, drain_timeout=drain_timeout, clock=clock
        )


class AsyncKubeTransport(
    _HttpxTransport, AsyncTransport[httpx2.Request, httpx2.Response], httpx2.AsyncBaseTransport
):
    """As KubeTransport, for an httpx2.AsyncClient of your own, on asyncio or trio.

        httpx2.AsyncClient(transport=kubeauth.AsyncKubeTransport(config), base_url=config.server)

    Belongs to the event loop in which it is first used; in a forked child, to a loop of the child.
    """

    _lease_class = _AsyncLeasedStream

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        transport_factory: AsyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx2.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        def default(context: ssl.SSLContext, proxy: httpx2.Proxy | None) -> httpx2.AsyncBaseTransport:
            return httpx2.AsyncHTTPTransport(context, http1=http1, http2=http2, limits=limits, proxy=proxy)

        def create(
            context: ssl.SSLContext, proxy: Secret[str] | None, proxy_context: ssl.SSLContext | None
        ) -> httpx2.AsyncBaseTransport:
            return (transport_factory or default)(context, _build_proxy(proxy, proxy_context))

        require_http2(http2)
        super().__init__(
            config, create, httpx2.URL, trust_env=trust_env, drain_timeout=drain_timeout, clock=clock
        )


class KubeAuth(AuthFlow[httpx2.Request, httpx2.Response], httpx2.Auth):
    """Signs requests with the token or password of `config`, for an httpx2 client you configure yourself.

        httpx2.Client(auth=KubeAuth(config), verify=ssl_context(config), base_url=config.server)

    Signs requests to the config's server only. Raises ConfigError, which recommends KubeTransport, for
    impersonation and if the only credential is a client certificate. Errors of kubeauth pass through httpx2
    unchanged.
    """

    _byte_stream = httpx2.ByteStream

    def __init__(self, config: ClientConfig | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(config, httpx2.URL, clock=clock)

    def _sign(self, request: httpx2.Request, credential: Credential) -> httpx2.Request:
        headers = self._signer.sign(request.headers, credential) or httpx2.Headers(request.headers)
        signed = copy_request(request, headers)
        signed.extensions = {**request.extensions, SIGNED_BY_AUTH: True}
        return signed

    def _remove_authorization(
        self, signed: httpx2.Request, outcome: httpx2.Response | BaseException | None
    ) -> None:
        clear_authorization_headers(SIGNED_BY_AUTH, signed, outcome)


def clear_authorization_headers(
    mark: str, signed: httpx2.Request, outcome: httpx2.Response | BaseException | None
) -> None:
    """Remove Authorization from a request that was sent, and from all marked requests of its outcome."""
    for request in (signed, *_iter_requests(outcome)):
        # The error that is being handled may be of another client, which has signed its own request.
        if mark in request.extensions:
            request.headers.pop("Authorization", None)


def _iter_requests(outcome: httpx2.Response | BaseException | None) -> Iterator[httpx2.Request]:
    """Yield each request that `outcome` references: redirects are copies, with their headers."""
    if isinstance(outcome, httpx2.HTTPError) and (request := get_request(outcome)) is not None:
        yield request
    last = getattr(outcome, "response", outcome)  # an event hook may raise with a response
    if isinstance(last, httpx2.Response):
        for response in (*last.history, last):
            requests = (get_request(response), response.next_request)
            yield from (each for each in requests if each is not None)


def _build_proxy(url: Secret[str] | None, context: ssl.SSLContext | None) -> httpx2.Proxy | None:
    if url is None:
        return None
    require_proxy(url)
    return httpx2.Proxy(url.reveal(), ssl_context=context)
