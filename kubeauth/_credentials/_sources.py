"""Which source a config's credential comes from."""

from __future__ import annotations

from urllib.parse import urlsplit

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials._asked_source import AskedSource
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._shared import SHARED
from kubeauth._credentials._static import StaticSource
from kubeauth._exec._codec import API_VERSIONS
from kubeauth._exec._observer import Observer
from kubeauth._exec._values import ExecConfig
from kubeauth.errors import ConfigError

Source = StaticSource | AskedSource


def source_for(config: ClientConfig, clock: Clock, observer: Observer) -> Source:
    """The source of `config`'s credential. A static credential wins, and no plugin is ever run (I1)."""
    if config.exec is not None:
        _check_exec(config.exec)
        if not _has_static(config):
            return SHARED.source(config, config.exec, clock, observer)
    return StaticSource(config, clock)


def _check_exec(plugin: ExecConfig) -> None:
    """Refused even where the plugin would not be run, as client-go does (X1)."""
    if plugin.api_version not in API_VERSIONS:
        raise ConfigError(
            f'exec plugin: invalid apiVersion "{plugin.api_version}". Use {API_VERSIONS[0]}, which the '
            "plugin must know too."
        )


def _has_static(config: ClientConfig) -> bool:
    """A password without a name, or a certificate without its key, does not count (I1)."""
    has_certificate = (config.client_cert_data or config.client_cert_file) and (
        config.client_key_data or config.client_key_file
    )
    server = urlsplit(config.server)
    # A password in the URL is there before any plugin is asked, as in Go.
    return bool(
        config.token
        or config.token_file
        or config.username
        or has_certificate
        or server.username
        or server.password
    )
