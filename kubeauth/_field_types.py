"""Type checks for values that are made by hand: one table, from a field's annotation to what it accepts.

The annotations are strings, as `from __future__ import annotations` leaves them; `field_types` reads them
once per class, and an annotation that is not in the table is an error at import. No message contains a
value: it may be a secret that was passed for the wrong field.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import ConfigError

# Converts a value that is not of an accepted class; any exception if it cannot.
Convert = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class FieldType:
    """What one field accepts."""

    name: str
    accepted: tuple[type, ...]
    """Values of exactly these classes are stored as they are, and nothing else is looked at."""
    convert: Convert
    expected: str
    """For the error message."""


def _reject(_value: object) -> object:
    raise TypeError


def _instance_of(kind: type) -> Convert:
    def convert(value: object) -> object:
        # By its type: an object may pretend to be of another class.
        return value if issubclass(type(value), kind) else _reject(value)

    return convert


def _number(value: object) -> object:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _reject(value)


def _secret(kind: type) -> Convert:
    def convert(value: Any) -> object:
        secret = value if isinstance(value, Secret) else Secret(value)
        return secret if isinstance(secret.reveal(), kind) else _reject(value)

    return convert


def _path(value: Any) -> object:
    # A pathlib.Path is stored as its text; a path in bytes is rejected.
    return _STR(os.fspath(value))


def _strings(value: object) -> tuple[str, ...]:
    """A str is a sequence of str, too: `args="abc"` would be three arguments."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError
    items = tuple(value)
    if not all(isinstance(item, str) for item in items):
        raise TypeError
    return items


def _mapping_to(convert: Convert) -> Convert:
    def converted(value: object) -> object:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError
        return {key: convert(item) for key, item in value.items()}

    return converted


_STR = _instance_of(str)
# By annotation, without `| None`: the classes stored as they are, the conversion of others, what to expect.
_TABLE: dict[str, tuple[tuple[type, ...], Convert, str]] = {
    "str": ((str,), _STR, "str"),
    "bytes": ((bytes,), _instance_of(bytes), "bytes"),
    "bool": ((bool,), _reject, "bool"),
    "float": ((float,), _number, "a number"),
    "Secret[str]": ((), _secret(str), "str or Secret[str]"),
    "Secret[bytes]": ((), _secret(bytes), "bytes or Secret[bytes]"),
    "tuple[str, ...]": ((), _strings, "a list or tuple of str"),
    "Sequence[str]": ((), _strings, "a list or tuple of str"),
    "Mapping[str, str]": ((), _mapping_to(_STR), "a mapping of str to str"),
    "Mapping[str, Sequence[str]]": ((), _mapping_to(_strings), "a mapping of str to lists of str"),
}
_PATH_SUFFIXES = ("_file", "path")


def field_types(cls: type, *classes: type, unchecked: Sequence[str] = ()) -> tuple[FieldType, ...]:
    """What the fields of the dataclass `cls` accept. `classes` are those that its annotations name."""
    table = _TABLE | {each.__name__: ((each,), _instance_of(each), each.__name__) for each in classes}
    found = []
    for field in fields(cls):
        if field.name in unchecked:
            continue
        annotation = str(field.type)
        accepted, convert, expected = table[annotation.removesuffix(" | None")]
        if expected == "str" and field.name.endswith(_PATH_SUFFIXES):
            convert, expected = _path, "str or os.PathLike[str]"
        if annotation.endswith(" | None"):
            accepted, expected = (*accepted, type(None)), f"{expected}, or None"
        found.append(FieldType(field.name, accepted, convert, expected))
    return tuple(found)


def check_fields(value: object, types: Sequence[FieldType]) -> None:
    """Checks and converts the fields of a frozen dataclass, from its `__post_init__`. ConfigError."""
    for field in types:
        given = getattr(value, field.name)
        if type(given) in field.accepted:
            continue
        try:
            object.__setattr__(value, field.name, field.convert(given))
            continue
        except Exception:  # whatever an object of the caller raises: its text may quote the value
            kind = type(given).__name__
        # Raised here, without the value in a variable and without an exception that may quote it. Tools that
        # print tracebacks with variables print this object, too: nothing that was passed stays in it.
        del given
        for each in types:
            object.__setattr__(value, each.name, HIDDEN)
        raise ConfigError(f"{type(value).__name__}.{field.name} must be {field.expected}, not {kind}")
