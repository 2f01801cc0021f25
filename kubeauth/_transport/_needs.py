"""What is not installed with httpx, said before the first request instead of in it."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit

from kubeauth._config._server import without_password
from kubeauth.errors import ConfigError


def need_http2(wanted: bool) -> None:
    """ConfigError if HTTP/2 is wanted and cannot be had."""
    if wanted and find_spec("h2") is None:
        raise ConfigError("http2=True needs the package h2. Install it: pip install 'kubeauth[http2]'")


def need_proxy(url: str) -> None:
    """ConfigError if a proxy is of a kind that cannot be used."""
    scheme = urlsplit(url).scheme.lower()
    if scheme not in ("http", "https", "socks5", "socks5h"):
        raise ConfigError(
            f"the proxy {without_password(url)} is of a kind that cannot be used. Use http, https or socks5."
        )
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise ConfigError(
            f"the proxy {without_password(url)} needs the package socksio. "
            "Install it: pip install 'kubeauth[socks]'"
        )
