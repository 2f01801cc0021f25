"""Type checks for the fields of public dataclasses, by their annotations.

`field_types` reads the annotations of a class once, as strings (`from __future__ import annotations`). An
annotation that is not in the table is a KeyError at import. No message contains a value: it may be a secret
that was passed for the wrong field.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import ConfigError

# Converts a value that is not of an accepted class. Raises any exception if the value is not valid.
Convert = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class FieldType:
    """What one field accepts."""

    name: str
    accepted: tuple[type, ...]
    """Values of exactly these classes are stored without conversion."""
    convert: Convert
    expected: str
    """For the error message."""


def _reject(_value: object) -> object:
    raise TypeError


def _instance_converter(kind: type) -> Convert:
    def convert(value: object) -> object:
        # Not isinstance: an object can override __class__.
        return value if issubclass(type(value), kind) else _reject(value)

    return convert


def _convert_number(value: object) -> object:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _reject(value)


def _secret_converter(kind: type) -> Convert:
    def convert(value: Any) -> object:
        secret = value if isinstance(value, Secret) else Secret(value)
        return secret if isinstance(secret.reveal(), kind) else _reject(value)

    return convert


def _convert_path(value: Any) -> object:
    # A pathlib.Path becomes a str; bytes are rejected.
    return _STR(os.fspath(value))


def _convert_strings(value: object) -> tuple[str, ...]:
    # A str is a sequence of str, too: args="abc" would be three arguments.
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError
    items = tuple(value)
    if not all(isinstance(item, str) for item in items):
        raise TypeError
    return items


def _mapping_converter(convert_item: Convert) -> Convert:
    def convert(value: object) -> object:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError
        return {key: convert_item(item) for key, item in value.items()}

    return convert


_STR = _instance_converter(str)
# By annotation, without `| None`: accepted, convert and expected of a FieldType.
_TABLE: dict[str, tuple[tuple[type, ...], Convert, str]] = {
    "str": ((str,), _STR, "str"),
    "bytes": ((bytes,), _instance_converter(bytes), "bytes"),
    "bool": ((bool,), _reject, "bool"),
    "float": ((float,), _convert_number, "a number"),
    "Secret[str]": ((), _secret_converter(str), "str or Secret[str]"),
    "Secret[bytes]": ((), _secret_converter(bytes), "bytes or Secret[bytes]"),
    "tuple[str, ...]": ((), _convert_strings, "a list or tuple of str"),
    "Sequence[str]": ((), _convert_strings, "a list or tuple of str"),
    "Mapping[str, str]": ((), _mapping_converter(_STR), "a mapping of str to str"),
    "Mapping[str, Sequence[str]]": (
        (),
        _mapping_converter(_convert_strings),
        "a mapping of str to lists of str",
    ),
}
_PATH_SUFFIXES = ("_file", "path")


def field_types(cls: type, *classes: type, unchecked: Sequence[str] = ()) -> tuple[FieldType, ...]:
    """Return what the fields of the dataclass `cls` accept. `classes` are the classes in its annotations."""
    table = _TABLE | {each.__name__: ((each,), _instance_converter(each), each.__name__) for each in classes}
    found = []
    for field in fields(cls):
        if field.name in unchecked:
            continue
        annotation = str(field.type)
        accepted, convert, expected = table[annotation.removesuffix(" | None")]
        if expected == "str" and field.name.endswith(_PATH_SUFFIXES):
            convert, expected = _convert_path, "str or os.PathLike[str]"
        if annotation.endswith(" | None"):
            accepted, expected = (*accepted, type(None)), f"{expected}, or None"
        found.append(FieldType(field.name, accepted, convert, expected))
    return tuple(found)


def check_fields(value: object, types: Sequence[FieldType]) -> None:
    """Check and convert the fields of a frozen dataclass, in its `__post_init__`. ConfigError."""
    for field in types:
        argument = getattr(value, field.name)
        if type(argument) in field.accepted:
            continue
        try:
            object.__setattr__(value, field.name, field.convert(argument))
            continue
        except Exception:  # an object of the caller can raise anything, and quote the value
            kind = type(argument).__name__
        # Raised outside the except clause: its context could quote the value. Tools that print the variables
        # of a traceback print this object, too: remove all values.
        del argument
        for each in types:
            object.__setattr__(value, each.name, HIDDEN)
        raise ConfigError(f"{type(value).__name__}.{field.name} must be {field.expected}, not {kind}")
