"""Which headers go on, and which are between two neighbours alone (RFC 9110, 7.6.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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
# Another HTTP, or TLS: whoever spoke that behind us would be looked at by no filter.
_NOT_FOR_UPGRADE = re.compile(rb"(?i:h2c?|h3.*|http/.*|http|tls/.*|tls)")


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
            length, has_length = int(value), True
        elif name == b"expect" and value.lower() != b"100-continue":
            raise Refused(417, "expect", "nothing can be expected but 100-continue")
    upgrade = b", ".join(upgrades) if may_upgrade and b"upgrade" in named and upgrades else None
    if upgrade is not None and not _is_for_upgrade(_words(upgrade)):
        upgrade = None
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


def _is_for_upgrade(protocols: set[bytes]) -> bool:
    """Commas alone name nothing; and h11 would not take them for an upgrade, either."""
    named = protocols - {b""}
    return bool(named) and not any(_NOT_FOR_UPGRADE.fullmatch(word) for word in named)


def _words(value: bytes) -> set[bytes]:
    return {word.strip().lower() for word in value.split(b",")}
