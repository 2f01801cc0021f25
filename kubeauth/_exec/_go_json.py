"""JSON as Go writes it, so that a plugin reads the same bytes whoever runs it (X4, X7). Pure."""

from __future__ import annotations

import json
from decimal import Decimal

from kubeauth._documents import Json


def in_order(value: Json) -> Json:
    """A copy with the keys of every mapping in the order that Go gives them: sorted, and text."""
    return json.loads(json.dumps(value, sort_keys=True, allow_nan=False))


def written(value: Json) -> str:
    """`value` on one line, in the order it has."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(key)}:{written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return _number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """Digits alone where they are few: a plugin in Go reads 1000 as an integer, and 1000.0 not."""
    shortest = repr(value)
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(shortest):f}".removesuffix(".0")
    digits, _, exponent = shortest.partition("e")
    return f"{digits}e{int(exponent):+d}"
