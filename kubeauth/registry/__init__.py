"""Container registries, with the credentials that a node would use: the kubelet's image credential providers.

    import httpx
    from kubeauth.registry import CredentialProviders, RegistryAuth

    providers = CredentialProviders("/etc/kubernetes/credential-providers.yaml", "/usr/libexec/providers")
    client = httpx.Client(auth=RegistryAuth(providers), follow_redirects=True)

For httpx; `kubeauth.registry.httpx2` has RegistryAuth for httpx2. `kubeauth.registry.plugin` is for authors
of providers. Each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth.registry import httpx2 as httpx2
    from kubeauth.registry import plugin as plugin
    from kubeauth.registry._auth import RegistryAuth as RegistryAuth
    from kubeauth.registry._cluster_accounts import ClusterServiceAccounts as ClusterServiceAccounts
    from kubeauth.registry._keyring import JoinedKeyring as JoinedKeyring
    from kubeauth.registry._keyring import Keyring as Keyring
    from kubeauth.registry._load import load_provider_config as load_provider_config
    from kubeauth.registry._match import image_matches as image_matches
    from kubeauth.registry._node import NodeKeyring as NodeKeyring
    from kubeauth.registry._providers import CredentialProviders as CredentialProviders
    from kubeauth.registry._providers import Lookup as Lookup
    from kubeauth.registry._providers import ProviderAnswer as ProviderAnswer
    from kubeauth.registry._reference import ImageReference as ImageReference
    from kubeauth.registry._service_account import Pod as Pod
    from kubeauth.registry._service_account import ServiceAccount as ServiceAccount
    from kubeauth.registry._values import RegistryCredential as RegistryCredential
    from kubeauth.schemas._credential_provider import CredentialProvider as Provider
    from kubeauth.schemas._credential_provider import CredentialProviderConfig as ProviderConfig
    from kubeauth.schemas._credential_provider import PatternWarning as PatternWarning
    from kubeauth.schemas._credential_provider import TokenAttributes as TokenAttributes

_HOME_OF = {
    "ClusterServiceAccounts": "_cluster_accounts",
    "CredentialProviders": "_providers",
    "ImageReference": "_reference",
    "JoinedKeyring": "_keyring",
    "Keyring": "_keyring",
    "Lookup": "_providers",
    "NodeKeyring": "_node",
    "Pod": "_service_account",
    "ProviderAnswer": "_providers",
    "RegistryAuth": "_auth",
    "RegistryCredential": "_values",
    "ServiceAccount": "_service_account",
    "image_matches": "_match",
    "load_provider_config": "_load",
}
# Names of classes in kubeauth.schemas._credential_provider.
_MODELS = {
    "PatternWarning": "PatternWarning",
    "Provider": "CredentialProvider",
    "ProviderConfig": "CredentialProviderConfig",
    "TokenAttributes": "TokenAttributes",
}

# httpx2 is not among them: it needs a package that may not be there.
__all__ = [
    "ClusterServiceAccounts",
    "CredentialProviders",
    "ImageReference",
    "JoinedKeyring",
    "Keyring",
    "Lookup",
    "NodeKeyring",
    "PatternWarning",
    "Pod",
    "Provider",
    "ProviderAnswer",
    "ProviderConfig",
    "RegistryAuth",
    "RegistryCredential",
    "ServiceAccount",
    "TokenAttributes",
    "image_matches",
    "load_provider_config",
    "plugin",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOME_OF:
        value: object = getattr(import_module(f"kubeauth.registry.{_HOME_OF[name]}"), name)
    elif name in _MODELS:
        value = getattr(import_module("kubeauth.schemas._credential_provider"), _MODELS[name])
    elif name in ("httpx2", "plugin"):
        value = import_module(f"kubeauth.registry.{name}")
    else:
        raise AttributeError(f"module 'kubeauth.registry' has no attribute {name!r}")
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
