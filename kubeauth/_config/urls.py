"""Parse and redact URLs of servers and proxies, and choose the proxy of a request as Go does."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

MAX_URL_LENGTH = 8192
"""urlsplit normalizes the host, which can take time quadratic in its length."""


class InvalidURL(ValueError):
    """An invalid URL. The message does not contain the URL, because it may include a password."""


def parse_server_url(server: str) -> str:
    """Return the base URL of requests: no query or fragment; https if there is no scheme (K45, K47)."""
    parts = _split_url(server)
    if parts is None or not parts.scheme or not parts.netloc:
        # `host:port`. client-go would use http here, and send no credentials (K47).
        parts = _split_url(f"https://{server}")
        if parts is None or parts.path not in ("", "/") or not _has_host(parts):
            raise InvalidURL("it must be a URL or a host:port pair")
    if parts.scheme not in ("http", "https"):
        raise InvalidURL("its scheme must be https or http")
    if not _has_host(parts):
        raise InvalidURL("its host or port is invalid")
    return parts._replace(query="", fragment="").geturl()


def uses_tls(url: str) -> bool:
    """Return whether `url` is https. Credentials are never sent over plain http (K46)."""
    return url.startswith("https:")


def find_proxy_problem(url: str) -> str | None:
    """Return what is wrong with a proxy-url (K36); None if it is valid."""
    parts = _split_url(url)
    if parts is None:
        return "could not parse"
    if parts.scheme not in ("http", "https", "socks5"):
        # The message does not quote the scheme: for `user:password@proxy` it would be the user name.
        return "unsupported scheme, must be http, https, or socks5"
    return None if _has_host(parts) else "could not parse"


def redact_url(url: str) -> str:
    """Return `url` with its userinfo hidden, for a message or a log."""
    parts = _split_url(url)
    if parts is None or not _has_valid_port(parts):
        # In `https://user:pass/word@host` the text in place of the port is part of a password.
        return "<unprintable>"
    if "@" not in parts.netloc:
        return url
    return parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]).geturl()


def has_userinfo(url: str) -> bool:
    """Return whether `url` contains credentials, or may contain them because it cannot be parsed."""
    return redact_url(url) != url


# Characters that Go's url.Parse rejects, and that urlsplit accepts or silently removes.
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
    """Return the proxy for a request to `url`; None for a direct connection.

    `proxy_url` comes from the kubeconfig. If it is set, it applies to every request and the environment is
    ignored, including NO_PROXY. Otherwise HTTPS_PROXY (for https) or HTTP_PROXY (for http) applies, unless
    NO_PROXY matches the host. The upper-case variables take precedence over the lower-case ones; ALL_PROXY is
    ignored; loopback addresses never use a proxy. Pass an empty `environ` to ignore the environment.
    """
    if proxy_url:
        return proxy_url
    target = urlsplit(url)
    if target.scheme == "http" and environ.get("REQUEST_METHOD"):
        # In CGI, HTTP_PROXY can come from a client's `Proxy:` header.
        return None
    value = _read_variable(environ, f"{target.scheme}_proxy")
    proxy = _normalize_proxy(value) if value else None
    if proxy is None or not _needs_proxy(target, _read_variable(environ, "no_proxy")):
        return None
    return proxy


def _read_variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name, "")


def _normalize_proxy(proxy: str) -> str | None:
    """Return `proxy` as a URL: http if it has no scheme. None if it cannot be parsed."""
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
    """Return whether a NO_PROXY entry (an IP address, a CIDR or a domain, with or without port) matches."""
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
    if (entry_address := _parse_address(name)) is not None:
        return entry_address == address
    if address is not None:
        return False
    name = _to_ascii(name.removeprefix("*") if name.startswith("*.") else name)
    # `example.com` matches itself and its subdomains, `.example.com` only subdomains.
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_host_port(entry: str) -> tuple[str, str]:
    """Split like Go's net.SplitHostPort; without a port, the whole entry is the host."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _to_ascii(host: str) -> str:
    """Return an internationalized name in its ASCII form, so that both spellings compare equal."""
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
