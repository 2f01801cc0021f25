"""The config that a face was given, or the one that kubectl would use."""

from __future__ import annotations

from kubeauth._config._client_config import ClientConfig
from kubeauth._config._load import load_config


def config_of(config: ClientConfig | None, context: str | None = None) -> ClientConfig:
    """The config given, or loaded: `Client()` and `Client(context="prod")`."""
    if config is None:
        return load_config(context=context)
    if not isinstance(config, ClientConfig):
        raise TypeError("config must be a ClientConfig: load_config(path) makes one of a kubeconfig")
    if context is not None:
        raise TypeError("give Client a config or the name of a context, not both")
    return config
