"""Which headers go on, and which are between two neighbours alone (RFC 9110, 7.6.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kubeauth._http import parse_content_length
from kubeauth._proxy._refusal import Refused, bad_request

Headers = list[tuple[bytes, bytes]]

_HOPS = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# What we say ourselves.
_OURS = frozenset((b"host", b"content-length", b"expect"))
# Who asks is nobody's to take away by calling it a matter of the connection.
_WHO_ASKS = re.compile(rb"authorization|impersonate-.*")
# What Kubernetes upgrades to, in lower case. Requests in another protocol, as HTTP/2, would pass no filter.
_UPGRADES = frozenset((b"websocket", b"spdy/3.1"))


class Sent(NamedTuple):
    """A request's headers, as they are sent on."""

    headers: Headers
    length: int | None
    """Of its body; None for one whose length nobody knows."""
    upgrade: bytes | None
    """What is to be spoken afterwards, if the server agrees."""


def sent_on(given: Iterable[tuple[bytes, bytes]], host: bytes, *, may_upgrade: bool = True) -> Sent:
    """Of a request whose header names are small, and whose framing was found to be right. Refused."""
    named: set[bytes] = set()
    length: int | None = 0
    has_length = False
    upgrades: list[bytes] = []
    kept: Headers = [(b"host", host)]
    for name, value in given:
        if name in _HOPS:
            if name == b"connection":
                named |= _words(value)
            elif name == b"transfer-encoding":
                length = None
            elif name == b"upgrade":
                upgrades.append(value)
        elif name not in _OURS:
            kept.append((name, value))
        elif name == b"content-length":
            if (length := parse_content_length(value)) is None:
                raise bad_request("http", "the Content-Length is not valid")
            has_length = True
        elif name == b"expect" and value.lower() != b"100-continue":
            raise Refused(417, "expect", "nothing can be expected but 100-continue")
    upgrade = _allowed_upgrade(upgrades) if may_upgrade and b"upgrade" in named else None
    _drop(kept, named)
    if length is None:
        kept.append((b"transfer-encoding", b"chunked"))
    elif has_length:
        kept.append((b"content-length", b"%d" % length))
    if upgrade is not None:
        kept += [(b"connection", b"Upgrade"), (b"upgrade", upgrade)]
    return Sent(kept, length, upgrade)


def answered(given: Iterable[tuple[bytes, bytes]], *, switched: bool = False) -> Headers:
    """Those of an answer, for whoever asked. With `switched` it is the last of HTTP on both connections."""
    named: set[bytes] = set()
    kept: Headers = []
    upgrades: Headers = []
    chunked = False
    for name, value in given:
        kind = name.lower()
        if kind not in _HOPS:
            kept.append((name, value))
        elif kind == b"connection":
            named |= _words(value)
        elif kind == b"upgrade":
            upgrades.append((name, value))
        elif kind == b"transfer-encoding":
            chunked = True
    # A length beside chunks does not count, and must not reach anybody who would go by it.
    doubtful = {b"content-length"} if chunked or switched else set[bytes]()
    kept = [header for header in kept if header[0].lower() not in (named - _OURS) | doubtful]
    if switched:
        kept += [(b"Connection", b"Upgrade"), *upgrades]
    return kept


def values(given: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """All of one name, as text."""
    return [value.decode("latin-1") for each, value in given if each == name]


def _drop(kept: Headers, named: set[bytes]) -> None:
    named -= {b"close", b"keep-alive", b"upgrade", *_OURS}
    if not named:
        return
    if any(_WHO_ASKS.fullmatch(name) for name in named):
        raise bad_request("connection", "the Connection header names one that says who asks")
    kept[:] = [header for header in kept if header[0] not in named]


def _allowed_upgrade(upgrades: Iterable[bytes]) -> bytes | None:
    """The Upgrade header to send; None if it names a protocol that is not allowed, or no protocol.

    RFC 9110, 7.8: a list of `protocol-name ["/" protocol-version]`, both tokens. Names are compared without
    regard to case, as servers do. What only resembles an allowed protocol (`websocket/13`, `"websocket"`,
    `websocket;x`) is not allowed. Empty elements of a list are ignored (RFC 9110, 5.6.1.2).
    """
    listed = [each.strip(b" \t") for value in upgrades for each in value.split(b",")]
    protocols = [each for each in listed if each]
    if not protocols or not _UPGRADES.issuperset(each.lower() for each in protocols):
        return None
    return b", ".join(protocols)


def _words(value: bytes) -> set[bytes]:
    return {word.strip().lower() for word in value.split(b",")}
