"""Whom to act as, and the headers that say so (I9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubeauth._field_types import check_fields, field_types
from kubeauth._secret import FrozenDict

# RFC 7230 token characters but for `%`, which would be read as the start of an escape.
_LEGAL = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The user to impersonate, with uid, groups and extra fields."""

    user: str
    """`as` in a kubeconfig."""
    uid: str = ""
    """`as-uid`."""
    groups: Sequence[str] = ()
    """`as-groups`."""
    extra: Mapping[str, Sequence[str]] = field(default_factory=lambda: FrozenDict[str, tuple[str, ...]]())
    """`as-user-extra`."""

    def __post_init__(self) -> None:
        check_fields(self, _FIELDS)
        object.__setattr__(self, "extra", FrozenDict[str, Sequence[str]](self.extra))


_FIELDS = field_types(Impersonation)


def impersonation_headers(impersonation: Impersonation) -> list[tuple[str, str]]:
    """The headers for a request, in order; a name may come more than once."""
    headers = [("Impersonate-User", impersonation.user)]
    if impersonation.uid:
        headers.append(("Impersonate-Uid", impersonation.uid))
    headers.extend(("Impersonate-Group", group) for group in impersonation.groups)
    for key, values in impersonation.extra.items():
        headers.extend((f"Impersonate-Extra-{_escaped(key)}", value) for value in values)
    return headers


def _escaped(key: str) -> str:
    return "".join(chr(byte) if byte in _LEGAL else f"%{byte:02X}" for byte in key.encode())
