"""Read YAML: build values from parser events in one pass, within limits."""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubeauth._parsing.json import replace_surrogates, to_key
from kubeauth._parsing.limits import INVALID_NUMBER, MAX_DEPTH, TOO_DEEP, Budget, DocumentError

# libyaml searches all %TAG directives for each tag, and copies the prefix: with thousands of them, parsing
# would take hours. In UTF-16 there is a NUL between letters.
_TAG_DIRECTIVE = re.compile(rb"%\0?T\0?A\0?G[^\r\n]*")
_MAX_TAG_DIRECTIVES = 16
_MAX_TAG_DIRECTIVE_BYTES = 1024
# Without libyaml, parsing is about thirty times slower, so the limit is lower.
_PURE_PYTHON_LIMIT = 2 * 2**20


def read_yaml(
    data: bytes, *, whole: bool = False, repeated: list[str] | None = None, pure_python: bool = False
) -> Any:
    """Return the first YAML document in `data`.

    Anything after it is ignored or, with `whole`, an error. Of a repeated key the last wins; its name is
    added to `repeated`.
    """
    import yaml

    # The C parser, if PyYAML has it. Never PyYAML's constructor: 100 KB of `[` would crash the process.
    make_parser: Callable[[bytes], Any] = yaml.SafeLoader
    if not pure_python:
        make_parser = getattr(yaml, "CBaseLoader", make_parser)
    for number, directive in enumerate(_TAG_DIRECTIVE.finditer(data), start=1):
        if number > _MAX_TAG_DIRECTIVES or len(directive[0]) > _MAX_TAG_DIRECTIVE_BYTES:
            raise DocumentError("too many or too long %TAG directives")
    if make_parser is yaml.SafeLoader and len(data) > _PURE_PYTHON_LIMIT:
        raise DocumentError(
            f"larger than {_PURE_PYTHON_LIMIT // 2**20} MiB, and PyYAML was built without libyaml"
        )
    failure: DocumentError
    try:
        return _Builder(make_parser(data), repeated).build(whole)
    except DocumentError:
        raise
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        # The C parser's messages are fixed sentences; those of the Python parser quote the text.
        is_fixed = make_parser is not yaml.SafeLoader and error.problem
        failure = DocumentError(
            f"not valid YAML: {error.problem}" if is_fixed else "not valid YAML",
            line=mark and mark.line + 1,
            column=mark and mark.column + 1,
        )
    except (yaml.YAMLError, ValueError):
        failure = DocumentError("not text, or it contains characters that YAML does not allow")
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
    """A value with an anchor, and how many values and aliases an alias to it adds."""

    value: Any
    values: int
    aliases: int


_NO_KEY = object()
_MERGE = object()
_MERGE_TAG = "tag:yaml.org,2002:merge"


