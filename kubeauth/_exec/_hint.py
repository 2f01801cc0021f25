"""The install hint is a stranger's text on its way to a terminal."""

from __future__ import annotations

import unicodedata

_SPACES = frozenset("\t\n\v\f\r")


def clean_hint(text: str) -> str:
    """`text` with every character that could steer a terminal written as U+XXXX (X29)."""
    # Each different character is looked at once: the hint may be long.
    unsafe = {
        ord(char): f"U+{ord(char):04X}"
        for char in set(text)
        if char not in _SPACES and unicodedata.category(char)[0] not in "LMNPSZ"
    }
    return text.translate(unsafe) if unsafe else text
