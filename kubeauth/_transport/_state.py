"""What both colours of KubeTransport hold, and every decision they share."""

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
from kubeauth._config._client_config import ClientConfig
from kubeauth._config._proxy import choose_proxy
from kubeauth._config._server import without_password
from kubeauth._credentials.credential import Credential, Status
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._http import parse_content_length
from kubeauth._runtime import Clock, ProcessBound, call_after_fork
from kubeauth._secret import Secret
from kubeauth._transport._given import config_of
from kubeauth._transport._leases import Ledger, Pool
from kubeauth._transport._logs import keep_secrets_out_of_logs
from kubeauth._transport._shapes import RequestLike, ResponseLike, URLLike
from kubeauth._transport._sign import SIGNED_BY_AUTH, Signer
from kubeauth._transport._source import source_of
from kubeauth._transport._tls import Trust, cluster_context, handshakes, proxy_context, public_context
from kubeauth._transport._trust import trust_source
from kubeauth._transport._words import masked
from kubeauth.errors import ConfigError, KubeAuthError, TLSError

logger = logging.getLogger("kubeauth.transport")

Inner = TypeVar("Inner")

# What makes an inner transport: from the context for TLS, the proxy's URL, and the context for TLS to it.
Make = Callable[[ssl.SSLContext, Secret[str] | None, ssl.SSLContext | None], Inner]

_REBUILD_AFTER = 1.0
# What of a 401 is read before the request is repeated; with more, its connection is not worth it.
_SHORT = 65536


