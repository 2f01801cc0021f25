# Generated from adapters/kubernetes_asyncio.py by scripts/generate.py: edit that and run `make generate`.
"""`kubernetes.aio`, the asyncio client inside the official `kubernetes` package, with kubeauth's credentials.

    from kubernetes.aio import client
    from kubeauth.adapters import kubernetes_aio

    async with kubernetes_aio.api_client() as api:
        for namespace in (await client.CoreV1Api(api).list_namespace()).items: ...

asyncio only. Needs the package: `pip install 'kubeauth[kubernetes]'`.
"""

from __future__ import annotations

from typing import Unpack

try:
    import kubernetes
    from kubernetes.aio import client, stream
    from kubernetes.aio.client import Configuration
except ImportError as error:
    raise ImportError(
        "kubeauth.adapters.kubernetes_aio needs kubernetes 36 or newer, and aiohttp. Install it: "
        "pip install 'kubeauth[kubernetes]'"
    ) from error

from kubeauth._config.client_config import ClientConfig
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.adapters._given import LoadOptions, given_config
from kubeauth.adapters._take_over import Taken, fill_async, prepare, take_over

__all__ = ["ApiClient", "WsApiClient", "api_client", "configuration", "ws_api_client"]

_VERSION = f"kubernetes.aio/{kubernetes.__version__}"


def api_client(
    config: ClientConfig | None = None,
    *,
    configuration: Configuration | None = None,
    clock: Clock = SYSTEM_CLOCK,
    **load_options: Unpack[LoadOptions],
) -> ApiClient:
    """An ApiClient for the cluster of `config`, or of the config that kubectl would use.

    Credentials are renewed and rotated while it runs, as with kubeauth.AsyncClient, also under a watch, and
    a plugin never holds up the event loop. Of a `configuration` of yours the settings for connections and
    serialisation are kept; server, trust, proxy and credentials are those of the config. Call it in the event
    loop, and close it, or use it in an `async with`. `clock` is for tests: kubeauth.testing.FakeClock.

    Raises ConfigError, TLSError or CredentialError for what is wrong with the config.
    """
    return ApiClient(given_config(config, **load_options), configuration, clock=clock)


def ws_api_client(
    config: ClientConfig | None = None,
    *,
    configuration: Configuration | None = None,
    heartbeat: float | None = None,
    clock: Clock = SYSTEM_CLOCK,
    **load_options: Unpack[LoadOptions],
) -> WsApiClient:
    """As `api_client`, a kubernetes.aio.stream.WsApiClient: for exec, attach and port-forward."""
    made = WsApiClient(given_config(config, **load_options), configuration, clock=clock)
    made.heartbeat = heartbeat
    return made


def configuration(
    config: ClientConfig | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    **load_options: Unpack[LoadOptions],
) -> Configuration:
    """A kubernetes.aio.client.Configuration whose token is as fresh as each request needs it.

    For programs that must have a Configuration. There is no certificate rotation and no second try
    after a 401: prefer `api_client`. Raises ConfigError, naming it, for what a Configuration cannot hold; for
    a plugin that gives a certificate, when the first request is made. `clock` is for tests:
    kubeauth.testing.FakeClock.
    """
    config = given_config(config, **load_options)
    return fill_async(Configuration(), config, "kubernetes_aio", clock)


class ApiClient(Taken, client.ApiClient):
    """What `api_client` makes: an ApiClient whose connections are kubeauth's."""

    def __init__(
        self, config: ClientConfig, configuration: Configuration | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(prepare(configuration, Configuration, config))
        self._transport = take_over(self, config, _VERSION, clock)


class WsApiClient(Taken, stream.WsApiClient):
    """What `ws_api_client` makes: a WsApiClient whose connections are kubeauth's."""

    def __init__(
        self, config: ClientConfig, configuration: Configuration | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(prepare(configuration, Configuration, config))
        self._transport = take_over(self, config, _VERSION, clock)
