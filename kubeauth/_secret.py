"""Secret, and mappings whose values are hidden: not printed, logged or pickled by accident."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NoReturn, Self, TypeVar

T = TypeVar("T", str, bytes)

HIDDEN = "<hidden>"


class Secret(Generic[T]):
    """A token, password or private key. Only `.reveal()` returns the value.

    An empty secret is false. Secrets are compared in constant time.
    """

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value: T = value

    def reveal(self) -> T:
        """Return the value. Do not assign it to a variable that a traceback could print."""
        return self.__value

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        ours, theirs = self.__value, other.reveal()
        if type(ours) is not type(theirs):
            return False
        if not ours or not theirs:
            return not ours and not theirs  # whether it is empty is not secret
        from hmac import compare_digest  # imports OpenSSL, which most programs do not need for this

        return compare_digest(_to_bytes(ours), _to_bytes(theirs))

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


def _to_bytes(value: str | bytes) -> bytes:
    # A str may contain lone surrogates, which must not raise.
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


K = TypeVar("K")
V = TypeVar("V", covariant=True)


class FrozenDict(Mapping[K, V]):
    """An immutable mapping. Equal to any mapping with the same items."""

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
    """A FrozenDict whose values are not printed, such as the environment of a plugin."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        if self:
            raise TypeError(f"{self!r} cannot be pickled: send the path of the kubeconfig instead")
        return type(self), ()

    def __repr__(self) -> str:
        return f"<{len(self)} hidden: {', '.join(str(key) for key in self)}>" if self else "{}"
