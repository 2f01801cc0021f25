"""What `Client` sets where httpx would set something else (I10, K51)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from kubeauth import __version__

_ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "ARM64": "arm64"}

_DECIDED_BY = {
    "transport": "is what this client is; to put one below it, use inner=",
    "verify": "follows from the kubeconfig; change the config with dataclasses.replace, or use inner=",
    "cert": "follows from the kubeconfig; change the config with dataclasses.replace",
    "proxy": "follows from the kubeconfig or the environment; use dataclasses.replace(config, proxy_url=...)",
}


def refuse(options: Mapping[str, object]) -> None:
    """TypeError for options of httpx that would take effect beside the kubeconfig, or none at all."""
    for name in options:
        if name in _DECIDED_BY:
            raise TypeError(f"{name}= {_DECIDED_BY[name]}")


def user_agent(library: str) -> str:
    """Who asks, in client-go's form: `kubeauth/0.1.0 (linux/amd64) python-httpx/0.28.1`."""
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    return f"kubeauth/{__version__} ({system}/{_ARCHITECTURES.get(machine, machine.lower())}) {library}"
