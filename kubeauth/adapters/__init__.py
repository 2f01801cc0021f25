"""Other people's Kubernetes clients, with kubeauth's credentials: renewed ahead, rotated, one run for all.

    from kubeauth.adapters import kubernetes

    with kubernetes.api_client() as api: ...      # a kubernetes.client.ApiClient

Each module below needs the client it is named after, and is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth.adapters import httpx2_k8s as httpx2_k8s
    from kubeauth.adapters import kr8s as kr8s
    from kubeauth.adapters import kubernetes as kubernetes
    from kubeauth.adapters import kubernetes_aio as kubernetes_aio
    from kubeauth.adapters import kubernetes_asyncio as kubernetes_asyncio
    from kubeauth.adapters import lightkube as lightkube

_MODULES = ("httpx2_k8s", "kr8s", "kubernetes", "kubernetes_aio", "kubernetes_asyncio", "lightkube")

# Not these modules: each needs a package that may not be there.
__all__: list[str] = []


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'kubeauth.adapters' has no attribute {name!r}")
    return import_module(f"kubeauth.adapters.{name}")  # which sets the attribute: asked for once


def __dir__() -> list[str]:
    return sorted(_MODULES)
