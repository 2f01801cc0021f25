"""The certificates in a PEM bundle, taken as Go takes them. Pure."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----[ \t]*\r?\n(.*?)-----END CERTIFICATE-----", re.DOTALL)


def certificates(data: bytes) -> list[str]:
    """Each certificate block, without the text around it; blocks with PEM headers do not count."""
    blocks = _BLOCK.finditer(data.decode("ascii", "replace"))
    return [block[0] + "\n" for block in blocks if ":" not in block[1]]
