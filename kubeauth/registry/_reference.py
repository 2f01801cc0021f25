"""What an image's name says, read as the kubelet and Docker read it (7.1-7.6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from kubeauth.errors import RegistryError

_HUB, _OLD_HUB, _OFFICIAL = "docker.io", "index.docker.io", "library/"
LONGEST_PATH = 255
_LONGEST_SHOWN = 300

_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
# Neither `@` nor any other character by which two programs could find two hosts in one URL.
_SERVER_URL = re.compile(rf"(?:(?i:https?)://)?({_DOMAIN.pattern})(?:/[A-Za-z0-9._~/-]*)?", re.ASCII)
SEPARATOR = "(?:[._]|__|-+)"
COMPONENT = f"[a-z0-9]+(?:{SEPARATOR}[a-z0-9]+)*"
_PATH = re.compile(rf"{COMPONENT}(?:/{COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_USER = re.compile(r"(?s:.*)@(?!sha[0-9]+:)")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """The name of an image in full: `nginx` is `docker.io/library/nginx:latest`."""

    domain: str
    """The registry, with its port: `docker.io`, `localhost:5000`. Case is kept."""
    path: str
    """The repository within the registry: `library/nginx`."""
    tag: str | None = None
    """`latest` if neither a tag nor a digest was given; None if only a digest was."""
    digest: str | None = None

    @property
    def repository(self) -> str:
        """What credentials are looked up by: the name without tag and digest."""
        return f"{self.domain}/{self.path}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return self.repository + tag + digest

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises RegistryError if the text is no image's name."""
        if _IDENTIFIER.fullmatch(text):
            raise _refused(text, "64 hexadecimal digits are an id: write", f"name@sha256:{text}")
        if scheme := _SCHEME.match(text):
            user = _USER.match(text, scheme.end())
            raise _refused(text, "it has no scheme: write", text[(user or scheme).end() :])
        domain, rest = _at_registry(text)
        name, at, digest = rest.partition("@")
        path, colon, tag = name.partition(":")
        if path != path.lower():
            start = 0 if domain == _HUB else len(domain) + 1
            end = len(text) - len(rest) + len(path)
            lower = text[:start] + text[start:end].lower() + text[end:]
            raise _refused(text, "a repository is in lower case: write", lower)
        if not _PATH.fullmatch(path):
            raise _refused(text, _path_problem(path))
        longest = LONGEST_PATH
        if not _DOMAIN.fullmatch(domain):
            # A name with an underscore is let through all the same: as if it was part of the path.
            if not _PATH.fullmatch(domain):
                raise _refused(text, f"{_shown(domain)!r} is no registry: write host or host:port")
            longest -= len(domain) + 1
        if len(path) > longest:
            raise _refused(text, f"its path is longer than {longest} characters")
        if colon and not _TAG.fullmatch(tag):
            raise _refused(text, "a tag has up to 128 letters, digits and _ . - and starts with none of . -")
        if at and not _DIGEST.fullmatch(digest):
            raise _refused(
                text, "a digest is sha256: and 64 hexadecimal digits in lower case (sha384: 96, sha512: 128)"
            )
        return cls(domain, path, tag or (None if at else "latest"), digest or None)


def registry_host(server_url: str) -> str | None:
    """The registry that a docker client names: `gcr.io`, `host:5000`, `https://index.docker.io/v1/`.

    None if it is not one of these forms. A user name, a query, a fragment, an escape or a character beyond
    ASCII is never right there, and what the host is would depend on the parser.
    """
    found = _SERVER_URL.fullmatch(server_url)
    return found[1] if found else None


def _at_registry(text: str) -> tuple[str, str]:
    """The registry, and what is asked of it (7.2, 7.3)."""
    first, slash, rest = text.partition("/")
    if not slash:
        return _HUB, _OFFICIAL + text
    if not (first == "localhost" or "." in first or ":" in first or first != first.lower()):
        return _HUB, text
    domain = _HUB if first == _OLD_HUB else first
    return domain, rest if domain != _HUB or "/" in rest else _OFFICIAL + rest


def _path_problem(path: str) -> str:
    if path in ("", _OFFICIAL):
        return "it has no name: write one, such as nginx or gcr.io/team/app"
    if "" in path.split("/"):
        return "a slash has nothing before or behind it: leave it out"
    if odd := re.search(r"[^a-z0-9._/-]", path):
        return f"{odd[0]!r} is in no repository's name: write a-z, 0-9, and . _ - between them"
    return "one . or _, two __ or some - stand between letters or digits only: leave out the others"


def _refused(text: str, why: str, instead: str | None = None) -> RegistryError:
    better = f" {_shown(instead)}" if instead is not None else ""
    return RegistryError(f"{_shown(text)!r} is no image's name: {why}{better}")


def _shown(text: str) -> str:
    """Without a user and a password, which have no place there, and not at any length."""
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0
    user = _USER.match(text, start)
    shown = text[:start] + ("...@" + text[user.end() :] if user else text[start:])
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "..."
