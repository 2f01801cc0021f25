"""A URL without its scheme, as Go's net/url reads it: what patterns and images are to the kubelet (2.1-2.3).

Bytes, since Go compares bytes, and an escape may stand for any of them. The rules are those of Go 1.26.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple


class Place(NamedTuple):
    """Where a pattern or an image is: the host in parts, the port apart."""

    host: bytes
    """With its port: what Go calls `URL.Host`."""
    path: bytes
    """With its slash, or empty."""
    labels: tuple[bytes, ...]
    port: bytes
    """Empty if there is none."""


_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
# ASCII is not escaped in a host, except for the percent sign.
_BAD_ESCAPE_IN_HOST = re.compile(rb"%(?!25|[89A-Fa-f][0-9A-Fa-f])")
_IN_HOST = rb"A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\""
_NOT_IN_HOST = re.compile(rb"[^" + _IN_HOST + rb"%\x80-\xff]")
# Those that could stand there as they are, a space and a percent sign.
_ESCAPED_IN_ZONE = re.compile(rb"[" + _IN_HOST + rb"% ]")
_NOT_IN_USER = re.compile(rb"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]")


def read_place(text: str) -> Place | str:
    """What the text is about; or, in words, why it is refused (2.2)."""
    data = text.encode("utf-8", "surrogatepass")
    address, _, fragment = data.partition(b"#")
    if _CONTROL.search(address):
        return "it holds a control character"
    authority, slash, path = address.partition(b"?")[0].partition(b"/")
    user, _, raw_host = authority.rpartition(b"@")
    if _NOT_IN_USER.search(user):
        return "what stands before @ is no user name"
    if any(_BAD_ESCAPE.search(part) for part in (user, path, fragment)):
        return _ESCAPES
    host = _bracketed(raw_host) if raw_host[:1] == b"[" else _named(raw_host)
    if isinstance(host, str):
        return host
    name, port = _split(host)
    return Place(host, slash + _unescaped(path), tuple(name.split(b".")), port)


_ESCAPES = "a % is not followed by two hexadecimal digits"


def _named(raw: bytes) -> bytes | str:
    """A host that is not in brackets."""
    if b"[" in raw:
        return "a [ stands only at the start of a host, around an IPv6 address"
    _, _, port = raw.partition(b":")
    # A second colon is refused as well, as Go does it from 1.26 on.
    return _NO_PORT if port and not port.isdigit() else _host_text(raw)


_NO_PORT = "what follows the colon is no port number, which is digits alone"


def _host_text(raw: bytes) -> bytes | str:
    if found := _NOT_IN_HOST.search(raw):
        return f"{found[0].decode()!r} cannot stand in the name of a host"
    if _BAD_ESCAPE.search(raw):
        return _ESCAPES
    if _BAD_ESCAPE_IN_HOST.search(raw):
        return "an ordinary character of the host is written as an escape"
    return _unescaped(raw)


def _bracketed(raw: bytes) -> bytes | str:
    """An IPv6 address, perhaps with a zone after %25, perhaps with a port."""
    inside, closing, rest = raw[1:].rpartition(b"]")
    if not closing:
        return "a [ is not closed"
    if rest not in (b"", b":") and not (rest[:1] == b":" and rest[1:].isdigit()):
        return _NO_PORT
    if b"[" in inside:
        return "a [ stands only at the start of a host, around an IPv6 address"
    name, percent, zone = inside.partition(b"%25")
    address, scope = _host_text(name), _zone_text(zone)
    if isinstance(address, str):
        return address
    if isinstance(scope, str):
        return scope
    if percent and not scope:
        return "the zone of the address is empty"
    try:
        # Given with its zone it would be read by Python's rules for zones.
        IPv6Address(address.decode("latin-1"))
    except AddressValueError:
        return "what stands in brackets is no IPv6 address"
    return b"[" + address + (b"%" + scope if percent else b"") + b"]" + rest


def _zone_text(raw: bytes) -> bytes | str:
    if found := _NOT_IN_HOST.search(raw):
        return f"{found[0].decode()!r} cannot stand in the zone of an address"
    if _BAD_ESCAPE.search(raw):
        return _ESCAPES
    if not all(_ESCAPED_IN_ZONE.match(_unescaped(escape[0])) for escape in _ESCAPE.finditer(raw)):
        return "an escape in the zone of the address stands for a character that cannot be there"
    return _unescaped(raw)


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), text) if b"%" in text else text


def _split(host: bytes) -> tuple[bytes, bytes]:
    """As Go's net.SplitHostPort does it; the whole host without a port where that fails (2.3)."""
    colon = host.rfind(b":")
    if colon == -1:
        return host, b""
    name, port = host[:colon], host[colon + 1 :]
    if host[:1] == b"[":
        # The first ] must be the last character before the colon; zones may hold brackets too.
        alone = name.find(b"]") == len(name) - 1 and b"[" not in name[1:] and b"]" not in port
        return (name[1:-1], port) if alone else (host, b"")
    return (host, b"") if b"]" in name else (name, port)
