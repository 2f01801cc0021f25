"""Joining a cluster that is not trusted yet, by a bootstrap token, as kubeadm does; and the cluster's part.

    from kubeauth.discovery import discover

    found = discover("192.0.2.10:6443", token="abcdef.0123456789abcdef", ca_cert_hashes=["sha256:..."])
    found.save("/etc/kubernetes/bootstrap-kubelet.conf")

Each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth.discovery._authenticator import BootstrapUser as BootstrapUser
    from kubeauth.discovery._authenticator import TokenAuthenticator as TokenAuthenticator
    from kubeauth.discovery._cluster_secrets import ClusterSecrets as ClusterSecrets
    from kubeauth.discovery._controller import Signer as Signer
    from kubeauth.discovery._discover import adiscover as adiscover
    from kubeauth.discovery._discover import discover as discover
    from kubeauth.discovery._filter import DiscoveryFilter as DiscoveryFilter
    from kubeauth.discovery._jws import sign_detached as sign_detached
    from kubeauth.discovery._jws import verify_detached as verify_detached
    from kubeauth.discovery._new import NewToken as NewToken
    from kubeauth.discovery._new import new_token as new_token
    from kubeauth.discovery._pins import Pins as Pins
    from kubeauth.discovery._pins import public_key_pin as public_key_pin
    from kubeauth.discovery._progress import Progress as Progress
    from kubeauth.discovery._result import Discovered as Discovered
    from kubeauth.discovery._secrets import TokenInfo as TokenInfo
    from kubeauth.discovery._secrets import tokens_of as tokens_of
    from kubeauth.discovery._signer import sign_cluster_info as sign_cluster_info
    from kubeauth.discovery._token import BootstrapToken as BootstrapToken

_HOME_OF = {
    "BootstrapToken": "_token",
    "BootstrapUser": "_authenticator",
    "ClusterSecrets": "_cluster_secrets",
    "Discovered": "_result",
    "DiscoveryFilter": "_filter",
    "NewToken": "_new",
    "Pins": "_pins",
    "Progress": "_progress",
    "Signer": "_controller",
    "TokenAuthenticator": "_authenticator",
    "TokenInfo": "_secrets",
    "adiscover": "_discover",
    "discover": "_discover",
    "new_token": "_new",
    "public_key_pin": "_pins",
    "sign_cluster_info": "_signer",
    "sign_detached": "_jws",
    "tokens_of": "_secrets",
    "verify_detached": "_jws",
}

__all__ = [
    "BootstrapToken",
    "BootstrapUser",
    "ClusterSecrets",
    "Discovered",
    "DiscoveryFilter",
    "NewToken",
    "Pins",
    "Progress",
    "Signer",
    "TokenAuthenticator",
    "TokenInfo",
    "adiscover",
    "discover",
    "new_token",
    "public_key_pin",
    "sign_cluster_info",
    "sign_detached",
    "tokens_of",
    "verify_detached",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module 'kubeauth.discovery' has no attribute {name!r}")
    value: object = getattr(import_module(f"kubeauth.discovery.{_HOME_OF[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
