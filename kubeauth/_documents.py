"""JSON and YAML from strangers, with limits; the only reader of YAML.

Every document ends as plain JSON values (dict with str keys, list, str, int, float, bool, None) or as
a `DocumentError`. Whatever is read, the depth, the number of values and the work are bounded *before*
anything is built, and no error carries a piece of the text. YAML scalars have the types that Go's YAML
gives them (K9a): `y`, `on` and `no` are booleans, timestamps and base-60 numbers are strings.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A JSON value. Any, because a recursive alias helps nobody who has to take it apart."""

MAX_DEPTH = 100
MAX_ALIASES = 10_000
MAX_VALUES = 1_000_000
"""Counted as if every alias were written out. 10,000 contexts need about 400,000."""


class DocumentError(ValueError):
    """The document is refused. Callers turn this into an error of their own; it holds no text of it."""

    def __init__(self, reason: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column


TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
TOO_MANY_VALUES = f"more than {MAX_VALUES:,} values"
TOO_MANY_ALIASES = f"more than {MAX_ALIASES:,} alias expansions"


def read_document(data: bytes, *, limit: int) -> Json:
    """The first YAML or JSON document in `data`; None if there is none. Over `limit` bytes is refused."""
    if len(data) > limit:
        raise DocumentError(f"larger than {limit // 2**20} MiB")
    if data[:1] == b"{":
        try:
            return read_json(data)
        except DocumentError as error:
            if error.reason in (TOO_DEEP, TOO_MANY_VALUES):
                raise
            # A YAML flow mapping starts like JSON; the YAML parser also says best what is wrong.
    return read_yaml(data)


def read_json(data: bytes) -> Json:
    """`data` as one JSON value."""
    # An upper bound at the speed of memchr: every value but the first follows one of these.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise DocumentError(TOO_MANY_VALUES)
    failure: DocumentError
    try:
        value = json.loads(data, parse_int=_json_int, parse_float=_json_float, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        failure = DocumentError("not valid JSON", line=error.lineno, column=error.colno)
    except UnicodeDecodeError:
        failure = DocumentError("not valid UTF-8 text")
    except RecursionError:
        failure = DocumentError(TOO_DEEP)
    except ValueError:
        failure = DocumentError("a number that JSON does not have")
    else:
        return plain(value)
    # Outside the except clauses: JSONDecodeError keeps the whole document in .doc.
    raise failure


def _json_int(text: str) -> int | float:
    return _go_number(int(text)) if len(text) <= 20 else _json_float(text)


def _json_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError
    return value


def _no_constant(_text: str) -> Json:
    raise ValueError


def _go_number(value: int) -> int | float:
    # As Go's YAML: what fits neither int64 nor uint64 becomes a float64.
    return value if -(2**63) <= value < 2**64 else float(value)


def plain(value: object) -> Json:
    """A copy of a Python value as plain JSON values, or DocumentError; a cycle is too deep."""
    budget = _Budget()

    def copied(value: object, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise DocumentError(TOO_DEEP)
        budget.spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            text = str.__str__(value)
            if text.isascii():
                return text
            # A lone surrogate cannot be written out again; Go reads it as U+FFFD.
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if isinstance(value, Mapping):
            return {_key(key): copied(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [copied(item, depth + 1) for item in value]
        if isinstance(value, int):
            return _go_number(int(value))
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, datetime.date):
            # yaml.safe_load makes these of what Go's YAML leaves a string.
            return value.isoformat()
        raise DocumentError(f"a value of type {type(value).__name__}, which JSON does not have")

    return copied(value, 1)


@dataclass(slots=True)
class _Budget:
    values: int = 0
    aliases: int = 0

    def spend(self, values: int, aliases: int = 0) -> None:
        self.values += values
        self.aliases += aliases
        if self.values > MAX_VALUES:
            raise DocumentError(TOO_MANY_VALUES)
        if self.aliases > MAX_ALIASES:
            raise DocumentError(TOO_MANY_ALIASES)


def read_yaml(data: bytes, *, pure_python: bool = False) -> Json:
    """The first YAML document in `data`, built from parser events in one bounded pass."""
    import yaml

    # The C parser where PyYAML has it. Never its constructor: 100 KB of `[` crash the process there.
    make: Callable[[bytes], Any] = yaml.SafeLoader
    if not pure_python:
        make = getattr(yaml, "CBaseLoader", make)
    failure: DocumentError
    try:
        return _Builder(make(data)).first_document()
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        # The C parser's problems are fixed sentences; the Python one quotes the text, so it is not shown.
        known = make is not yaml.SafeLoader and error.problem
        failure = DocumentError(
            f"not valid YAML: {error.problem}" if known else "not valid YAML",
            line=mark and mark.line + 1,
            column=mark and mark.column + 1,
        )
    except (yaml.YAMLError, UnicodeDecodeError):
        failure = DocumentError("not text, or with characters that YAML does not allow")
    raise failure


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been seen yet."""

    value: Any
    anchor: str | None
    key: Any
    values_before: int
    aliases_before: int


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    values: int
    aliases: int


_NO_KEY = object()
_MERGE = object()


class _Builder:
    """Turns parser events into values, counting as it goes."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._budget = _Budget()
        self._anchors: dict[str, _Anchored | None] = {}
        self._open: list[_Open] = []
        self._root: Json = None

    def first_document(self) -> Json:
        from yaml import events as ev

        while True:
            event = self._parser.get_event()
            kind = type(event)
            try:
                if kind is ev.ScalarEvent:
                    self._scalar(event)
                elif kind is ev.MappingStartEvent or kind is ev.SequenceStartEvent:
                    self._start({} if kind is ev.MappingStartEvent else [], event.anchor)
                elif kind is ev.MappingEndEvent or kind is ev.SequenceEndEvent:
                    self._end()
                elif kind is ev.AliasEvent:
                    self._alias(event.anchor)
                elif kind is ev.DocumentEndEvent or kind is ev.StreamEndEvent:
                    return self._root
            except DocumentError as error:
                mark = event.start_mark
                raise DocumentError(error.reason, line=mark.line + 1, column=mark.column + 1) from None

    def _scalar(self, event: Any) -> None:
        self._budget.spend(1)
        if event.implicit[0]:
            # Plain. Most begin with a letter that no keyword and no number begins with.
            text: str = event.value
            is_key = self._open and self._open[-1].key is _NO_KEY and type(self._open[-1].value) is dict
            value = _MERGE if text == "<<" and is_key else resolved(text)
        elif event.tag is None or event.tag not in _TAGGED:
            value = event.value
        else:
            value = _TAGGED[event.tag](event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0)
        self._add(value)

    def _start(self, value: Any, anchor: str | None) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(TOO_DEEP)
        budget = self._budget
        if anchor is not None:
            self._anchors[anchor] = None  # open: an alias to it from inside would be a cycle
        self._open.append(_Open(value, anchor, _NO_KEY, budget.values, budget.aliases))
        budget.spend(1)

    def _end(self) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            budget = self._budget
            self._anchors[done.anchor] = _Anchored(
                done.value, budget.values - done.values_before, budget.aliases - done.aliases_before
            )
        self._add(done.value)

    def _alias(self, name: str) -> None:
        target = self._anchors.get(name)
        if target is None:
            inside = name in self._anchors
            raise DocumentError("an alias inside the very thing it names" if inside else "an unknown alias")
        self._budget.spend(target.values, target.aliases + 1)
        if len(self._open) + _depth(target.value) > MAX_DEPTH:
            raise DocumentError(TOO_DEEP)
        self._add(target.value)

    def _add(self, value: Any) -> None:
        if not self._open:
            self._root = value
            return
        top = self._open[-1]
        if type(top.value) is list:
            top.value.append(value)
        elif top.key is _NO_KEY:
            top.key = value if value is _MERGE else _key(value)
        elif top.key is _MERGE:
            top.key = _NO_KEY
            # As Go's YAML: of several the first wins, and what stands later in the mapping wins over all.
            for merged in reversed(value) if type(value) is list else [value]:
                if type(merged) is not dict:
                    raise DocumentError("a merge key (<<) of something that is not a mapping")
                top.value.update(merged)
        else:
            top.value[top.key] = value
            top.key = _NO_KEY


def _depth(value: Any) -> int:
    """How deep a value is nested; it was bounded when it was built."""
    if type(value) is dict:
        return 1 + max(map(_depth, value.values()), default=0)
    if type(value) is list:
        return 1 + max(map(_depth, value), default=0)
    return 0


def _key(value: object) -> str:
    """A mapping key as JSON has it: Go writes numbers and booleans as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    raise DocumentError("a mapping key that is not text")


_WORDS: dict[str, Any] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_SPECIAL_STARTS = frozenset("yYnNtTfFoO~+-.0123456789")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")


def resolved(text: str) -> Json:
    """A plain YAML scalar with the type that Go's YAML gives it."""
    if text and text[0] not in _SPECIAL_STARTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise DocumentError("a number that JSON does not have")
    digits = text.replace("_", "") if text[0] != "." else text
    if len(digits) <= 70 and (match := _INT.fullmatch(digits)):
        sign, hexadecimal, binary, octal, decimal = match.groups()
        base, body = next(
            (base, body)
            for base, body in ((16, hexadecimal), (2, binary), (8, octal), (10, decimal))
            if body is not None
        )
        number = int(body, base) * (-1 if sign == "-" else 1)
        if -(2**63) <= number < 2**63 or (not sign and number < 2**64):
            return number
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        if math.isfinite(value):
            return value
        raise DocumentError("a number that JSON does not have")
    return text


def _tagged_bool(text: str) -> bool:
    value = _WORDS.get(text)
    if not isinstance(value, bool):
        raise DocumentError("a !!bool that is not a boolean")
    return value


def _tagged_number(text: str) -> int | float:
    value = resolved(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DocumentError("a !!int or !!float that is not a number")
    return value


def _tagged_null(text: str) -> None:
    if _WORDS.get(text, text) is not None:
        raise DocumentError("a !!null that is not null")


# Tags nobody knows leave a scalar the text it is, as Go's YAML does; nothing is ever constructed.
_TAGGED: dict[str, Callable[[str], Json]] = {
    "tag:yaml.org,2002:bool": _tagged_bool,
    "tag:yaml.org,2002:int": _tagged_number,
    "tag:yaml.org,2002:float": _tagged_number,
    "tag:yaml.org,2002:null": _tagged_null,
}
