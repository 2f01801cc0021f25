"""What every adapter is given: a config, or what to load one by."""

from __future__ import annotations

from typing import TypedDict, Unpack

from kubeauth._config.auth_provider import OidcOptions
from kubeauth._config.client_config import ClientConfig
from kubeauth._exec.config import ExecOptions, PluginPolicy
from kubeauth._transport.base import resolve_config


class LoadOptions(TypedDict, total=False):
    """What `load_config` takes."""

    context: str | None
    cluster: str | None
    user: str | None
    namespace: str | None
    plugin_policy: PluginPolicy | None
    exec_options: ExecOptions | None
    oidc_options: OidcOptions | None


def given_config(config: ClientConfig | None, **options: Unpack[LoadOptions]) -> ClientConfig:
    """The config given, or the one that kubectl would use, chosen by `options`. TypeError for both."""
    if config is None:
        from kubeauth._config.loader import load_config  # imports pydantic

        return load_config(**options)
    if options:
        raise TypeError(f"{', '.join(options)}: give a config or what to load one by, not both")
    return resolve_config(config)
