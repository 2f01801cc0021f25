"""The install hint is a stranger's text on its way to a terminal."""

from __future__ import annotations

import unicodedata

_SPACES = frozenset("\t\n\v\f\r")


def clean_hint(text: str) -> str:
    """`text` with every character that could steer a terminal written as U+XXXX (X29)."""
    return "".join(
        char if char in _SPACES or unicodedata.category(char)[0] in "LMNPSZ" else f"U+{ord(char):04X}"
        for char in text
    )
