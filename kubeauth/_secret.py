"""A value that cannot be printed, logged or pickled by accident."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NoReturn, Self, TypeVar

T = TypeVar("T", str, bytes)

HIDDEN = "<hidden>"


class Secret(Generic[T]):
    """A token, password or private key. `.reveal()` gives the value; nothing else does.

    An empty secret is false. Two secrets are compared in constant time.
    """

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value: T = value

    def reveal(self) -> T:
        """The value itself. Keep it out of variables that a traceback could show."""
        return self.__value

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, theirs = self.__value, other.reveal()
        if type(mine) is not type(theirs):
            return False
        if not mine or not theirs:
            return not mine and not theirs  # whether it is empty is no secret
        from hmac import compare_digest  # with it comes OpenSSL, and most programs compare none

        return compare_digest(_as_bytes(mine), _as_bytes(theirs))

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return repr(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: send the path of the kubeconfig instead")


def _as_bytes(value: str | bytes) -> bytes:
    # A lone surrogate is a legal str and must compare, not raise.
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


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
