"""YAML scalars and mapping keys, with the types of Go's YAML (K9a). Pure."""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable
from typing import Any

from kubeauth._parsing.limits import INVALID_NUMBER, DocumentError


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
