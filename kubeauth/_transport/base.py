"""TransportBase: what the sync and the async transports share, which is every decision."""

from __future__ import annotations

import logging
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import ClassVar, Generic, TypeVar
from urllib.parse import urlsplit

from kubeauth._compat import is_body_consumed
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import choose_proxy, redact_url
from kubeauth._credentials.cache import HttpFactory, Source, build_source
from kubeauth._credentials.credential import Credential, Status
from kubeauth._credentials.refreshable import NO_CREDENTIAL, RefreshableSource
from kubeauth._http import parse_content_length
from kubeauth._runtime import SYSTEM_CLOCK, Clock, ProcessBound, call_after_fork
from kubeauth._secret import Secret
from kubeauth._transport.pools import Pool, PoolManager
from kubeauth._transport.redaction import mask_headers, redact_library_logs
from kubeauth._transport.signing import SIGNED_BY_AUTH, Signer
from kubeauth._transport.tls import (
    Trust,
    build_cluster_context,
    build_proxy_context,
    build_public_context,
    build_trust_source,
    get_handshake_count,
)
from kubeauth._transport.tls_errors import (
    describe_client_cert_error,
    describe_server_cert_error,
    get_verify_code,
)
from kubeauth._transport.types import RequestLike, ResponseLike, URLLike
from kubeauth.errors import (
    ClientCertificateError,
    ConfigError,
    KubeAuthError,
    ServerCertificateError,
    TLSError,
)
from kubeauth.metrics._recorder import RECORDER

logger = logging.getLogger("kubeauth.transport")

Transport = TypeVar("Transport")

# Called with the context for TLS, the proxy's URL, and the context for TLS to the proxy.
TransportFactory = Callable[[ssl.SSLContext, Secret[str] | None, ssl.SSLContext | None], Transport]

_REBUILD_DELAY = 1.0
# A 401 with a longer body is not read: a new connection costs less.
_MAX_DRAINED_BODY = 65536


