"""Options of clients and transports: what is rejected or required, and the User-Agent (I10, K51)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from kubeauth import __version__
from kubeauth._config.urls import find_proxy_problem
from kubeauth._secret import Secret
from kubeauth.errors import ConfigError

_ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "ARM64": "arm64"}

_CONFLICTING_OPTIONS = {
    "transport": "cannot be set: this client has its own; use transport_factory= for the underlying one",
    "verify": "is set by the kubeconfig; use dataclasses.replace(config, ...), or transport_factory=",
    "cert": "is set by the kubeconfig; use dataclasses.replace(config, ...)",
    "proxy": "is set by the kubeconfig or the environment; use dataclasses.replace(config, proxy_url=...)",
}


def reject_conflicting_options(options: Mapping[str, object]) -> None:
    """TypeError for options of httpx that contradict the kubeconfig, or would have no effect."""
    for name in options:
        if name in _CONFLICTING_OPTIONS:
            raise TypeError(f"{name}= {_CONFLICTING_OPTIONS[name]}")


def build_user_agent(library: str) -> str:
    """Return a User-Agent in client-go's form: `kubeauth/0.1.0 (linux/amd64) python-httpx/0.28.1`."""
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    return f"kubeauth/{__version__} ({system}/{_ARCHITECTURES.get(machine, machine.lower())}) {library}"


def require_http2(http2: bool) -> None:
    """ConfigError if HTTP/2 is requested and its package is not installed."""
    if http2 and find_spec("h2") is None:
        raise ConfigError("http2=True needs the package h2. Install it: pip install 'kubeauth[http2]'")


def require_proxy(proxy: Secret[str]) -> None:
    """ConfigError if the proxy's URL is not valid, or its package is not installed."""
    # The URL may contain a password.
    shown = "" if "@" in proxy.reveal() else f" {proxy.reveal()}"
    problem = find_proxy_problem(proxy.reveal().replace("socks5h:", "socks5:", 1))
    if problem is not None:
        raise ConfigError(f"the proxy{shown} cannot be used: {problem}. Check proxy-url or HTTPS_PROXY.")
    if proxy.reveal().lower().startswith("socks5") and find_spec("socksio") is None:
        raise ConfigError(
            f"the proxy{shown} needs the package socksio. Install it: pip install 'kubeauth[socks]'"
        )
