"""Addresses: the API server's and the proxy's, checked before anybody connects. Pure."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

LONGEST_ADDRESS = 8192
"""urlsplit normalises a host, which can take a time that grows as the square of its length."""


class AddressError(ValueError):
    """An address that cannot be used. The message does not repeat it: it may hold a password."""


def server_url(server: str) -> str:
    """The URL that requests are joined to: no query, no fragment; https unless it says http (K45, K47)."""
    parts = _split(server)
    if parts is None or not parts.scheme or not parts.netloc:
        # `host:port`. client-go would go on with http and without credentials; see K47.
        parts = _split(f"https://{server}")
        if parts is None or parts.path not in ("", "/") or not _has_host(parts):
            raise AddressError("it must be a URL or a host:port pair")
    if parts.scheme not in ("http", "https"):
        raise AddressError("its scheme must be https or http")
    if not _has_host(parts):
        raise AddressError("its host or its port cannot be right")
    return parts._replace(query="", fragment="").geturl()


def uses_tls(url: str) -> bool:
    """Whether credentials may be used with this server at all (K46)."""
    return url.startswith("https:")


def proxy_problem(url: str) -> str | None:
    """What is wrong with a proxy-url (K36); None if nothing is."""
    parts = _split(url)
    if parts is None:
        return "could not parse"
    if parts.scheme not in ("http", "https", "socks5"):
        # Not which one it is: of `user:password@proxy` it would be the user.
        return "unsupported scheme, must be http, https, or socks5"
    return None if _has_host(parts) else "could not parse"


def without_password(url: str) -> str:
    """`url` for printing."""
    parts = _split(url)
    if parts is None or not _port_is_one(parts):
        # `https://user:pass/word@host`: what looks like a port is the first half of a password.
        return "<unprintable>"
    if "@" not in parts.netloc:
        return url
    return parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]).geturl()


def has_password(url: str) -> bool:
    """Whether printing `url` as it is would show somebody's credentials."""
    return without_password(url) != url


# What Go's url.Parse refuses and urlsplit takes, or silently removes.
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})")
_NOT_IN_A_HOST = re.compile(r'["<>\\^`{|}]')


def _has_host(parts: SplitResult) -> bool:
    try:
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host) and not _NOT_IN_A_HOST.search(parts.netloc)


def _port_is_one(parts: SplitResult) -> bool:
    try:
        _ = parts.port
    except ValueError:
        return False
    return True


def _split(url: str) -> SplitResult | None:
    if len(url) > LONGEST_ADDRESS or _NOT_IN_A_URL.search(url):
        return None
    try:
        return urlsplit(url)
    except ValueError:
        return None
