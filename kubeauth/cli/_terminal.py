"""Strangers' text on its way to a terminal. Pure."""

from __future__ import annotations

import unicodedata

# Neither can move the cursor to where something else stands.
_WELCOME = frozenset("\n\t")


def harmless(text: str) -> str:
    """`text` with every character that could steer a terminal spelled out, as in all errors: U+001B."""
    if text.isprintable():
        return text
    # Each different character is looked at once: the text may be long.
    unsafe = {ord(char): f"U+{ord(char):04X}" for char in set(text) - _WELCOME if not is_visible(char)}
    return text.translate(unsafe)


def is_visible(char: str) -> bool:
    """Letters, marks, numbers, punctuation, symbols and blanks; but no separators of lines."""
    category = unicodedata.category(char)
    return category[0] in "LMNPS" or category == "Zs"
