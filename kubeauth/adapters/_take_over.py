"""What the two generated clients for asyncio have in common."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from inspect import iscoroutinefunction
from typing import Any, Self, TypeVar

from kubeauth._config.client_config import ClientConfig
from kubeauth._credentials.credential import Status
from kubeauth._runtime import Clock
from kubeauth._transport.options import build_user_agent
from kubeauth.adapters._aiohttp import KubeSession, Transport
from kubeauth.adapters._header import HeaderSource, fill, keys, proxy_of
from kubeauth.adapters._wire import address_of
from kubeauth.errors import ConfigError

Configuration = TypeVar("Configuration")


class Taken:
    """A client that was taken over."""

    _transport: Transport

    async def __aenter__(self) -> Self:
        return self

    def status(self) -> Status:
        """Where the credential comes from, what it is, when it ends, and what went wrong last."""
        return self._transport.status()


def prepare(
    given: Configuration | None, default: Callable[[], Configuration], config: ClientConfig
) -> Configuration:
    """A Configuration that says where the server is, and nothing else that is kubeauth's to say."""
    # A copy: who has handed it in may use it elsewhere.
    made = deepcopy(given) if given is not None else default()
    configuration: Any = made
    configuration.host = address_of(config.server)
    configuration.proxy = None
    configuration.api_key = {}
    configuration.refresh_api_key_hook = None
    configuration.cert_file = configuration.key_file = None
    configuration.ssl_ca_cert = None
    configuration.tls_server_name = None
    return made


def take_over(api: Any, config: ClientConfig, version: str, clock: Clock) -> Transport:
    """Puts kubeauth's connections in the place of those that `api` has made, none of which is open yet."""
    rest = api.rest_client
    if not hasattr(rest, "pool_manager"):
        raise ConfigError(
            f"{version} has no rest_client.pool_manager, where kubeauth's connections belong. Install a "
            "version that kubeauth was tried with: see docs/adapters.md"
        )
    if rest.pool_manager is not None:
        rest.pool_manager.detach()  # never used: there is nothing to close, and nothing to wait for
    transport = Transport(config, limit=api.configuration.connection_pool_maxsize, clock=clock)
    rest.pool_manager = KubeSession(transport)
    api.user_agent = build_user_agent(version)
    return transport


def fill_async(given: Configuration, config: ClientConfig, adapter: str, clock: Clock) -> Configuration:
    """For a Configuration alone: where the server is, whom to trust, and a token for each request."""
    configuration: Any = given
    if not iscoroutinefunction(configuration.get_api_key_with_prefix):
        raise ConfigError(
            f"this version of {adapter} does not wait for its refresh_api_key_hook. Install 33 or newer, or "
            f"use kubeauth.adapters.{adapter}.api_client."
        )
    source = HeaderSource(config, adapter, clock)
    fill(configuration, config)
    configuration.proxy = proxy_of(config)
    # As Go, which does not ask for all that OpenSSL's strict mode wants.
    configuration.disable_strict_ssl_verification = True

    async def renew(asked: Any) -> None:
        asked.api_key = keys(await source.aget())

    if source.signs:
        configuration.api_key = keys(None)
        configuration.refresh_api_key_hook = renew
    return given
