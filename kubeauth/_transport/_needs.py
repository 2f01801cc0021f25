"""What must be there before the first request: packages, and a proxy that can be one."""

from __future__ import annotations

from importlib.util import find_spec

from kubeauth._config._server import proxy_problem
from kubeauth._secret import Secret
from kubeauth.errors import ConfigError


def need_http2(wanted: bool) -> None:
    """ConfigError if HTTP/2 is wanted and cannot be had."""
    if wanted and find_spec("h2") is None:
        raise ConfigError("http2=True needs the package h2. Install it: pip install 'kubeauth[http2]'")


def need_proxy(proxy: Secret[str]) -> None:
    """ConfigError if a proxy is one that cannot be used. Its address may hold a password."""
    why = proxy_problem(proxy.reveal().replace("socks5h:", "socks5:", 1))
    if why is not None:
        raise ConfigError(f"the proxy{_shown(proxy)} cannot be used: {why}. Check proxy-url or HTTPS_PROXY.")
    if proxy.reveal().lower().startswith("socks5") and find_spec("socksio") is None:
        raise ConfigError(
            f"the proxy{_shown(proxy)} needs the package socksio. Install it: pip install 'kubeauth[socks]'"
        )


def _shown(proxy: Secret[str]) -> str:
    """The address, unless there may be a password in it."""
    return "" if "@" in proxy.reveal() else f" {proxy.reveal()}"
