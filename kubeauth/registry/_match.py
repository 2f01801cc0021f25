"""Which images a pattern of `matchImages`, or a key of `auth`, is about: the kubelet's rules (2.1-2.10)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kubeauth.registry._glob import Glob, compile_glob, glob_matches, is_literal
from kubeauth.registry._reference import COMPONENT, LONGEST_PATH, SEPARATOR
from kubeauth.registry._url import Place, read_place


def image_matches(pattern: str, image: str) -> bool:
    """Whether the kubelet would say that the image matches the pattern.

    The image is taken as it is: the kubelet asks about `ImageReference.parse(image).repository`. What cannot
    be read matches nothing.
    """
    return Pattern(pattern).matches(image)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that was read once, to be compared with many images. One that cannot be read matches none."""

    text: str
    problem: str | None = field(init=False, repr=False, compare=False)
    """Why it cannot be read (1.24)."""
    place: Place | None = field(init=False, repr=False, compare=False)
    globs: tuple[Glob, ...] | None = field(init=False, repr=False, compare=False)
    """One for each label of the host; None if one of them is malformed."""

    def __post_init__(self) -> None:
        found = read_place(self.text)
        problem, place = (found, None) if isinstance(found, str) else (None, found)
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "globs", _globs(place) if place else None)

    def matches(self, image: str) -> bool:
        found = read_place(image)
        return not isinstance(found, str) and self.covers(found)

    def covers(self, image: Place) -> bool:
        own, globs = self.place, self.globs
        return (
            own is not None
            and globs is not None
            # A port that is left out equals only one that is left out, on either side (2.4).
            and own.port == image.port
            and len(own.labels) == len(image.labels)
            and image.path.startswith(own.path)
            and all(map(glob_matches, globs, image.labels))
        )


def _globs(place: Place) -> tuple[Glob, ...] | None:
    globs = [compile_glob(label) for label in place.labels]
    found = tuple(glob for glob in globs if glob is not None)
    return found if len(found) == len(globs) else None


def why_invalid(pattern: str) -> str | None:
    """Why a provider with this pattern is refused (1.24), in words; None if it is not."""
    return Pattern(pattern).problem


def why_never(pattern: str) -> str | None:
    """Why a pattern matches no image that the kubelet could ask about, in words; None if there may be one.

    Such patterns are accepted, and the provider is then never run.
    """
    read = Pattern(pattern)
    if read.place is None:
        return read.problem
    if not pattern:
        return "it is empty: write the name of a registry, such as gcr.io"
    if scheme := _SCHEME.match(pattern):
        return f"images have no {scheme[0]} before them: {_without_scheme(pattern[scheme.end() :])}"
    why = _host_never(read.place) or _path_never(read.place)
    sign = _cut_off(pattern)
    if why is None or sign is None:
        return why
    return f"{sign} is no wildcard and what follows it is left out; then {why}"


def caution(pattern: str) -> str | None:
    """What is likely to surprise about a pattern that does match something, in words."""
    place = Pattern(pattern).place
    if place is None or why_never(pattern) is not None:
        return None
    labels, host = place.labels, _shown(place.host)
    if sign := _cut_off(pattern):
        return f"{sign} is no wildcard and what follows it is left out: write {host}{_shown(place.path)}"
    if "@" in pattern.partition("/")[0]:
        return f"what stands before @ is left out: write {host}{_shown(place.path)}"
    if labels == (b"registry-1", b"docker", b"io") and not place.port:
        return "the images of Docker Hub are asked about as docker.io/...: write docker.io"
    if labels[1:] == (b"docker", b"io") and not place.port and not is_literal(labels[0]):
        return f"{host} does not match docker.io, where the images of Docker Hub are: write docker.io"
    if len(labels) == 1 and not place.port and b"*" in labels[0]:
        return (
            "* stands for one part of a name, so this matches no registry with a dot in its name: "
            "write a pattern for each number of parts, such as *.* and *.*.*"
        )
    if host != host.lower():
        return f"upper and lower case differ here: it matches only images that are written with {host}"
    if found := _API.match(place.path):
        return f"{_shown(found[0])} is part of a registry's API, not of an image's name: write {host}"
    return None


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_API = re.compile(rb"/v[12](?=/|$)")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9\-_*]")
_UPPER = re.compile(rb"[A-Z]")
# What no component of a path has, which a host with an underscore has to be.
_NOT_IN_COMPONENT = re.compile(rb"___|_-|-_")
# What a path can start with: whole components, and a piece of the next.
_START_OF_PATH = re.compile(f"/(?:{COMPONENT}/)*(?:{COMPONENT}{SEPARATOR}?)?")


