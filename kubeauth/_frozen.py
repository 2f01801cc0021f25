"""An immutable, hashable mapping: what a frozen dataclass needs where Python has only dict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

K = TypeVar("K")
V = TypeVar("V", covariant=True)


class FrozenDict(Mapping[K, V]):
    """A mapping that never changes; equal to any mapping with the same items."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items: dict[K, V] = dict(items)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __deepcopy__(self, _memo: object) -> Self:
        return self


class HiddenDict(FrozenDict[K, V]):
    """One whose values are not for printing, such as the environment of a plugin."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        if self:
            raise TypeError(f"{self!r} cannot be pickled: send the path of the kubeconfig instead")
        return type(self), ()

    def __repr__(self) -> str:
        return f"<{len(self)} hidden: {', '.join(str(key) for key in self)}>" if self else "{}"
