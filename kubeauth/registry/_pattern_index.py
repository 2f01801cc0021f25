"""Many patterns, and which of them an image matches: by looking up its parts, not by trying each pattern.

Ports and numbers of labels are looked up, then each label from the right, then the starts of the path. What
grows with the number of patterns is only how many of them are alike up to where the image differs; and globs
with nothing but stars at both ends (`*east*`), which have to be tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from kubeauth.registry._glob import Glob, glob_matches, is_literal
from kubeauth.registry._match import Pattern
from kubeauth.registry._url import Place, read_place

V = TypeVar("V")


class PatternIndex(Generic[V]):
    """Pairs of a pattern and a value; `find` gives the values whose pattern matches, in the order given."""

    __slots__ = ("_roots", "_size")

    def __init__(self, pairs: Iterable[tuple[str, V]]) -> None:
        self._roots: dict[tuple[bytes, int], _Node[V]] = {}
        self._size = 0
        for pattern, value in pairs:
            self._add(Pattern(pattern), value)

    def __len__(self) -> int:
        """How many pairs there are, those that match nothing included."""
        return self._size

    def _add(self, pattern: Pattern, value: V) -> None:
        place, globs = pattern.place, pattern.globs
        order = self._size
        self._size += 1
        if place is None or globs is None:
            return
        node = self._roots.setdefault(_door(place), _Node())
        for label, glob in zip(reversed(place.labels), reversed(globs), strict=True):
            node = node.after(label, glob)
        node.paths.setdefault(place.path, []).append((order, value))

    def find(self, image: str) -> list[V]:
        """As if every pattern was tried with `image_matches`: a value is there once for each that matches."""
        place = read_place(image)
        return [] if isinstance(place, str) else self.covering(place)

    def covering(self, place: Place) -> list[V]:
        """The same for an image that was read before."""
        if (root := self._roots.get(_door(place))) is None:
            return []
        nodes = [root]
        for label in reversed(place.labels):
            nodes = [follower for node in nodes for follower in node.followers(label)]
        found = [pair for node in nodes for pair in node.pairs(place.path)]
        found.sort(key=_order)
        return [value for _, value in found]


def _door(place: Place) -> tuple[bytes, int]:
    return place.port, len(place.labels)


def _order(pair: tuple[int, object]) -> int:
    return pair[0]


class _Node(Generic[V]):
    """What patterns have in common to the right of some label, or, past the last, their paths."""

    __slots__ = ("ends", "literals", "paths")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Node[V]] = {}
        # Globs by what they start and end with: {start: {end: {text: (glob, node)}}}.
        self.ends: dict[bytes, dict[bytes, dict[bytes, tuple[Glob, _Node[V]]]]] = {}
        self.paths: dict[bytes, list[tuple[int, V]]] = {}

    def after(self, label: bytes, glob: Glob) -> _Node[V]:
        """The node behind that label, made if there is none."""
        if is_literal(label):
            return self.literals.setdefault(label, _Node())
        start, end = _ends(glob)
        alike = self.ends.setdefault(start, {}).setdefault(end, {})
        return alike.setdefault(label, (glob, _Node()))[1]

    def followers(self, label: bytes) -> list[_Node[V]]:
        literal = self.literals.get(label)
        found = [] if literal is None else [literal]
        if self.ends:
            found += [
                node
                for by_end in _at_start(self.ends, label)
                for alike in _at_end(by_end, label)
                for glob, node in alike.values()
                if glob_matches(glob, label)
            ]
        return found

    def pairs(self, path: bytes) -> Iterator[tuple[int, V]]:
        for pairs in _at_start(self.paths, path):
            yield from pairs


def _ends(glob: Glob) -> tuple[bytes, bytes]:
    """What every label that matches starts and ends with; sets of characters are not looked into."""
    first, last = glob[0], glob[-1]
    return first if isinstance(first, bytes) else b"", last if isinstance(last, bytes) else b""


T = TypeVar("T")


def _at_start(table: dict[bytes, T], text: bytes) -> Iterator[T]:
    """The values of every key that the text starts with, by whichever way is shorter."""
    if len(table) <= len(text):
        yield from (value for key, value in table.items() if text.startswith(key))
    else:
        for size in range(len(text) + 1):
            if (value := table.get(text[:size])) is not None:
                yield value


def _at_end(table: dict[bytes, T], text: bytes) -> Iterator[T]:
    if len(table) <= len(text):
        yield from (value for key, value in table.items() if text.endswith(key))
    else:
        for size in range(len(text) + 1):
            if (value := table.get(text[len(text) - size :])) is not None:
                yield value