def _host_never(place: Place) -> str | None:
    labels, port = place.labels, place.port
    if place.host[:1] == b"[":
        return _address_never(place)
    if labels == (b"",):
        return "it names no registry: write one, such as gcr.io"
    if b"" in labels:
        return "a dot at its start or end, or two in a row, make a part without a name: leave it out"
    first, *others = labels
    if not others and not port and b"]" in first and not is_literal(first):
        return None  # *] would match [::1]
    if odd := _NOT_IN_NAME.search(_shown(b"".join(labels))):
        return f"{odd[0]!r} is in no registry's name"
    if any(label[:1] in (b"-", b"_") or label[-1:] in (b"-", b"_") for label in labels):
        return "no part of a registry's name starts or ends with - or _"
    if b"_" in place.host and (
        port or not others or _UPPER.search(place.host) or _NOT_IN_COMPONENT.search(place.host)
    ):
        return "no registry's name has a _ in such a place"
    if labels == (b"index", b"docker", b"io") and not port:
        return "the images of Docker Hub are asked about as docker.io/...: write docker.io"
    if not others and not port and is_literal(first) and first != b"localhost" and not _UPPER.search(first):
        name = _shown(first)
        return (
            f"{name}/... is asked about as docker.io/{name}/..., since the name of a registry has a dot or a "
            f"port: write docker.io/{name}, or {name} with its port"
        )
    return None


def _address_never(place: Place) -> str | None:
    """What is in brackets. As a glob it is a set: [::1] stands for one character that is : or 1 (X17)."""
    if b"%" in place.host:
        # Without a port it may match something, but nothing that anybody would call an image.
        return "an address with a zone is in no image's name" if place.port else None
    if len(place.labels) > 1:
        return "an IPv6 address that ends as an IPv4 address is in no image's name"
    if place.port or (place.host[-1:] == b"]" and _UPPER.search(place.host)):
        return None
    return "an address in brackets is matched only with its port: write it behind the brackets"


def _path_never(place: Place) -> str | None:
    host, path = _shown(place.host), _shown(place.path)
    before, star, _ = path.partition("*")
    if star:
        start = host + before if before != "/" else host
        return f"* is no wildcard in a path, which matches all that starts with it: write {start}"
    if _START_OF_PATH.fullmatch(path) or not path:
        # If no name can end where it ends, there is more to come.
        shortest = len(path) - 1 + (not path[-1:].isalnum())
        return None if shortest <= LONGEST_PATH else f"no path is longer than {LONGEST_PATH} characters"
    if "//" in path:
        return "no image's name has // in it: write one slash"
    if "@" in path:
        return "images are asked about without their digest: leave it out, from @ on"
    if ":" in path:
        return "images are asked about without their tag: leave it out, from : on"
    if path != path.lower():
        return f"the path of an image is in lower case: write {host}{path.lower()}"
    return f"no image has a path that starts with {path}"


def _without_scheme(rest: str) -> str:
    place = read_place(rest)
    if isinstance(place, str):
        return "leave it out"
    why = _host_never(place) or _path_never(place)
    return f"write {_shown(place.host + place.path)}" if why is None else f"without it, {why}"


def _cut_off(pattern: str) -> str | None:
    found = re.search(r"[?#]", pattern)
    return found[0] if found else None


def _shown(text: bytes) -> str:
    """Also for a terminal: an escape may stand for a character that steers it."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text.decode("utf-8", "replace"))
