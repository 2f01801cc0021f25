"""Header values that decide how much is read: one strict parser for all of them. Pure."""

from __future__ import annotations

# Any length that fits an int64. h11 accepts 20 digits; RFC 9110, 8.6 leaves the limit to the recipient.
MAX_DIGITS = 18


def parse_content_length(value: str | bytes) -> int | None:
    """The number in a Content-Length header; None if it is not valid.

    ASCII digits alone, as RFC 9110, 8.6 has it: `str.isdigit` also accepts `²`, and `int` accepts signs,
    underscores, white space and digits of every script, and raises ValueError for thousands of digits.
    """
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        return None
    return int(text)
