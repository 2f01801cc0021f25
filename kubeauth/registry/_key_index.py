"""Keys of a keyring: what they mean, and which of them an image matches, in order (5.3, 5.5, 5.7). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter

from kubeauth.errors import Problem
from kubeauth.registry._pattern_index import PatternIndex
from kubeauth.registry._url import Place, read_place
from kubeauth.registry._values import RegistryCredential

_HUB_KEY = "index.docker.io"


def normalised_key(key: str) -> str | Problem:
    """`key` without scheme, user, query and the version of an API; if it cannot be one, why not."""
    place = read_place(re.sub("^https?://", "", key, count=1))
    if isinstance(place, str):
        return Problem(place)
    path = place.path[3:] if place.path.startswith((b"/v1/", b"/v2/")) else place.path
    try:
        return (place.host + (b"" if path == b"/" else path)).decode()
    except UnicodeDecodeError:
        return Problem("it is not UTF-8 text")


def is_hub_image(image: str) -> bool:
    """Whether the kubelet takes it for an image of the Hub when nothing matched: `localhost/x` too."""
    first, slash, _ = image.partition("/")
    if not slash or first in ("docker.io", "index.docker.io"):
        return first != ""
    return first != "" and "." not in first and ":" not in first


class KeyIndex:
    """Credentials by key. Never changes."""

    __slots__ = ("_index", "hub", "size")

    def __init__(self, credentials: Sequence[RegistryCredential]) -> None:
        self.size = len(credentials)
        by_key: dict[str, list[RegistryCredential]] = {}
        for credential in credentials:
            by_key.setdefault(credential.key, []).append(credential)
        self.hub = by_key.get(_HUB_KEY, [])
        """Those for images of the Hub for which there is nothing else."""
        # Code points sort as their UTF-8 does.
        self._index = PatternIndex((key, by_key[key]) for key in sorted(by_key, reverse=True))

    def covering(self, place: Place) -> list[RegistryCredential]:
        """Every credential of every key that matches, the keys in reverse order of their bytes."""
        return [credential for alike in self._index.covering(place) for credential in alike]


NOTHING = KeyIndex(())


def looked_up(image: str, indexes: Sequence[KeyIndex]) -> list[RegistryCredential]:
    """What there is for an image, as if all their credentials were in one index, one after the other."""
    place = read_place(image)
    if isinstance(place, str):
        found = []
    else:
        found = [credential for index in indexes for credential in index.covering(place)]
    if len(indexes) > 1:
        found.sort(key=_key, reverse=True)  # alike ones stay in the order of the indexes
    if found or not is_hub_image(image):
        return found
    return [credential for index in indexes for credential in index.hub]


_key = attrgetter("key")
