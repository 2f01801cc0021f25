"""Faster transports: `kubeauth.Client(transport_factory=kubeauth.transports.DirectTransport)`.

These are for httpx; `kubeauth.transports.httpx2` has the same names for httpx2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth.transports import httpx2 as httpx2
    from kubeauth.transports._httpx import AsyncDirectTransport as AsyncDirectTransport
    from kubeauth.transports._httpx import DirectTransport as DirectTransport

# httpx2 is left out: `import *` must work where that package is not installed.
__all__ = ["AsyncDirectTransport", "DirectTransport"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "httpx2":
        return import_module("kubeauth.transports.httpx2")
    if name not in __all__:
        raise AttributeError(f"module 'kubeauth.transports' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("kubeauth.transports._httpx"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