class TransportBase(ProcessBound, ABC, Generic[Transport]):
    """Config, credential source, trust and connection pools.

    The constructor raises everything that can be wrong without a server.
    """

    _byte_stream: ClassVar[type]
    """The library's class of request bodies that can be sent again."""
    _server_cert_error: ClassVar[type[ServerCertificateError]] = ServerCertificateError
    _client_cert_error: ClassVar[type[ClientCertificateError]] = ClientCertificateError

    def __init__(
        self,
        config: ClientConfig | None,
        factory: TransportFactory[Transport],
        parse_url: Callable[[str], URLLike],
        *,
        trust_env: bool,
        drain_timeout: float | None,
        clock: Clock,
    ) -> None:
        self._config = config = resolve_config(config)
        redact_library_logs()
        self._transport_factory = factory
        self._environ: Mapping[str, str] = os.environ if trust_env else {}
        self._now = clock.monotonic
        self._signer = Signer(parse_server(config, parse_url), config.impersonate)
        self._source = get_source(config, clock=clock, trust_env=trust_env)
        # Only a plugin or an OIDC issuer can return another credential after a 401 (K64).
        self._refreshable = self._source if isinstance(self._source, RefreshableSource) else None
        self._trust = build_trust_source(config, clock)
        self._constant_trust = self._trust.current if self._trust.is_constant else None
        self._proxy = self._proxy_for(config.server)
        self._build_error: KubeAuthError | None = None
        self._rebuild_at = 0.0
        self._pools = PoolManager(self._build_pool(self._source.current, self._trust.current), drain_timeout)
        self._public_transports: dict[Secret[str] | None, Transport] = {}
        self._pool_lock = self._new_lock()
        self._close_count = 0
        if self._refreshable is not None:
            self._refreshable.acquire(self)
        call_after_fork(self)

    @property
    def config(self) -> ClientConfig:
        """The config that it was created with, or has loaded."""
        return self._config

    def status(self) -> Status:
        """Return the credential's source, kind and expiry, and the last error."""
        return self._source.status(self._trust.polled.error or self._build_error)

    @abstractmethod
    def _body_consumed_error(self) -> Exception:
        """Return the library's error for a request body that was sent before."""

    @abstractmethod
    def _new_lock(self) -> object:
        """Return the lock that is held while a pool is built."""

    @abstractmethod
    def _is_stale_connection(self, error: BaseException) -> bool:
        """Whether `error` is raised for a keep-alive connection that the server has closed."""

    def _validate(self, request: RequestLike) -> None:
        """Raise for a request that was signed by KubeAuth, or whose body was sent before."""
        if is_body_consumed(request.stream):  # for example when a redirect is followed
            raise self._body_consumed_error()
        if SIGNED_BY_AUTH in request.extensions:
            raise ConfigError(
                "this client has both KubeAuth and KubeTransport. KubeTransport does all that KubeAuth does: "
                "remove auth=KubeAuth(...)."
            )

    def _build_pool(self, credential: Credential, trust: Trust) -> Pool[Transport]:
        """Build a pool without connections. Reads no file; takes a millisecond."""
        context = build_cluster_context(self._config, trust, credential.client_certificate)
        transport = self._new_transport(context, self._proxy, trust)
        return Pool(transport, credential.client_certificate, trust)

    def _rebuild_pool(self, credential: Credential, trust: Trust) -> Pool[Transport]:
        """As `_build_pool`. If that fails, keep using the current pool and retry after a second."""
        current = self._pools.current
        now = self._now()
        if current.trust is not None and now < self._rebuild_at:
            return current
        try:
            pool = self._build_pool(credential, trust)
        except Exception as error:  # a factory of the caller's may raise anything
            if current.trust is None:
                raise
            logger.warning("cannot create new connections, using the current ones: %s", error)
            self._build_error = error if isinstance(error, KubeAuthError) else TLSError(str(error))
            self._rebuild_at = now + _REBUILD_DELAY
            return current
        self._build_error = None
        return pool

    def _new_transport(self, context: ssl.SSLContext, proxy: Secret[str] | None, trust: Trust) -> Transport:
        proxy_context = None
        if proxy is not None and proxy.reveal().lower().startswith("https:"):
            proxy_context = build_proxy_context(self._config, trust)
        return self._transport_factory(context, proxy, proxy_context)

    def _new_public_transport(self, proxy: Secret[str] | None) -> Transport:
        return self._new_transport(build_public_context(), proxy, self._trust.current)

    def _proxy_for(self, url: str) -> Secret[str] | None:
        """Return the proxy for `url`. A secret: the proxy's URL may contain a password."""
        if url.startswith("ws"):  # a proxy treats wss like https
            url = f"http{url[2:]}"
        proxy = choose_proxy(url, proxy_url=self._config.proxy_url, environ=self._environ)
        return None if proxy is None else Secret(proxy)

    def _tls_error(
        self, error: ssl.SSLError, pool: Pool[Transport] | None, public: RequestLike | None
    ) -> Exception | None:
        """Return an error that explains `error`: of the cluster on `pool`, or of a `public` request."""
        url = self._config.server if public is None else str(public.url)
        proxy = self._proxy if public is None else self._proxy_for(url)
        parts = urlsplit(redact_url(url))
        server = f"{parts.scheme}://{parts.netloc}"
        proxy_url = redact_url(proxy.reveal()) if proxy else None
        is_cluster = pool is not None
        if isinstance(error, ssl.SSLCertVerificationError):
            message = describe_server_cert_error(error, server, proxy_url, is_cluster=is_cluster)
            return self._server_cert_error(message, verify_code=get_verify_code(error))
        rejection = describe_client_cert_error(
            error,
            server,
            proxy_url,
            is_cluster=is_cluster,
            has_certificate=pool is not None and pool.client_certificate is not None,
            plugin=self._plugin_name(),
        )
        return self._client_cert_error(rejection) if rejection else None

    def _plugin_name(self) -> str | None:
        """Return the exec plugin whose credential is in use. An OIDC issuer never returns a certificate."""
        if self._config.exec is None or self._refreshable is None or self._source.current is NO_CREDENTIAL:
            return None
        return self._refreshable.provider.name

    def _can_retry(self, request: RequestLike, pool: Pool[Transport], handshakes_before: int) -> bool:
        """Whether a request that met a stale connection may be sent once more.

        It must be safe to repeat: exec and port-forward are GETs too, with an upgrade. Its body must be
        replayable. And the connection must have been reused: if a new one fails, something else is wrong.
        """
        return (
            request.method in ("GET", "HEAD")
            and "upgrade" not in request.headers
            and request.url.scheme in ("http", "https")
            and isinstance(request.stream, self._byte_stream)
            and self._pools.current.is_open  # else the client was closed
            and pool.has_responded
            and get_handshake_count() == handshakes_before
        )

    def _can_replay(self, request: RequestLike, rejected: Credential, newer: Credential) -> bool:
        """Whether a request that met a 401 may be sent once more, and with another credential."""
        return isinstance(request.stream, self._byte_stream) and newer != rejected

    def _has_short_body(self, response: ResponseLike) -> bool:
        lengths = [value for name, value in response.headers.raw if name.lower() == b"content-length"]
        length = parse_content_length(lengths[0]) if len(lengths) == 1 else None
        return length is not None and length <= _MAX_DRAINED_BODY

    def _log_request(self, request: RequestLike) -> None:
        url = redact_url(str(request.url))
        logger.debug("%s %s %s", request.method, url, mask_headers(request.headers.multi_items()))

    def after_fork(self) -> None:
        """In a forked child: the connections belong to the parent, which still uses them."""
        # Dropped, not closed: a lock inside may be held by a thread that does not exist here.
        self._pools.discard_after_fork()
        self._public_transports.clear()
        self._pool_lock = self._new_lock()


def resolve_config(config: ClientConfig | None, context: str | None = None) -> ClientConfig:
    """Return `config`, or load it: `Client()` and `Client(context="prod")`."""
    if config is None:
        # Here, because it imports pydantic, which a client for a hand-made config does not need.
        from kubeauth._config.loader import load_config

        return load_config(context=context)
    if not isinstance(config, ClientConfig):
        raise TypeError("config must be a ClientConfig: load_config(path) makes one of a kubeconfig")
    if context is not None:
        raise TypeError("pass a config or the name of a context, not both")
    return config


def get_source(config: ClientConfig, *, clock: Clock = SYSTEM_CLOCK, trust_env: bool = True) -> Source:
    """Return the credential source, which clients with the same config share. Raises KubeAuthError."""

    def build_http_factory() -> HttpFactory:
        from kubeauth._transport.oidc_http import HttpxFactory  # other clients do not need it

        return HttpxFactory(trust_env)

    return build_source(config, clock, RECORDER, build_http_factory)


def parse_server(config: ClientConfig, parse_url: Callable[[str], URLLike]) -> URLLike:
    """Return the server's URL as the library's class. ConfigError if it is not valid."""
    server: URLLike | None = None
    with suppress(Exception):  # each library raises its own class, with the URL in its message
        server = parse_url(config.server)
    if server is None or server.scheme not in ("http", "https") or not server.raw_host:
        # There may be a password anywhere in it.
        shown = "" if "@" in config.server else f" {config.server!r}"
        raise ConfigError(f"the server{shown} is not an http(s) URL. It must look like https://host:6443")
    return server
