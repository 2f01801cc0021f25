"""The rules of matching once more (2.1-2.5), written another way: to be compared with kubeauth's.

One regular expression for the URL, the C library for addresses, and for globs the set of all places where they
could be, instead of the first.
"""

from __future__ import annotations

import re
import socket
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

CHARACTER = r"[A-Za-z0-9_.~!$&'()*+,;=\]<>\"\x80-\xff-]"
URL = re.compile(
    r"""
    (?: (?P<user> [A-Za-z0-9._:~!$&'()*+,;=%@-]* ) @ )?
    (?P<host> [^/?\#@]* )
    (?P<path> / [^?\#]* )?
    (?: \? [^\#]* )?
    (?: \# (?P<fragment> .* ) )?
    """,
    re.VERBOSE | re.DOTALL,
)
NAME = re.compile(rf"(?: {CHARACTER} | %25 | %[89A-Fa-f][0-9A-Fa-f] )* (?: : [0-9]* )?", re.VERBOSE)
ADDRESS = re.compile(
    rf"\[ (?P<address> [0-9A-Fa-f:.]+ ) (?: %25 (?P<zone> (?: {CHARACTER} | : | %[0-9A-Fa-f]{{2}} )+ ) )? \] (?: : [0-9]* )?",
    re.VERBOSE,
)
WITH_PORT = re.compile(
    r"(?: \[ (?P<address> [^\[\]]* ) \] | (?P<name> [^\[\]:]* ) ) : (?P<port> [0-9]* )", re.VERBOSE
)
ESCAPABLE_IN_ZONE = re.compile(r"[A-Za-z0-9_.~!$&'()*+,;=:\[\]<>\"% -]")


class Target(NamedTuple):
    labels: list[str]
    port: str
    path: str


def decoded(text: str) -> str:
    """One character for each byte, before and after."""
    return unquote_to_bytes(text.encode("latin-1")).decode("latin-1")


def escapes_well(text: str) -> bool:
    return all(re.match(r"[0-9A-Fa-f]{2}", after) for after in text.split("%")[1:])


def host_of(raw: str) -> str | None:
    if "[" not in raw:
        return decoded(raw) if NAME.fullmatch(raw) else None
    found = ADDRESS.fullmatch(raw)
    if found is None:
        return None
    zone = found["zone"] or ""
    if not all(ESCAPABLE_IN_ZONE.fullmatch(decoded(escape)) for escape in re.findall("%..", zone)):
        return None
    try:
        socket.inet_pton(socket.AF_INET6, found["address"])
    except OSError:
        return None
    return decoded(raw)


def target(text: str) -> Target | None:
    found = URL.fullmatch(text.encode("utf-8", "surrogatepass").decode("latin-1"))
    if found is None or any(ord(c) < 32 or ord(c) == 127 for c in found.string.split("#")[0]):
        return None
    parts = [found[name] or "" for name in ("user", "path", "fragment")]
    host = host_of(found["host"])
    if host is None or not all(map(escapes_well, parts)):
        return None
    port = WITH_PORT.fullmatch(host)
    name = host if port is None else port["name"] if port["address"] is None else port["address"]
    return Target(name.split("."), port["port"] if port else "", decoded(parts[1]))


def in_set(members: str, character: str) -> bool | None:
    """None if there is no such set."""
    text = members.encode("latin-1").decode("utf-8", "surrogateescape")
    if not re.fullmatch(r"(?:[^-](?:-[^-])?)+", text, re.DOTALL) or any(
        "\udc80" <= c <= "\udcff" for c in text
    ):
        return None
    return any(
        low <= character <= (high or low) for low, high in re.findall(r"([^-])(?:-([^-]))?", text, re.DOTALL)
    )


def first_character(text: str) -> tuple[str, int]:
    decoded = text.encode("latin-1").decode("utf-8", "replace")[:1]
    size = len(decoded.encode())
    return (decoded, size) if text.encode("latin-1")[:size] == decoded.encode() else ("\ufffd", 1)


def globs(pattern: str, name: str) -> bool:
    tokens = re.findall(r"\[[^\]]*\]|.", pattern, re.DOTALL)
    if any(token == "[" or (len(token) > 1 and in_set(token[1:-1], "x") is None) for token in tokens):
        return False
    places = {0}
    for token in tokens:
        if token == "*":
            places = set(range(min(places), len(name) + 1)) if places else places
        elif len(token) == 1:
            places = {place + 1 for place in places if name[place : place + 1] == token}
        else:
            read = {place: first_character(name[place:]) for place in places if place < len(name)}
            places = {place + size for place, (first, size) in read.items() if in_set(token[1:-1], first)}
    return len(name) in places


def matches(pattern: str, image: str) -> bool:
    own, other = target(pattern), target(image)
    return (
        own is not None
        and other is not None
        and own.port == other.port
        and len(own.labels) == len(other.labels)
        and other.path[: len(own.path)] == own.path
        and all(globs(glob, label) for glob, label in zip(own.labels, other.labels, strict=True))
    )
