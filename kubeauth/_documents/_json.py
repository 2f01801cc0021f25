"""JSON, and documents that somebody parsed already."""

from __future__ import annotations

import datetime
import functools
import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kubeauth._documents._limits import (
    MAX_DEPTH,
    MAX_VALUES,
    NO_SUCH_NUMBER,
    TOO_DEEP,
    TOO_MANY_VALUES,
    Budget,
    DocumentError,
)
from kubeauth._documents._scalars import clean_text, go_number, key_text

_MOST_QUOTES = 100_000


def read_json(data: bytes, *, repeated: list[str] | None = None, finite: bool = False) -> Any:
    """`data` as one JSON value. Of a key that is there twice the last counts; `repeated` is told of it.

    A number that no float64 holds is text, as in Go's YAML; with `finite` it is refused, as in Go's JSON.
    """
    if _most_values(data) > MAX_VALUES and _most_values(_without_strings(data)) > MAX_VALUES:
        raise DocumentError(TOO_MANY_VALUES)
    failure: DocumentError
    noted = None if repeated is None else functools.partial(_noted, repeated)
    try:
        # JSON is UTF-8: given bytes, the parser would take UTF-16 as well.
        text = data.decode("utf-8", "surrogatepass")
        value = json.loads(
            text,
            parse_int=_finite_int if finite else _json_int,
            parse_float=_finite_float if finite else _json_float,
            parse_constant=_no_constant,
            object_pairs_hook=noted,
        )
    except json.JSONDecodeError as error:
        failure = DocumentError("not valid JSON", line=error.lineno, column=error.colno)
    except UnicodeDecodeError:
        failure = DocumentError("not valid UTF-8 text")
    except RecursionError:
        failure = DocumentError(TOO_DEEP)
    except ValueError:
        failure = DocumentError(NO_SUCH_NUMBER)
    else:
        return plain(value)
    # Outside the except clauses: JSONDecodeError keeps the whole document in .doc.
    raise failure


def _most_values(data: bytes) -> int:
    """An upper bound at the speed of memchr: every value but the first follows one of these."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _without_strings(data: bytes) -> bytes:
    """What is left of JSON without the strings in it, where commas are no more than commas.

    Only if they are few, so that they are long: else it would take more memory than to parse them.
    """
    if data.count(b'"') > _MOST_QUOTES:
        return data
    # First what is escaped, so that every quote that is left begins a string or ends one.
    return b"".join(data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])


def _noted(repeated: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # As they will be: halves of characters become the same, as they do in Go.
    found = {key_text(key): value for key, value in pairs}
    if len(found) < len(pairs):
        repeated += [key for key, times in Counter(key_text(key) for key, _ in pairs).items() if times > 1]
    return found


def _json_int(text: str) -> int | float | str:
    return go_number(int(text)) if len(text) <= 20 else _json_float(text)


def _json_float(text: str) -> float | str:
    # What no float64 can hold stays text in Go's YAML, which is what reads JSON there.
    value = float(text)
    return value if math.isfinite(value) else text


def _finite_int(text: str) -> int | float:
    return go_number(int(text)) if len(text) <= 20 else _finite_float(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isfinite(value):
        return value
    raise ValueError


def _no_constant(_text: str) -> Any:
    raise ValueError


def plain(value: object) -> Any:
    """A copy of a Python value as plain JSON values, or DocumentError; a cycle is too deep."""
    budget = Budget()

    def copied(value: object, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise DocumentError(TOO_DEEP)
        budget.spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return clean_text(value)
        if isinstance(value, Mapping):
            return {key_text(key): copied(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [copied(item, depth + 1) for item in value]
        if isinstance(value, int):
            return go_number(int(value))
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, datetime.date):
            # yaml.safe_load makes these of what Go's YAML leaves a string.
            return value.isoformat()
        raise DocumentError(f"a value of type {type(value).__name__}, which JSON does not have")

    return copied(value, 1)
