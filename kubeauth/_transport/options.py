"""What `Client` sets where httpx would set something else (I10, K51)."""

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
    "transport": "is what this client is; to put one below it, use transport=",
    "verify": "follows from the kubeconfig; change the config with dataclasses.replace, or use transport=",
    "cert": "follows from the kubeconfig; change the config with dataclasses.replace",
    "proxy": "follows from the kubeconfig or the environment; use dataclasses.replace(config, proxy_url=...)",
}


def reject_conflicting_options(options: Mapping[str, object]) -> None:
    """TypeError for options of httpx that would take effect beside the kubeconfig, or none at all."""
    for name in options:
        if name in _CONFLICTING_OPTIONS:
            raise TypeError(f"{name}= {_CONFLICTING_OPTIONS[name]}")


def build_user_agent(library: str) -> str:
    """Who asks, in client-go's form: `kubeauth/0.1.0 (linux/amd64) python-httpx/0.28.1`."""
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    return f"kubeauth/{__version__} ({system}/{_ARCHITECTURES.get(machine, machine.lower())}) {library}"


def require_http2(wanted: bool) -> None:
    """ConfigError if HTTP/2 is wanted and cannot be had."""
    if wanted and find_spec("h2") is None:
        raise ConfigError("http2=True needs the package h2. Install it: pip install 'kubeauth[http2]'")


def require_proxy(proxy: Secret[str]) -> None:
    """ConfigError if a proxy is one that cannot be used. Its address may hold a password."""
    why = find_proxy_problem(proxy.reveal().replace("socks5h:", "socks5:", 1))
    if why is not None:
        raise ConfigError(
            f"the proxy{_redact_proxy(proxy)} cannot be used: {why}. Check proxy-url or HTTPS_PROXY."
        )
    if proxy.reveal().lower().startswith("socks5") and find_spec("socksio") is None:
        raise ConfigError(
            f"the proxy{_redact_proxy(proxy)} needs the package socksio. Install it: pip install 'kubeauth[socks]'"
        )


def _redact_proxy(proxy: Secret[str]) -> str:
    """The address, unless there may be a password in it."""
    return "" if "@" in proxy.reveal() else f" {proxy.reveal()}"