class TransportState(ProcessBound, ABC, Generic[Inner]):
    """Credential, trust, connections. Everything that can be wrong without a server raises here."""

    _byte_stream: ClassVar[type]
    """The library's class of bodies that can be sent again."""

    def __init__(
        self,
        config: ClientConfig | None,
        make: Make[Inner],
        url: Callable[[str], URLLike],
        *,
        trust_env: bool,
        drain_timeout: float | None,
        clock: Clock,
    ) -> None:
        self._config = config = config_of(config)
        keep_secrets_out_of_logs()
        self._make = make
        self._environ: Mapping[str, str] = os.environ if trust_env else {}
        self._now = clock.monotonic
        self._signer = Signer(server_url_of(config, url), config.impersonate)
        self._source = source_of(config, clock=clock, trust_env=trust_env)
        # Only a plugin or an issuer can be asked for another credential when the server refuses one (K64).
        self._plugin = self._source if isinstance(self._source, RefreshableSource) else None
        self._trust = trust_source(config, clock)
        self._proxy = self._proxy_for(config.server)
        self._not_built: KubeAuthError | None = None
        self._build_again_at = 0.0
        self._ledger = Ledger(self._built(self._source.current, self._trust.current), drain_timeout)
        self._elsewhere: dict[Secret[str] | None, Inner] = {}
        self._gate = self._new_gate()
        self._closings = 0
        if self._plugin is not None:
            self._plugin.acquire(self)
        call_after_fork(self)

    def status(self) -> Status:
        """Where the credential comes from, what it is, when it ends, and what went wrong last."""
        return self._source.status(self._trust.polled.error or self._not_built)

    @abstractmethod
    def _consumed(self) -> Exception:
        """The library's error for a body that is gone."""

    @abstractmethod
    def _new_gate(self) -> object:
        """The lock that guards making pools, and nothing else."""

    def _check(self, request: RequestLike) -> None:
        """Before anything is sent: that nobody else has signed it, and that its body is still there."""
        if is_body_consumed(request.stream):  # as when a redirect is followed
            raise self._consumed()
        if SIGNED_BY_AUTH in request.extensions:
            raise ConfigError(
                "this client has both KubeAuth and KubeTransport. KubeTransport does all that KubeAuth does: "
                "remove auth=KubeAuth(...)."
            )

    def _check_open_since(self, closings: int) -> None:
        """RuntimeError if it was closed while a plugin ran: who is late gets no connections to leave open."""
        if closings != self._closings:
            raise RuntimeError("the client was closed while this request was on its way")

    def _built(self, credential: Credential, trust: Trust) -> Pool[Inner]:
        """New connections for these two, none of them open yet. Reads no file; takes a millisecond."""
        context = cluster_context(self._config, trust, credential.client_certificate)
        return Pool(self._inner(context, self._proxy, trust), credential.client_certificate, trust)

    def _built_or_kept(self, credential: Credential, trust: Trust) -> Pool[Inner]:
        """As `_built`; the pool there is if that fails and there is one, and no other try for a second."""
        current = self._ledger.current
        now = self._now()
        if current.trust is not None and now < self._build_again_at:
            return current
        try:
            pool = self._built(credential, trust)
        except Exception as error:  # a factory of the caller's may raise anything
            if current.trust is None:
                raise
            logger.warning("new connections cannot be made, the old ones stay in use: %s", error)
            self._not_built = error if isinstance(error, KubeAuthError) else TLSError(str(error))
            self._build_again_at = now + _REBUILD_AFTER
            return current
        self._not_built = None
        return pool

    def _inner(self, context: ssl.SSLContext, proxy: Secret[str] | None, trust: Trust) -> Inner:
        to_proxy = None
        if proxy is not None and proxy.reveal().lower().startswith("https:"):
            to_proxy = proxy_context(self._config, trust)
        return self._make(context, proxy, to_proxy)

    def _proxy_for(self, url: str) -> Secret[str] | None:
        """The proxy on the way to `url`. A secret: its address may hold a password."""
        if url.startswith("ws"):  # wss is https to a proxy
            url = f"http{url[2:]}"
        proxy = choose_proxy(url, proxy_url=self._config.proxy_url, environ=self._environ)
        return None if proxy is None else Secret(proxy)

    def _inner_elsewhere(self, proxy: Secret[str] | None) -> Inner:
        return self._inner(public_context(), proxy, self._trust.current)

    def _where(self, elsewhere: RequestLike | None) -> tuple[str, str | None]:
        """The server of a request and the proxy on the way to it, for an error."""
        if elsewhere is None:
            server, proxy = self._config.server, self._proxy
        else:
            server, proxy = str(elsewhere.url), self._proxy_for(str(elsewhere.url))
        parts = urlsplit(without_password(server))
        return f"{parts.scheme}://{parts.netloc}", without_password(proxy.reveal()) if proxy else None

    def _worth_another_try(self, request: RequestLike, pool: Pool[Inner], handshakes_before: int) -> bool:
        """Whether a request that met a dead connection may go once more.

        It must change nothing: exec and port-forward are GETs too, with an upgrade. Its body must still be
        there. And the connection must have been an old one: if a new one dies, something else is wrong.
        """
        return (
            request.method in ("GET", "HEAD")
            and "upgrade" not in request.headers
            and request.url.scheme in ("http", "https")
            and isinstance(request.stream, self._byte_stream)
            and self._ledger.current.is_open  # else the client was closed
            and pool.answered
            and handshakes() == handshakes_before
        )

    def _is_short(self, response: ResponseLike) -> bool:
        lengths = [value for name, value in response.headers.raw if name.lower() == b"content-length"]
        length = parse_content_length(lengths[0]) if len(lengths) == 1 else None
        return length is not None and length <= _SHORT

    def _worth_a_replay(self, request: RequestLike, refused: Credential, newer: Credential) -> bool:
        """Whether a request that met a 401 may go once more: it can be, and says something else."""
        return isinstance(request.stream, self._byte_stream) and newer != refused

    def _log(self, request: RequestLike) -> None:
        url = without_password(str(request.url))
        logger.debug("%s %s %s", request.method, url, masked(request.headers.multi_items()))

    def after_fork(self) -> None:
        """In a child: its connections are the parent's, which goes on using them."""
        # Dropped, not closed: a lock inside may be held by a thread that is not there.
        self._ledger.forget()
        self._elsewhere.clear()
        self._gate = self._new_gate()


def server_url_of(config: ClientConfig, url: Callable[[str], URLLike]) -> URLLike:
    """The server's address in the library's terms. ConfigError if it is none."""
    server: URLLike | None = None
    with suppress(Exception):  # each library has its own class for it, with the address in its words
        server = url(config.server)
    if server is None or server.scheme not in ("http", "https") or not server.raw_host:
        # There may be a password in it, and anywhere in it.
        shown = "" if "@" in config.server else f" {config.server!r}"
        raise ConfigError(f"the server{shown} is not an http(s) URL. It must look like https://host:6443")
    return server
