"""Addresses: the API server's and the proxy's, checked before anybody connects. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

MAX_URL_LENGTH = 8192
"""urlsplit normalises a host, which can take a time that grows as the square of its length."""


class InvalidURL(ValueError):
    """An address that cannot be used. The message does not repeat it: it may hold a password."""


def parse_server_url(server: str) -> str:
    """The URL that requests are joined to: no query, no fragment; https unless it says http (K45, K47)."""
    parts = _split_url(server)
    if parts is None or not parts.scheme or not parts.netloc:
        # `host:port`. client-go would go on with http and without credentials; see K47.
        parts = _split_url(f"https://{server}")
        if parts is None or parts.path not in ("", "/") or not _has_host(parts):
            raise InvalidURL("it must be a URL or a host:port pair")
    if parts.scheme not in ("http", "https"):
        raise InvalidURL("its scheme must be https or http")
    if not _has_host(parts):
        raise InvalidURL("its host or its port cannot be right")
    return parts._replace(query="", fragment="").geturl()


def uses_tls(url: str) -> bool:
    """Whether credentials may be used with this server at all (K46)."""
    return url.startswith("https:")


def find_proxy_problem(url: str) -> str | None:
    """What is wrong with a proxy-url (K36); None if nothing is."""
    parts = _split_url(url)
    if parts is None:
        return "could not parse"
    if parts.scheme not in ("http", "https", "socks5"):
        # Not which one it is: of `user:password@proxy` it would be the user.
        return "unsupported scheme, must be http, https, or socks5"
    return None if _has_host(parts) else "could not parse"


def redact_url(url: str) -> str:
    """`url` for printing."""
    parts = _split_url(url)
    if parts is None or not _has_valid_port(parts):
        # `https://user:pass/word@host`: what looks like a port is the first half of a password.
        return "<unprintable>"
    if "@" not in parts.netloc:
        return url
    return parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]).geturl()


def has_userinfo(url: str) -> bool:
    """Whether printing `url` as it is would show somebody's credentials."""
    return redact_url(url) != url


# What Go's url.Parse refuses and urlsplit takes, or silently removes.
_INVALID_IN_URL = re.compile(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})")
_INVALID_IN_HOST = re.compile(r'["<>\\^`{|}]')


def _has_host(parts: SplitResult) -> bool:
    try:
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host) and not _INVALID_IN_HOST.search(parts.netloc)


def _has_valid_port(parts: SplitResult) -> bool:
    try:
        _ = parts.port
    except ValueError:
        return False
    return True


def _split_url(url: str) -> SplitResult | None:
    if len(url) > MAX_URL_LENGTH or _INVALID_IN_URL.search(url):
        return None
    try:
        return urlsplit(url)
    except ValueError:
        return None


_DEFAULT_PORTS = {"http": "80", "https": "443"}


def choose_proxy(url: str, *, proxy_url: str | None, environ: Mapping[str, str]) -> str | None:
    """The proxy for a request to `url`; None for a direct connection.

    `proxy_url`, from the kubeconfig, is used for everything when it is set: neither the environment
    nor NO_PROXY is asked. Otherwise HTTPS_PROXY (for https) or HTTP_PROXY (for http), unless NO_PROXY
    names the host. Upper case is read before lower case; ALL_PROXY is not read; loopback never uses
    a proxy. Pass an empty `environ` to leave the environment out.
    """
    if proxy_url:
        return proxy_url
    target = urlsplit(url)
    if target.scheme == "http" and environ.get("REQUEST_METHOD"):
        # In CGI, HTTP_PROXY can come from a client's `Proxy:` header.
        return None
    chosen = _read_variable(environ, f"{target.scheme}_proxy")
    proxy = _normalize_proxy(chosen) if chosen else None
    if proxy is None or not _needs_proxy(target, _read_variable(environ, "no_proxy")):
        return None
    return proxy


def _read_variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name, "")


def _normalize_proxy(proxy: str) -> str | None:
    """`host:port` means http://host:port; what cannot be parsed means no proxy."""
    for candidate in (proxy, f"http://{proxy}"):
        try:
            parts = urlsplit(candidate)
            if parts.scheme and parts.hostname:
                return candidate
        except ValueError:
            continue
    return None


def _needs_proxy(target: SplitResult, no_proxy: str) -> bool:
    host = _to_ascii((target.hostname or "").strip().lower())
    port = str(target.port or _DEFAULT_PORTS.get(target.scheme, ""))
    address = _parse_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    entries = [entry for part in no_proxy.split(",") if (entry := part.strip().lower())]
    if "*" in entries:
        return False
    return not any(_matches(entry, host, port, address) for entry in entries)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _matches(entry: str, host: str, port: str, address: _Address | None) -> bool:
    """Whether a NO_PROXY entry names this host: an address, a CIDR, or a domain; maybe with a port."""
    if entry.rpartition("/")[2].isdigit():
        try:
            network = ipaddress.ip_network(entry, strict=False)
        except ValueError:
            pass
        else:
            return address is not None and address in network
    name, entry_port = _split_host_port(entry)
    if not name:
        return False
    if entry_port and entry_port != port:
        return False
    if (listed := _parse_address(name)) is not None:
        return listed == address
    if address is not None:
        return False
    name = _to_ascii(name.removeprefix("*") if name.startswith("*.") else name)
    # `example.com` names itself and everything below it, `.example.com` only what is below.
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_host_port(entry: str) -> tuple[str, str]:
    """As Go's SplitHostPort, and the whole entry as the host where there is no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _to_ascii(host: str) -> str:
    """An international name in the form that is on the wire, so that both spellings are one name."""
    if host.isascii():
        return host
    import idna

    dot = "." if host.startswith(".") else ""
    try:
        return dot + idna.encode(host.removeprefix("."), uts46=True).decode()
    except idna.IDNAError:
        return host


def _parse_address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address
