"""The official client, `kubernetes`, with kubeauth's credentials.

    from kubernetes import client
    from kubeauth.adapters import kubernetes

    with kubernetes.api_client() as api:
        for namespace in client.CoreV1Api(api).list_namespace().items: ...

Needs the package: `pip install 'kubeauth[kubernetes]'`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self, Unpack

try:
    import kubernetes.client
    from kubernetes.client import Configuration
except ImportError as error:
    raise ImportError(
        "kubeauth.adapters.kubernetes needs kubernetes. Install it: pip install 'kubeauth[kubernetes]'"
    ) from error

from kubeauth._config.client_config import ClientConfig
from kubeauth._credentials.credential import Status
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth._transport.options import build_user_agent
from kubeauth.adapters._ca_file import ca_file
from kubeauth.adapters._given import LoadOptions, given_config
from kubeauth.adapters._header import HeaderSource, fill, keys, proxy_of
from kubeauth.adapters._urllib3 import KubePoolManager, Transport
from kubeauth.adapters._wire import address_of
from kubeauth.errors import ConfigError

__all__ = ["ApiClient", "api_client", "configuration"]

_ADAPTER = "kubernetes"


def api_client(
    config: ClientConfig | None = None,
    *,
    configuration: Configuration | None = None,
    clock: Clock = SYSTEM_CLOCK,
    **load_options: Unpack[LoadOptions],
) -> ApiClient:
    """A kubernetes.client.ApiClient for the cluster of `config`, or of the config that kubectl would use.

    Credentials are renewed and rotated while it runs, as with kubeauth.Client, also under a watch. Of a
    `configuration` of yours the settings for retries, connections and serialisation are kept; server, trust,
    proxy and credentials are those of the config. Close it, or use it in a `with`. `clock` is for tests:
    kubeauth.testing.FakeClock.

    Raises ConfigError, TLSError or CredentialError for what is wrong with the config.
    """
    return ApiClient(given_config(config, **load_options), configuration, clock=clock)


def configuration(
    config: ClientConfig | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    **load_options: Unpack[LoadOptions],
) -> Configuration:
    """A kubernetes.client.Configuration whose token is as fresh as each request needs it.

    For programs that must have a Configuration, as with `Configuration.set_default`. There is no certificate
    rotation and no second try after a 401: prefer `api_client`. Raises ConfigError, naming it, for what a
    Configuration cannot hold; for a plugin that gives a certificate, when the first request is made.
    `clock` is for tests: kubeauth.testing.FakeClock.
    """
    config = given_config(config, **load_options)
    source = HeaderSource(config, _ADAPTER, clock)
    given = Configuration()
    made: Any = given  # its annotations know of no hook
    fill(made, config)
    made.proxy = proxy_of(config)
    made.no_proxy = None

    def renew(asked: Any) -> None:
        asked.api_key = keys(source.get())

    if source.signs:
        made.api_key = keys(None)
        made.refresh_api_key_hook = renew
    return given


class ApiClient(kubernetes.client.ApiClient):
    """What `api_client` makes: a kubernetes.client.ApiClient whose connections are kubeauth's."""

    def __init__(
        self, config: ClientConfig, configuration: Configuration | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._config = config
        # A copy: who has handed it in may use it elsewhere.
        mine: Any = deepcopy(configuration) if configuration is not None else Configuration()
        mine.proxy = None
        mine.no_proxy = None
        mine.api_key = {}
        mine.refresh_api_key_hook = None
        mine.cert_file = mine.key_file = None
        mine.host = address_of(config.server)
        super().__init__(mine)
        if not hasattr(self.rest_client, "pool_manager"):
            raise ConfigError(
                f"kubernetes {kubernetes.__version__} has no rest_client.pool_manager, where kubeauth's "
                "connections belong. Install a version that kubeauth was tried with: see docs/adapters.md"
            )
        self._transport = Transport(config, _pool_options(mine), clock=clock)
        self.rest_client.pool_manager = KubePoolManager(self._transport)
        self.user_agent = build_user_agent(f"kubernetes/{kubernetes.__version__}")

    def __enter__(self) -> Self:
        return self

    def status(self) -> Status:
        """Where the credential comes from, what it is, when it ends, and what went wrong last."""
        return self._transport.status()

    def close(self) -> None:
        """Closes what is idle, and leaves the plugin. A watch that somebody reads goes on to its end."""
        try:
            super().close()  # type: ignore[no-untyped-call]
        finally:
            self._transport.close()  # before version 37 the client closes no connections

    def update_params_for_auth(self, headers: Any, *args: Any, **options: Any) -> None:
        """Requests are signed further down, except those of kubernetes.stream: they do not come there."""
        if "call_api" in vars(self) or "request" in vars(self):
            # stream() has put its own in the place of ours, and makes its connection by the Configuration.
            self._prepare_stream(headers)
        else:
            super().update_params_for_auth(headers, *args, **options)

    def _prepare_stream(self, headers: dict[str, Any]) -> None:
        config, mine = self._config, self.configuration
        credential = self._transport.credential()
        proxy = self._transport.proxy
        if config.impersonate:
            raise ConfigError("kubernetes.stream sends no impersonation headers: you would be somebody else.")
        if credential.client_certificate is not None and credential.authorization is None:
            raise ConfigError(
                "kubernetes.stream takes client certificates from files only, and kubeauth writes no key to "
                "one. Use kubeauth.adapters.kubernetes_asyncio.ws_api_client, or a token."
            )
        if proxy is not None and not proxy.reveal().startswith("http://"):
            raise ConfigError("kubernetes.stream knows http proxies only. See proxy-url and HTTPS_PROXY.")
        mine.ssl_ca_cert = ca_file(config)
        mine.verify_ssl = not config.insecure_skip_tls_verify
        mine.tls_server_name = config.tls_server_name or None
        mine.proxy = None if proxy is None else proxy.reveal()
        if credential.authorization is not None and not _has_authorization(headers):
            headers["authorization"] = credential.authorization


def _has_authorization(headers: dict[str, Any]) -> bool:
    return any(name.lower() == "authorization" for name in headers)


def _pool_options(configuration: Any) -> dict[str, Any]:
    """What of a Configuration is about connections, and not about whom to trust."""
    # Older versions do not know all of them.
    found = {
        "retries": getattr(configuration, "retries", None),
        "maxsize": getattr(configuration, "connection_pool_maxsize", None),
        "socket_options": getattr(configuration, "socket_options", None),
    }
    if found["socket_options"] is None and getattr(configuration, "keep_alive", False):
        from kubernetes.utils.keepalive import tcp_keepalive_socket_options

        found["socket_options"] = tcp_keepalive_socket_options()
    return {name: value for name, value in found.items() if value is not None}
