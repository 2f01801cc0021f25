# Generated from _client.py by scripts/generate.py: edit that and run `make generate`.
"""All clients and transports for httpx2: `kubeauth.httpx2.Client` is an httpx2.Client, etc.

Needs the extra: `pip install 'kubeauth[httpx2]'`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

try:
    import httpx2
except ImportError as error:
    raise ImportError("kubeauth.httpx2 needs httpx2. Install it: pip install 'kubeauth[httpx2]'") from error

from kubeauth._config.client_config import ClientConfig
from kubeauth._credentials.credential import Status
from kubeauth._runtime import SYSTEM_CLOCK, Clock, ProcessBound
from kubeauth._transport.base import resolve_config
from kubeauth._transport.httpx2 import (
    LIMITS,
    AsyncFactory,
    AsyncKubeTransport,
    KubeAuth,
    KubeTransport,
    SyncFactory,
)
from kubeauth._transport.options import build_user_agent, reject_conflicting_options
from kubeauth._transport.tls import ssl_context

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

    # As in httpx2, which has no public names for them.
    Primitive: TypeAlias = str | int | float | bool | None
    AuthTypes: TypeAlias = (
        tuple[str | bytes, str | bytes] | Callable[[httpx2.Request], httpx2.Request] | httpx2.Auth
    )
    CookieTypes: TypeAlias = httpx2.Cookies | CookieJar | dict[str, str] | list[tuple[str, str]]
    HeaderTypes: TypeAlias = (
        httpx2.Headers
        | Mapping[str, str]
        | Mapping[bytes, bytes]
        | Sequence[tuple[str, str]]
        | Sequence[tuple[bytes, bytes]]
    )
    QueryParamTypes: TypeAlias = (
        httpx2.QueryParams
        | Mapping[str, Primitive | Sequence[Primitive]]
        | list[tuple[str, Primitive]]
        | tuple[tuple[str, Primitive], ...]
        | str
        | bytes
    )
    TimeoutTypes: TypeAlias = (
        float | tuple[float | None, float | None, float | None, float | None] | httpx2.Timeout | None
    )

__all__ = ["AsyncClient", "AsyncKubeTransport", "Client", "KubeAuth", "KubeTransport", "ssl_context"]

# A quiet watch must live: only connecting has a limit.
TIMEOUT = httpx2.Timeout(None, connect=30.0)
USER_AGENT = build_user_agent(f"python-httpx2/{httpx2.__version__}")


class _Options(TypedDict, total=False):
    """What is passed on to httpx2 as it is."""

    auth: AuthTypes | None
    params: QueryParamTypes | None
    headers: HeaderTypes | None
    cookies: CookieTypes | None
    follow_redirects: bool
    max_redirects: int
    event_hooks: Mapping[str, list[Callable[..., Any]]] | None
    default_encoding: str | Callable[[bytes], str | None]


class ClientOptions(_Options, total=False):
    mounts: Mapping[str, httpx2.BaseTransport | None] | None


class AsyncClientOptions(_Options, total=False):
    mounts: Mapping[str, httpx2.AsyncBaseTransport | None] | None


class Client(ProcessBound, httpx2.Client):
    """An httpx2.Client for a Kubernetes cluster: `Client().get("/api/v1/namespaces")`.

    Without a config it loads the one kubectl would use, or that of a `context` by name. Paths are relative
    to the config's server. Trust, credentials and proxy are those of the config; see KubeTransport for what
    happens to them, and for `transport_factory`, `http1`, `http2`, `limits`, `trust_env`, `drain_timeout` and `clock`.

    Only connecting has a `timeout`, of 30 seconds, so that a quiet watch lives. `options` are httpx2's own:
    `auth`, `params`, `headers`, `cookies`, `follow_redirects`, `max_redirects`, `event_hooks`,
    `default_encoding` and `mounts`. Everything else is as httpx2 has it, too.

    Raises ConfigError, TLSError or CredentialError for what is wrong with the config, and TypeError for
    options that would take effect beside it: `verify`, `cert`, `proxy` and `transport`.
    """

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        context: str | None = None,
        base_url: httpx2.URL | str | None = None,
        timeout: TimeoutTypes = TIMEOUT,
        transport_factory: SyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx2.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Unpack[ClientOptions],
    ) -> None:
        reject_conflicting_options(options)
        self._kube_transport = KubeTransport(
            resolve_config(config, context),
            transport_factory=transport_factory,
            http1=http1,
            http2=http2,
            limits=limits,
            trust_env=trust_env,
            drain_timeout=drain_timeout,
            clock=clock,
        )
        config = self._kube_transport.config
        base_url = _base_url(config) if base_url is None else base_url
        super().__init__(
            transport=self._kube_transport, base_url=base_url, timeout=timeout, trust_env=trust_env, **options
        )
        _set_headers(self.headers, options.get("headers"), config)

    def status(self) -> Status:
        """Where the credential comes from, what it is, when it ends, and what went wrong last."""
        return self._kube_transport.status()


class AsyncClient(ProcessBound, httpx2.AsyncClient):
    """As Client, an httpx2.AsyncClient for asyncio and trio: `await client.get("/api/v1/namespaces")`.

    Belongs to the event loop it is first used in; in a child after a fork, to one of the child's own.
    """

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        context: str | None = None,
        base_url: httpx2.URL | str | None = None,
        timeout: TimeoutTypes = TIMEOUT,
        transport_factory: AsyncFactory | None = None,
        http1: bool = True,
        http2: bool = False,
        limits: httpx2.Limits = LIMITS,
        trust_env: bool = True,
        drain_timeout: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Unpack[AsyncClientOptions],
    ) -> None:
        reject_conflicting_options(options)
        self._kube_transport = AsyncKubeTransport(
            resolve_config(config, context),
            transport_factory=transport_factory,
            http1=http1,
            http2=http2,
            limits=limits,
            trust_env=trust_env,
            drain_timeout=drain_timeout,
            clock=clock,
        )
        config = self._kube_transport.config
        base_url = _base_url(config) if base_url is None else base_url
        super().__init__(
            transport=self._kube_transport, base_url=base_url, timeout=timeout, trust_env=trust_env, **options
        )
        _set_headers(self.headers, options.get("headers"), config)

    def status(self) -> Status:
        """Where the credential comes from, what it is, when it ends, and what went wrong last."""
        return self._kube_transport.status()


def _base_url(config: ClientConfig) -> httpx2.URL:
    # A password in the address is sent as a header: here it would be in every line that httpx2 logs.
    return httpx2.URL(config.server).copy_with(userinfo=b"")


def _set_headers(headers: httpx2.Headers, given: HeaderTypes | None, config: ClientConfig) -> None:
    """Our defaults in the place of httpx2's, where the caller gave none."""
    given = httpx2.Headers(given)
    if "User-Agent" not in given:
        headers["User-Agent"] = USER_AGENT
    if config.disable_compression and "Accept-Encoding" not in given:
        del headers["Accept-Encoding"]