class _Builder:
    """Builds values from parser events, and counts them."""

    def __init__(self, parser: Any, repeated: list[str] | None) -> None:
        self._parser = parser
        self._repeated = repeated
        self._budget = Budget()
        self._anchors: dict[str, _Anchored | None] = {}
        self._open: list[_Open] = []
        self._root: Any = None
        self._started = False

    def build(self, whole: bool) -> Any:
        """Return the first document."""
        from yaml import events as ev

        while True:
            event = self._parser.get_event()
            kind = type(event)
            try:
                if kind is ev.ScalarEvent:
                    self._add_scalar(event)
                elif kind is ev.MappingStartEvent or kind is ev.SequenceStartEvent:
                    self._open_collection({} if kind is ev.MappingStartEvent else [], event.anchor)
                elif kind is ev.MappingEndEvent or kind is ev.SequenceEndEvent:
                    self._close_collection()
                elif kind is ev.AliasEvent:
                    self._add_alias(event.anchor)
                elif kind is ev.StreamEndEvent or (kind is ev.DocumentEndEvent and not whole):
                    return self._root
                elif kind is ev.DocumentStartEvent:
                    self._start_document()
            except DocumentError as error:
                mark = event.start_mark
                raise DocumentError(error.reason, line=mark.line + 1, column=mark.column + 1) from None

    def _start_document(self) -> None:
        if self._started:
            raise DocumentError("another document follows the first")
        self._started = True

    def _add_scalar(self, event: Any) -> None:
        self._budget.spend(1)
        text: str = event.value
        tag: str | None = event.tag
        merges = text == "<<" and (event.implicit[0] if tag is None else tag == _MERGE_TAG)
        value: Any
        if tag is not None and tag in TAG_RESOLVERS:
            value = TAG_RESOLVERS[tag](text)
        elif event.implicit[0] and tag is None:
            value = resolve_scalar(text)
        else:
            value = replace_surrogates(text)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0)
        is_key = self._open and self._open[-1].key is _NO_KEY and type(self._open[-1].value) is dict
        self._add(_MERGE if merges and is_key else value)

    def _open_collection(self, value: Any, anchor: str | None) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(TOO_DEEP)
        budget = self._budget
        if anchor is not None:
            self._anchors[anchor] = None  # not closed yet: an alias inside it would be a cycle
        self._open.append(_Open(value, anchor, _NO_KEY, budget.values, budget.aliases))
        budget.spend(1)

    def _close_collection(self) -> None:
        closed = self._open.pop()
        if closed.anchor is not None:
            budget = self._budget
            self._anchors[closed.anchor] = _Anchored(
                closed.value, budget.values - closed.values_before, budget.aliases - closed.aliases_before
            )
        self._add(closed.value)

    def _add_alias(self, name: str) -> None:
        target = self._anchors.get(name)
        if target is None:
            is_inside = name in self._anchors
            raise DocumentError(
                "an alias inside the value that it refers to" if is_inside else "an unknown alias"
            )
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
            top.key = value if value is _MERGE else to_key(value)
        elif top.key is _MERGE:
            top.key = _NO_KEY
            # As in Go's YAML: the first of several merged mappings wins, and later keys of this mapping win
            # over them.
            for merged in reversed(value) if type(value) is list else [value]:
                if type(merged) is not dict:
                    raise DocumentError("a merge key (<<) of something that is not a mapping")
                if self._repeated is not None:
                    # In strict mode, Go's YAML rejects a merged key that the mapping already has.
                    self._repeated += [key for key in merged if key in top.value]
                top.value.update(merged)
        else:
            if self._repeated is not None and top.key in top.value:
                self._repeated.append(top.key)
            top.value[top.key] = value
            top.key = _NO_KEY


def _depth(value: Any) -> int:
    """Return the nesting depth. Recursion is safe: the depth was limited when the value was built."""
    if type(value) is dict:
        return 1 + max(map(_depth, value.values()), default=0)
    if type(value) is list:
        return 1 + max(map(_depth, value), default=0)
    return 0


_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_SPECIAL_STARTS = frozenset("yYnNtTfFoO~+-.0123456789")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")


def resolve_scalar(text: str) -> Any:
    """Return the value of a plain YAML scalar, with the type of Go's YAML."""
    if text and text[0] not in _SPECIAL_STARTS:
        return replace_surrogates(text)
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return replace_surrogates(text)
    if _NOT_FINITE.fullmatch(text):
        raise DocumentError(INVALID_NUMBER)
    digits = text.replace("_", "")
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
    if _FLOAT.fullmatch(digits) and math.isfinite(value := float(digits)):
        return value
    return replace_surrogates(text)


def _resolve_bool(text: str) -> bool:
    value = _CONSTANTS.get(text)
    if not isinstance(value, bool):
        raise DocumentError("a !!bool that is not a boolean")
    return value


def _resolve_int(text: str) -> int:
    value = resolve_scalar(text)
    if isinstance(value, bool) or not isinstance(value, int):
        raise DocumentError("an !!int that is not an integer")
    return value


def _resolve_float(text: str) -> float:
    value = resolve_scalar(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DocumentError("a !!float that is not a number")
    return value


def _resolve_binary(text: str) -> str:
    try:
        return binascii.a2b_base64("".join(text.split()), strict_mode=True).decode("utf-8", "replace")
    except ValueError:
        raise DocumentError("a !!binary that is not base64") from None


def _resolve_null(text: str) -> None:
    if _CONSTANTS.get(text, text) is not None:
        raise DocumentError("a !!null that is not null")


# A scalar with an unknown tag stays text, as in Go's YAML; no object is ever constructed.
TAG_RESOLVERS: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:bool": _resolve_bool,
    "tag:yaml.org,2002:binary": _resolve_binary,
    "tag:yaml.org,2002:int": _resolve_int,
    "tag:yaml.org,2002:float": _resolve_float,
    "tag:yaml.org,2002:null": _resolve_null,
}
