"""Which source a config's credential comes from."""

from __future__ import annotations

from urllib.parse import urlsplit

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials._asked_source import AskedSource
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._shared import Fetching, oidc_source, plugin_source
from kubeauth._credentials._static import StaticSource
from kubeauth._exec._codec import API_VERSIONS
from kubeauth._exec._observer import Observer
from kubeauth._exec._values import ExecConfig
from kubeauth.errors import ConfigError

Source = StaticSource | AskedSource


def source_for(config: ClientConfig, clock: Clock, observer: Observer, fetching: Fetching) -> Source:
    """The source of `config`'s credential. A static credential wins, and nobody is ever asked (I1, O10)."""
    if config.exec is not None and config.oidc is not None:
        raise ConfigError(
            "execProvider and authProvider cannot be used in combination. Remove one of the two."
        )
    if config.exec is not None:
        _check_exec(config.exec)
        if not (_has_header(config) or _has_certificate(config)):
            return plugin_source(config, config.exec, clock, observer)
    # A client certificate goes along with an id-token, but never with a plugin's.
    if config.oidc is not None and not _has_header(config):
        return oidc_source(config, config.oidc, clock, observer, fetching)
    return StaticSource(config, clock)


def _check_exec(plugin: ExecConfig) -> None:
    """Refused even where the plugin would not be run, as client-go does (X1)."""
    if plugin.api_version not in API_VERSIONS:
        raise ConfigError(
            f'exec plugin: invalid apiVersion "{plugin.api_version}". Use {API_VERSIONS[0]}, which the '
            "plugin must know too."
        )


def _has_certificate(config: ClientConfig) -> bool:
    """A certificate without its key does not count (I1)."""
    return bool(
        (config.client_cert_data or config.client_cert_file)
        and (config.client_key_data or config.client_key_file)
    )


def _has_header(config: ClientConfig) -> bool:
    """A password without a name does not count (I1)."""
    server = urlsplit(config.server)
    # A password in the URL is there before any plugin is asked, as in Go.
    return bool(config.token or config.token_file or config.username or server.username or server.password)
