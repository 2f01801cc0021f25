"""Which source a config's credential comes from."""

from __future__ import annotations

from kubeauth._config._client_config import ClientConfig
from kubeauth._credentials._clock import Clock
from kubeauth._credentials._static import StaticSource
from kubeauth._exec._values import ExecConfig
from kubeauth.errors import ConfigError

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


def source_for(config: ClientConfig, clock: Clock) -> StaticSource:
    """The source of `config`'s credential. A static credential wins, and no plugin is ever run (I1)."""
    if config.exec is not None:
        _check_exec(config.exec)
        if not _has_static(config):
            raise ConfigError(
                f"this user needs the plugin {config.exec.command!r}, and this version of kubeauth cannot "
                "run plugins yet. Use a token, a token file, a password or a client certificate."
            )
    return StaticSource(config, clock)


def _check_exec(plugin: ExecConfig) -> None:
    """Refused even where the plugin would not be run, as client-go does (X1)."""
    if plugin.api_version not in _API_VERSIONS:
        raise ConfigError(
            f'exec plugin: invalid apiVersion "{plugin.api_version}". Use {_API_VERSIONS[0]}, which the '
            "plugin must know too."
        )


def _has_static(config: ClientConfig) -> bool:
    """A password without a name, or a certificate without its key, does not count (I1)."""
    has_certificate = (config.client_cert_data or config.client_cert_file) and (
        config.client_key_data or config.client_key_file
    )
    return bool(config.token or config.token_file or config.username or has_certificate)
