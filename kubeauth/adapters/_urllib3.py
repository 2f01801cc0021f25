"""A urllib3.PoolManager that signs what is for the cluster, and rotates."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import urllib3
from urllib3.util import make_headers, parse_url

from kubeauth import errors
from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import find_proxy_problem
from kubeauth._credentials.credential import Credential
from kubeauth._runtime import Clock
from kubeauth._secret import Secret
from kubeauth._transport.sync import LeasedStream, SyncTransport
from kubeauth.adapters._wire import Again, Request, is_short, signed

# What http.client writes headers in.
_WIRE = "latin-1"

_DEFAULT_PORTS = {"http": 80, "https": 443}


class ServerCertificateError(errors.ServerCertificateError, urllib3.exceptions.HTTPError):
    """Both, so that a handler for either catches it."""


class ClientCertificateError(errors.ClientCertificateError, urllib3.exceptions.HTTPError):
    """Both, so that a handler for either catches it."""


class _Body:
    """What is left of a response that the caller will not see."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Any:
        return iter(())

    def close(self) -> None:
        if is_short(self._response.headers.get("content-length")):
            self._response.drain_conn()
        else:
            self._response.close()
        self._response.release_conn()


@dataclass(slots=True)
class Response:
    """A response of urllib3."""

    raw: urllib3.BaseHTTPResponse = field(repr=False)
    url: httpx.URL
    status_code: int
    stream: Any
    is_closed: bool = False
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    extensions: dict[str, Any] = field(default_factory=dict[str, Any])


class Inner:
    """The connections of one certificate and one trust."""

    def __init__(self, manager: urllib3.PoolManager) -> None:
        self._manager = manager

    def handle_request(self, request: Request) -> Response:
        headers = urllib3.HTTPHeaderDict()
        for name, value in request.headers.raw:
            headers.add(name.decode(_WIRE), value.decode(_WIRE))
        raw = self._manager.urlopen(
            request.method, request.address, redirect=False, headers=headers, **request.options
        )
        return Response(raw, request.url, raw.status, _Body(raw))

    def close(self) -> None:
        """Idle connections at once; one that is in use when its response is done, or garbage.

        urllib3 does the latter by itself: what comes back to a pool that is closed is closed. But a pool
        must not be closed before a request has got its connection: until then there is a lease.
        """
        pools = self._manager.pools
        for key in list(pools.keys()):
            pool: Any = pools.get(key)
            if pool is not None:
                pool.close()
        self._manager.clear()


class Transport(SyncTransport[Request, Response]):
    """Signs, rotates and repeats as KubeTransport does, over urllib3."""

    _byte_stream = Again
    _server_cert_error = ServerCertificateError
    _client_cert_error = ClientCertificateError

    def __init__(self, config: ClientConfig, pool_options: dict[str, Any], *, clock: Clock) -> None:
        def make(
            context: ssl.SSLContext, proxy: Secret[str] | None, to_proxy: ssl.SSLContext | None
        ) -> Inner:
            return Inner(_manager(proxy, to_proxy, {**pool_options, "ssl_context": context}))

        super().__init__(config, make, httpx.URL, trust_env=True, drain_timeout=None, clock=clock)

    @property
    def proxy(self) -> Secret[str] | None:
        """The proxy on the way to the cluster."""
        return self._proxy

    def send(self, request: Request) -> urllib3.BaseHTTPResponse:
        """The answer to `request`, signed if it is for the cluster."""
        response = self.handle_request(request)
        if isinstance(lease := response.stream, LeasedStream):
            # It has its connection, and that is enough: see `Inner.close`. The body is the caller's.
            lease.body = None
            lease.close()
        return response.raw

    def credential(self) -> Credential:
        """What a request would be signed with now, for who must send it by other means."""
        return self._source.cached_if_fresh(self._now()) or self._source.get()

    def _body_consumed_error(self) -> Exception:
        return ValueError("the body of this request was sent before, and is gone")

    def _sign(self, request: Request, credential: Credential) -> Request:
        return signed(self._signer, request, credential)

    def _is_stale_connection(self, error: BaseException) -> bool:
        return False  # urllib3 has tried again by itself


class KubePoolManager(urllib3.PoolManager):
    """In the place of a client's own PoolManager. Redirects are urllib3's; each is a request of its own."""

    def __init__(self, transport: Transport) -> None:
        super().__init__()
        self._transport = transport

    def connection_from_host(
        self,
        host: str | None,
        port: int | None = None,
        scheme: str | None = "http",
        pool_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Not the connections, which are the transport's to choose, but the way to them."""
        return _Way(self._transport.send, scheme or "http", host or "", port)

    def clear(self) -> None:
        """Closes everything; the next request opens new connections."""
        self._transport.close()


@dataclass(frozen=True, slots=True)
class _Way:
    """What PoolManager takes for a pool of connections to one host."""

    send: Callable[[Request], urllib3.BaseHTTPResponse] = field(repr=False)
    scheme: str
    host: str
    port: int | None

    def urlopen(self, method: str, url: str, body: object = None, headers: Any = None, **options: Any) -> Any:
        # The first is for pools, which refuse what is for other hosts; the second is done a floor above.
        options.pop("assert_same_host", None)
        options.pop("redirect", None)
        port = "" if self.port is None else f":{self.port}"
        address = f"{self.scheme}://{self.host}{port}{url}"
        request = Request.of(method, address, _raw(headers), body, {**options, "body": body})
        return self.send(request)

    def is_same_host(self, url: str) -> bool:
        """Whether a redirect stays here: else PoolManager drops headers that are for this host alone."""
        if url.startswith("/"):
            return True
        there = parse_url(url)
        return (there.scheme, there.host, _port(there.scheme, there.port)) == (
            self.scheme,
            self.host,
            _port(self.scheme, self.port),
        )


def _port(scheme: str | None, port: int | None) -> int | None:
    return port or _DEFAULT_PORTS.get(scheme or "")


def _raw(headers: Any) -> Iterable[tuple[bytes, bytes]]:
    for name, value in (headers or {}).items():
        as_bytes = value if isinstance(value, bytes) else str(value).encode(_WIRE)
        yield name.encode(_WIRE), as_bytes


def _manager(
    proxy: Secret[str] | None, to_proxy: ssl.SSLContext | None, options: dict[str, Any]
) -> urllib3.PoolManager:
    if proxy is None:
        return urllib3.PoolManager(**options)
    url = proxy.reveal()
    if why := find_proxy_problem(url.replace("socks5h:", "socks5:", 1)):
        raise errors.ConfigError(f"the proxy cannot be used: {why}. Check proxy-url or HTTPS_PROXY.")
    if url.lower().startswith("socks5"):
        if find_spec("socks") is None:
            raise errors.ConfigError(
                "a SOCKS proxy needs the package PySocks. Install it: pip install 'urllib3[socks]'"
            )
        from urllib3.contrib.socks import SOCKSProxyManager

        # As Go: the proxy resolves names, whatever it is called.
        return SOCKSProxyManager(f"socks5h:{url.partition(':')[2]}", **options)
    parts = urlsplit(url)
    headers: dict[str, str] | None = None
    if parts.username or parts.password:
        password = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers = make_headers(proxy_basic_auth=password)
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return urllib3.ProxyManager(url, proxy_headers=headers, proxy_ssl_context=to_proxy, **options)
