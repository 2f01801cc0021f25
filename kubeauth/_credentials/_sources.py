"""Which source a config's credential comes from."""

from __future__ import annotations

from urllib.parse import urlsplit

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._oidc import OidcConfig
from kubeauth._credentials._asked_source import AskedSource
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._shared import Fetching, oidc_source, plugin_source
from kubeauth._credentials._static import StaticSource
from kubeauth._exec.codec import API_VERSIONS
from kubeauth._exec.config import ExecConfig
from kubeauth._observer import Observer
from kubeauth.errors import ConfigError

Source = StaticSource | AskedSource


def source_for(config: ClientConfig, clock: Clock, observer: Observer, fetching: Fetching) -> Source:
    """The source of `config`'s credential. A static credential wins, and nobody is ever asked (I1, O10)."""
    if config.exec is not None and config.oidc is not None:
        raise ConfigError(
            "execProvider and authProvider cannot be used in combination. Remove one of the two."
        )
    if config.exec is not None:
        check_exec(config.exec)
    asked = who_is_asked(config)
    if isinstance(asked, ExecConfig):
        return plugin_source(config, asked, clock, observer)
    if asked is not None:
        return oidc_source(config, asked, clock, observer, fetching)
    return StaticSource(config, clock)


def who_is_asked(config: ClientConfig) -> ExecConfig | OidcConfig | None:
    """Whoever gives the credential of `config`; None if it has one, or none at all."""
    if config.exec is not None and not (_has_header(config) or _has_certificate(config)):
        return config.exec
    # A client certificate goes along with an id-token, but never with a plugin's.
    return None if _has_header(config) else config.oidc


def check_exec(plugin: ExecConfig) -> None:
    """ConfigError for a version that nobody speaks: even if the plugin is not run, as client-go (X1)."""
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
