"""Kubernetes authentication for Python: httpx clients with the same credentials as kubectl and client-go.

    import kubeauth

    config = kubeauth.load_config()     # the configuration that kubectl would use
    print(config.server, config.namespace)

Importing this module is cheap: each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth import adapters as adapters
    from kubeauth import discovery as discovery
    from kubeauth import errors
    from kubeauth import fleet as fleet
    from kubeauth import gmsa as gmsa
    from kubeauth import httpx2 as httpx2
    from kubeauth import metrics as metrics
    from kubeauth import plugin as plugin
    from kubeauth import registry as registry
    from kubeauth import schemas as schemas
    from kubeauth import testing as testing
    from kubeauth import transports as transports
    from kubeauth._client import AsyncClient as AsyncClient
    from kubeauth._client import Client as Client
    from kubeauth._config.auth_provider import OidcConfig as OidcConfig
    from kubeauth._config.auth_provider import OidcOptions as OidcOptions
    from kubeauth._config.client_config import ClientConfig as ClientConfig
    from kubeauth._config.client_config import Impersonation as Impersonation
    from kubeauth._config.in_cluster import in_cluster_config as in_cluster_config
    from kubeauth._config.loader import load_config as load_config
    from kubeauth._credentials.credential import Status as Status
    from kubeauth._exec.config import ExecConfig as ExecConfig
    from kubeauth._exec.config import ExecOptions as ExecOptions
    from kubeauth._exec.config import PluginPolicy as PluginPolicy
    from kubeauth._secret import Secret as Secret
    from kubeauth._transport.httpx import AsyncKubeTransport as AsyncKubeTransport
    from kubeauth._transport.httpx import KubeAuth as KubeAuth
    from kubeauth._transport.httpx import KubeTransport as KubeTransport
    from kubeauth._transport.tls import ssl_context as ssl_context

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncKubeTransport",
    "Client",
    "ClientConfig",
    "ExecConfig",
    "ExecOptions",
    "Impersonation",
    "KubeAuth",
    "KubeTransport",
    "OidcConfig",
    "OidcOptions",
    "PluginPolicy",
    "Secret",
    "Status",
    "__version__",
    "adapters",
    "discovery",
    "errors",
    "fleet",
    "gmsa",
    "in_cluster_config",
    "load_config",
    "metrics",
    "plugin",
    "registry",
    "schemas",
    "ssl_context",
    "transports",
]

# Public names, and the modules that define them.
_EXPORTS = {
    "AsyncClient": "kubeauth._client",
    "AsyncKubeTransport": "kubeauth._transport.httpx",
    "Client": "kubeauth._client",
    "ClientConfig": "kubeauth._config.client_config",
    "ExecConfig": "kubeauth._exec.config",
    "ExecOptions": "kubeauth._exec.config",
    "Impersonation": "kubeauth._config.client_config",
    "KubeAuth": "kubeauth._transport.httpx",
    "KubeTransport": "kubeauth._transport.httpx",
    "OidcConfig": "kubeauth._config.auth_provider",
    "OidcOptions": "kubeauth._config.auth_provider",
    "PluginPolicy": "kubeauth._exec.config",
    "Secret": "kubeauth._secret",
    "Status": "kubeauth._credentials.credential",
    "in_cluster_config": "kubeauth._config.in_cluster",
    "load_config": "kubeauth._config.loader",
    "ssl_context": "kubeauth._transport.tls",
}
# Two of them are not in __all__: httpx2 needs a package that may not be installed, and testing is for tests.
_MODULES = (
    "adapters",
    "discovery",
    "errors",
    "fleet",
    "gmsa",
    "httpx2",
    "transports",
    "metrics",
    "plugin",
    "registry",
    "schemas",
    "testing",
)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), name)
    elif name in _MODULES:
        value = import_module(f"kubeauth.{name}")
    else:
        raise AttributeError(f"module 'kubeauth' has no attribute {name!r}")
    globals()[name] = value  # the next lookup does not call __getattr__
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
