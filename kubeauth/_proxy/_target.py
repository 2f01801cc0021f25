"""What a request asks for, read so that it is the same to a filter and to the API server. Pure.

A filter that is shown one path, while the server takes it for another, filters nothing. So a path is
decoded before anybody looks at it, what could be taken in two ways is refused, and what was looked at is
what is sent.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from kubeauth._proxy._refusal import Refused, bad_request

_ABSOLUTE = re.compile(rb"(?i:http)://([^/?#]*)(.*)", re.DOTALL)
_METHOD = re.compile(r"[A-Z][A-Z-]*")
_ESCAPES = re.compile(rb"(?:[^%]|%[0-9A-Fa-f]{2})*")
# Slashes that are none, ends of strings, and parameters, which servers differ about.
_AMBIGUOUS = re.compile(r"[\x00-\x1f\x7f\\;]")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_DOTS = (".", "..")
# Longer than any path of Kubernetes. To match an expression may take the square of it, and everybody waits.
_MOST = 4096
# How often a path may be decoded before there is nothing left to decode.
_ROUNDS = 3
# What stands for itself in a path (RFC 3986), but the semicolon.
_ITSELF = "/:@!$&'()*+,=~"


class Target(NamedTuple):
    """The path, decoded, as a filter sees it; and the query, as it came."""

    path: str
    query: bytes | None
    raw: bytes | None = None
    """The path as it came, if nobody looks at it."""

    def below(self, server_path: str) -> bytes:
        """As it is sent to a server whose paths all begin so."""
        path = quote(self.path, safe=_ITSELF).encode() if self.raw is None else self.raw
        whole = server_path.rstrip("/").encode() + path
        return whole if self.query is None else b"%b?%b" % (whole, self.query)


def method_of(method: bytes) -> str:
    """Refused for those that are not passed on: httpx makes capitals of small letters, no filter does."""
    text = method.decode("ascii", "replace")
    if text == "CONNECT":
        raise Refused(405, "method", "CONNECT: this is a proxy for one API server, and not for others")
    if not _METHOD.fullmatch(text):
        raise bad_request("method", "the method of a request is written in capital letters")
    return text


def target_of(target: bytes, host: bytes | None, *, decoded: bool = True) -> Target:
    """Reads the target of a request. Refused if it is none of ours, or could be taken in two ways.

    Without `decoded` the path is taken as it came: for those who look at none.
    """
    if absolute := _ABSOLUTE.fullmatch(target):
        authority, target = absolute[1], absolute[2] or b"/"
        if host is None or authority.lower() != host.lower():
            raise bad_request("target", "the target is of another host than the Host header")
        if target[:1] == b"?":
            target = b"/" + target
    if target[:1] != b"/":
        raise bad_request("target", "the target of a request must be a path, or a URL of this proxy")
    if b"#" in target:
        raise bad_request("target", "a target has no fragment")
    path, has_query, query = target.partition(b"?")
    rest = query if has_query else None
    if not decoded:
        return Target(path.decode("ascii", "replace"), rest, path)
    return Target(_decoded(path), rest)


def _decoded(path: bytes) -> str:
    if len(path) > _MOST:
        raise Refused(414, "path", f"the path is longer than {_MOST} bytes")
    if not _ESCAPES.fullmatch(path):
        raise _ambiguous("a % that is no escape")
    if re.search(rb"(?i)%2f", path):
        raise _ambiguous("an escaped slash")
    try:
        text = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise _ambiguous("what is not UTF-8") from None
    _check(text)
    # Who is behind the API server may decode once more.
    again = text
    for _ in range(_ROUNDS):
        if not _ENCODED.search(again):
            return text
        again = unquote_to_bytes(again).decode("utf-8", "replace")
        if again.count("/") != text.count("/"):
            raise _ambiguous("a slash that is escaped twice")
        _check(again)
    raise _ambiguous("escapes of escapes of escapes")


def _check(path: str) -> None:
    if _AMBIGUOUS.search(path):
        raise _ambiguous("a control character, a backslash or a semicolon")
    segments = path[1:].split("/")
    if any(segment in _DOTS for segment in segments):
        raise _ambiguous("'.' or '..'")
    if "" in segments[:-1]:
        raise _ambiguous("two slashes in a row")


def _ambiguous(what: str) -> Refused:
    return bad_request("path", f"the path has {what} in it, and could be taken in more than one way")


class Mount(NamedTuple):
    """Where the API is, here and there: below --api-prefix, and below the path of the server's address."""

    prefix: str = "/"
    server_path: str = ""

    @classmethod
    def at(cls, api_prefix: str, server_path: str = "") -> Mount:
        prefix = f"/{api_prefix.strip('/')}/" if api_prefix.strip("/") else "/"
        return cls(prefix, server_path)

    def strip(self, target: Target) -> Target:
        """Without the prefix. Refused if it is not below it."""
        if self.prefix == "/":
            return target
        if not target.path.startswith(self.prefix):
            raise Refused(404, "prefix", f"404 page not found: the API is below {self.prefix}")
        if self.prefix.startswith("/api"):
            return target  # as kubectl: then it is a part of the API that is served
        cut = len(self.prefix) - 1
        raw = None if target.raw is None else target.raw[cut:]
        return target._replace(path=target.path[cut:], raw=raw)
