"""Which proxy a request goes through, by Go's rules (K52). Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

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
    chosen = _from_environ(environ, f"{target.scheme}_proxy")
    proxy = _normalised(chosen) if chosen else None
    if proxy is None or not _needs_proxy(target, _from_environ(environ, "no_proxy")):
        return None
    return proxy


def _from_environ(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name, "")


def _normalised(proxy: str) -> str | None:
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
    host = _ascii((target.hostname or "").strip().lower())
    port = str(target.port or _DEFAULT_PORTS.get(target.scheme, ""))
    address = _address(host)
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
    name, entry_port = _host_and_port(entry)
    if not name:
        return False
    if entry_port and entry_port != port:
        return False
    if (listed := _address(name)) is not None:
        return listed == address
    if address is not None:
        return False
    name = _ascii(name.removeprefix("*") if name.startswith("*.") else name)
    # `example.com` names itself and everything below it, `.example.com` only what is below.
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _host_and_port(entry: str) -> tuple[str, str]:
    """As Go's SplitHostPort, and the whole entry as the host where there is no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _ascii(host: str) -> str:
    """An international name in the form that is on the wire, so that both spellings are one name."""
    if host.isascii():
        return host
    import idna

    dot = "." if host.startswith(".") else ""
    try:
        return dot + idna.encode(host.removeprefix("."), uts46=True).decode()
    except idna.IDNAError:
        return host


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address
