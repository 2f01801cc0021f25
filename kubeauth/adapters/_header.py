"""Header credentials for a client's own Configuration: what it can hold, and what it cannot."""

from __future__ import annotations

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import choose_proxy
from kubeauth._credentials.credential import Credential
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth._runtime import Clock
from kubeauth._transport.base import get_source
from kubeauth._transport.redaction import redact_library_logs
from kubeauth.adapters._ca_file import ca_file
from kubeauth.adapters._wire import address_of
from kubeauth.errors import ConfigError

# The names of the scheme, of these versions and of older ones: a hook is only called if one is there.
_KEYS = ("BearerToken", "authorization")


class HeaderSource:
    """The Authorization header of `config`, for as long as somebody's hook holds this."""

    def __init__(self, config: ClientConfig, adapter: str, clock: Clock) -> None:
        self._adapter = adapter
        self._now = clock.monotonic
        if config.impersonate:
            raise ConfigError(f"a Configuration cannot hold impersonation. {self._instead}")
        if config.client_cert_data or config.client_key_data:
            raise ConfigError(
                "the client certificate is in the kubeconfig itself, and a Configuration only takes files: "
                f"its key would have to be written to one. {self._instead}"
            )
        redact_library_logs()
        self._source = get_source(config, clock=clock)
        self._is_plugin = config.exec is not None and isinstance(self._source, RefreshableSource)
        if isinstance(self._source, RefreshableSource):
            self._source.acquire(self)

    @property
    def _instead(self) -> str:
        return f"Use kubeauth.adapters.{self._adapter}.api_client."

    @property
    def signs(self) -> bool:
        """Whether there is a header at all: a certificate in files is shown by the client itself."""
        return isinstance(self._source, RefreshableSource) or self._source.current.authorization is not None

    def get(self) -> str | None:
        """The header as it must be now. Runs the plugin if need be, and raises what becomes of that."""
        return self._checked(self._source.cached_if_fresh(self._now()) or self._source.get())

    async def aget(self) -> str | None:
        """As `get`, without holding up the event loop."""
        return self._checked(self._source.cached_if_fresh(self._now()) or await self._source.aget())

    def _checked(self, credential: Credential) -> str | None:
        # One beside an id-token is in files, which the Configuration has.
        if self._is_plugin and credential.client_certificate is not None:
            raise ConfigError(
                "the plugin gave a client certificate, and a Configuration only takes files, once. "
                f"{self._instead}"
            )
        return credential.authorization


def keys(header: str | None) -> dict[str, str]:
    """What goes into `Configuration.api_key`. Never empty: else the hook would not be called."""
    return dict.fromkeys(_KEYS, header or "")


def fill(configuration: object, config: ClientConfig) -> None:
    """Where the server is and whom to trust. Attributes that all versions have, and both colours."""
    values = {
        "host": address_of(config.server),
        "ssl_ca_cert": ca_file(config),
        "verify_ssl": not config.insecure_skip_tls_verify,
        "tls_server_name": config.tls_server_name or None,
        "cert_file": config.client_cert_file,
        "key_file": config.client_key_file,
    }
    for name, value in values.items():
        setattr(configuration, name, value)


def proxy_of(config: ClientConfig) -> str | None:
    """The proxy on the way to the cluster, by Go's rules."""
    import os

    return choose_proxy(config.server, proxy_url=config.proxy_url, environ=os.environ)
