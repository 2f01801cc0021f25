"""Read JSON, copy documents that were parsed by the caller, and read single fields without pydantic."""

from __future__ import annotations

import datetime
import functools
import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

from kubeauth._parsing.limits import (
    INVALID_NUMBER,
    MAX_DEPTH,
    MAX_VALUES,
    TOO_DEEP,
    TOO_MANY_VALUES,
    Budget,
    DocumentError,
)

_T = TypeVar("_T")
_MAX_QUOTES = 100_000


def read_json(data: bytes, *, repeated: list[str] | None = None, finite: bool = False) -> Any:
    """Return the one JSON value in `data`. Of a repeated key the last wins; its name is added to `repeated`.

    A number that does not fit a float64 is returned as text, as in Go's YAML; with `finite` it is an error,
    as in Go's JSON.
    """
    if _count_max_values(data) > MAX_VALUES and _count_max_values(_strip_strings(data)) > MAX_VALUES:
        raise DocumentError(TOO_MANY_VALUES)
    failure: DocumentError
    record = None if repeated is None else functools.partial(_record_repeated, repeated)
    try:
        # JSON is UTF-8; json.loads would accept UTF-16 bytes, too.
        text = data.decode("utf-8", "surrogatepass")
        value = json.loads(
            text,
            parse_int=_parse_finite_int if finite else _parse_int,
            parse_float=_parse_finite_float if finite else _parse_float,
            parse_constant=_reject_constant,
            object_pairs_hook=record,
        )
    except json.JSONDecodeError as error:
        failure = DocumentError("not valid JSON", line=error.lineno, column=error.colno)
    except UnicodeDecodeError:
        failure = DocumentError("not valid UTF-8 text")
    except RecursionError:
        failure = DocumentError(TOO_DEEP)
    except ValueError:
        failure = DocumentError(INVALID_NUMBER)
    else:
        return copy_plain(value)
    # Outside the except clauses: JSONDecodeError holds the whole document in .doc.
    raise failure


def _count_max_values(data: bytes) -> int:
    """Return an upper bound for the number of values: each but the first follows one of these bytes."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _strip_strings(data: bytes) -> bytes:
    """Remove the strings from JSON, since they may contain commas and brackets.

    Only if there are few of them: many short strings would take more memory here than in the parser.
    """
    if data.count(b'"') > _MAX_QUOTES:
        return data
    # Escapes first, so that every remaining quote starts or ends a string.
    return b"".join(data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])


def _record_repeated(repeated: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Compared after conversion: different lone surrogates become the same key, as in Go.
    found = {to_key(key): value for key, value in pairs}
    if len(found) < len(pairs):
        repeated += [key for key, times in Counter(to_key(key) for key, _ in pairs).items() if times > 1]
    return found


def _parse_int(text: str) -> int | float | str:
    return to_go_number(int(text)) if len(text) <= 20 else _parse_float(text)


def _parse_float(text: str) -> float | str:
    # A number that does not fit a float64 stays text in Go's YAML, which client-go reads JSON with.
    value = float(text)
    return value if math.isfinite(value) else text


def _parse_finite_int(text: str) -> int | float:
    return to_go_number(int(text)) if len(text) <= 20 else _parse_finite_float(text)


def _parse_finite_float(text: str) -> float:
    value = float(text)
    if math.isfinite(value):
        return value
    raise ValueError


def _reject_constant(_text: str) -> Any:
    raise ValueError


def copy_plain(value: object) -> Any:
    """Return a copy as plain JSON values. DocumentError for other types, and for cycles: too deep."""
    budget = Budget()

    def copy(value: object, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise DocumentError(TOO_DEEP)
        budget.spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return replace_surrogates(value)
        if isinstance(value, Mapping):
            return {to_key(key): copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [copy(item, depth + 1) for item in value]
        if isinstance(value, int):
            return to_go_number(int(value))
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, datetime.date):
            # yaml.safe_load returns dates for timestamps, which are strings in Go's YAML.
            return value.isoformat()
        raise DocumentError(f"a value of type {type(value).__name__}, which JSON does not have")

    return copy(value, 1)


def to_go_number(value: int) -> int | float:
    """Convert an integer that fits neither int64 nor uint64 to a float64, as Go's YAML does."""
    if -(2**63) <= value < 2**64:
        return value
    try:
        return float(value)
    except OverflowError:
        raise DocumentError(INVALID_NUMBER) from None


def replace_surrogates(value: str) -> str:
    """Return `value` as a plain str, with lone surrogates replaced by U+FFFD so that it can be encoded."""
    text = str.__str__(value)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def to_key(value: object) -> str:
    """Return a mapping key as text: Go writes numbers and booleans as text, too."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    raise DocumentError("a mapping key that is not text")


class InvalidField(Exception):
    """Why a field is invalid, without its value."""


_TYPE_NAMES: dict[type, str] = {str: "a string", bool: "true or false", dict: "an object"}


def read_field(document: dict[str, Any], parent: str, name: str, kind: type[_T]) -> _T | None:
    """Return a field; None if it is absent or null. Raises InvalidField if it has another type than `kind`.

    For programs that must start fast, such as plugins: other code validates documents with models.
    """
    value = document.get(name)
    if value is not None and type(value) is not kind:
        raise InvalidField(f"{parent}{name} must be {_TYPE_NAMES[kind]}, not {describe_type(value)}")
    return value


def describe_type(value: object) -> str:
    """Return the type of a JSON value, or of any other value that a caller passed, for messages."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list | tuple):
        return "a list"
    return "a mapping" if value is None or isinstance(value, Mapping) else f"a {type(value).__name__}"
