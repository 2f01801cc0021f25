"""Scopes: what a token is asked for, and what a request is about (9.1, 9.6, 9.12). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote

Scopes = tuple[str, ...]
"""Sorted, each resource once, its actions sorted."""

# A registry that wants more than this for one request wants too much.
MAX_SCOPES = 16
_MAX_SCOPE = 1024

_PART = r"[a-z0-9]++(?:(?:\.|__?|-++)[a-z0-9]++)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_MAX_REPOSITORY = 255
# What may come behind the name of a repository, which may itself have such words in it.
_ENDS = re.compile(r"(?:manifests|blobs|referrers)/[^/]+|tags/list|blobs/uploads(?:/.*)?", re.DOTALL)
_END_WORDS = re.compile(r"/(?=(?:manifests|blobs|referrers|tags)/)")

_HUB = "registry-1.docker.io"
_READS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about."""

    image: str
    """What credentials are looked up by: `quay.io/coreos/etcd`, or `quay.io/` if it names no repository."""
    scopes: Scopes
    """What it needs, if the registry does not say so itself."""
    also: Scopes = ()
    """What it needs beside that which the registry says: to mount from another repository."""


def subject_of(method: str, scheme: str, host: str, port: int | None, target: str) -> Subject:
    """Of a request to a registry. `target` is its path and query, as they are sent."""
    path, _, query = target.partition("?")
    name = _repository(unquote(path))
    image = f"{_domain(scheme, host, port)}/{name or ''}"
    if name is None:
        return Subject(image, ("registry:catalog:*",) if path.rstrip("/") == "/v2/_catalog" else ())
    actions = "pull" if method in _READS else "pull,push"
    if method == "DELETE":
        actions = "delete,pull,push"
    scopes = (f"repository:{name}:{actions}",)
    also = _mounted(method, query, name)
    return Subject(image, union(scopes, also), also)


def union(*several: Iterable[str]) -> Scopes:
    """All of them, each once: actions on the same resource become one scope."""
    actions: dict[str, set[str]] = {}
    plain: set[str] = set()
    for scope in (scope for scopes in several for scope in scopes):
        # From the right: a name may have a port in it. Some have no colon at all, as `aws`.
        resource, colon, wanted = scope.rpartition(":")
        if not colon:
            plain.add(scope)
        else:
            actions.setdefault(resource, set()).update(filter(None, wanted.split(",")))
    return tuple(
        sorted(plain | {f"{resource}:{','.join(sorted(wanted))}" for resource, wanted in actions.items()})
    )


def is_modest(scopes: Scopes) -> bool:
    """Whether so much may be asked for."""
    return len(scopes) <= MAX_SCOPES and all(len(scope) <= _MAX_SCOPE for scope in scopes)


def _repository(path: str) -> str | None:
    if not path.startswith("/v2/"):
        return None
    rest = path.removeprefix("/v2/")
    for found in reversed(list(_END_WORDS.finditer(rest))[-4:]):
        name = rest[: found.start()]
        if _ENDS.fullmatch(rest, found.end()) and _is_repository(name):
            return name
    return None


def _is_repository(name: str) -> bool:
    return len(name) <= _MAX_REPOSITORY and _REPOSITORY.fullmatch(name) is not None


def _mounted(method: str, query: str, name: str) -> Scopes:
    given = parse_qs(query, max_num_fields=100) if method == "POST" and query.count("&") < 100 else {}
    source = given.get("from", [""])[0]
    if "mount" not in given or source == name or not _is_repository(source):
        return ()
    return (f"repository:{source}:pull",)


def _domain(scheme: str, host: str, port: int | None) -> str:
    """As it stands in the name of an image."""
    if host == _HUB and port is None:
        return "docker.io"
    if ":" in host:
        host = f"[{host}]"
    elif "." not in host and port is None:
        # `registry/app` would be an image of Docker's hub, and found by its credentials.
        port = 443 if scheme == "https" else 80
    return host if port is None else f"{host}:{port}"
