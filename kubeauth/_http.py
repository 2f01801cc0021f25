"""A strict parser for Content-Length, for servers and clients. Pure."""

from __future__ import annotations

# These fit an int64. h11 accepts 20 digits; RFC 9110, 8.6 leaves the limit to the recipient.
MAX_DIGITS = 18


def parse_content_length(value: str | bytes) -> int | None:
    """Return the number in a Content-Length header; None if it is not valid.

    Only ASCII digits are valid (RFC 9110, 8.6). `str.isdigit` also accepts `²`; `int` accepts signs,
    underscores, white space and digits of every script, and raises ValueError for thousands of digits.
    """
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        return None
    return int(text)
