"""The certificates in a PEM bundle, taken as Go takes them. Pure."""

from __future__ import annotations

_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"


def certificates(data: bytes) -> list[str]:
    """Each certificate block, without the text around it; blocks with PEM headers do not count."""
    text = data.decode("ascii", "replace")
    found: list[str] = []
    # Not a regular expression: many BEGINs without an END would take it a time that grows as their square.
    start = 0
    while (end := text.find(_END, start)) >= 0:
        begin = text.rfind(_BEGIN, start, end)
        if begin >= 0 and ":" not in (body := text[begin + len(_BEGIN) : end]):
            found.append(f"{_BEGIN}{body}{_END}\n")
        start = end + len(_END)
    return found
