"""JSON as Go writes it, so that a plugin reads the same bytes whoever runs it (X4, X7). Pure."""

from __future__ import annotations

import json

from kubeauth._documents import Json

# Go writes JSON so that it may be put into HTML.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def in_order(value: Json) -> Json:
    """A copy with the keys of every mapping in the order that Go gives them: sorted, and text."""
    return json.loads(json.dumps(value, sort_keys=True, allow_nan=False))


def written(value: Json) -> str:
    """`value` on one line, in the order it has."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(key)}:{written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)


def _number(value: float) -> str:
    """Digits alone where they are few: a plugin in Go reads 1000 as an integer, and 1000.0 not."""
    from decimal import Decimal  # for the few kubeconfigs with such a number

    shortest = repr(value)
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(shortest):f}".removesuffix(".0")
    digits, _, exponent = shortest.partition("e")
    return f"{digits}e{int(exponent):+d}"
