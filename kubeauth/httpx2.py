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

    # httpx2 has no public names for these.
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

# A watch may be quiet for hours: only connecting has a limit.
TIMEOUT = httpx2.Timeout(None, connect=30.0)
USER_AGENT = build_user_agent(f"python-httpx2/{httpx2.__version__}")


class _Options(TypedDict, total=False):
    """Passed on to httpx2 unchanged."""

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

    Without a config it loads the one kubectl would use, or that of a `context`. Paths are relative to the
    config's server. CA, credentials and proxy are those of the config. See KubeTransport for how they are
    used, and for `transport_factory`, `http1`, `http2`, `limits`, `trust_env`, `drain_timeout` and `clock`.

    `timeout` is 30 seconds for connecting and unlimited for everything else, so that a watch may be quiet.
    `options` are httpx2's own: `auth`, `params`, `headers`, `cookies`, `follow_redirects`, `max_redirects`,
    `event_hooks`, `default_encoding` and `mounts`. Everything else is as in httpx2, too.

    Raises ConfigError, TLSError or CredentialError if the config is not valid, and TypeError for options
    that contradict it: `verify`, `cert`, `proxy` and `transport`.
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
        """Return the credential's source, kind and expiry, and the last error."""
        return self._kube_transport.status()


class AsyncClient(ProcessBound, httpx2.AsyncClient):
    """As Client, an httpx2.AsyncClient for asyncio and trio: `await client.get("/api/v1/namespaces")`.

    Belongs to the event loop in which it is first used; in a forked child, to a loop of the child.
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
        """Return the credential's source, kind and expiry, and the last error."""
        return self._kube_transport.status()


def _base_url(config: ClientConfig) -> httpx2.URL:
    # httpx2 sends a password in the URL as a header, and would log it with every request.
    return httpx2.URL(config.server).copy_with(userinfo=b"")


def _set_headers(headers: httpx2.Headers, caller_headers: HeaderTypes | None, config: ClientConfig) -> None:
    """Replace httpx2's defaults by ours, unless the caller has set the header."""
    caller_headers = httpx2.Headers(caller_headers)
    if "User-Agent" not in caller_headers:
        headers["User-Agent"] = USER_AGENT
    if config.disable_compression and "Accept-Encoding" not in caller_headers:
        del headers["Accept-Encoding"]
