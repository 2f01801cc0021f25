"""Until when an id-token is good (O3). Pure; its signature is the API server's business."""

from __future__ import annotations

import binascii
import math
import re

from kubeauth._parsing import DocumentError, read_json
from kubeauth._secret import Secret

# As client-go: so much earlier, since no two clocks agree.
LEEWAY = 10.0

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


def ends_of(token: Secret[str]) -> float | str:
    """Its `exp`, in seconds since 1970; or what is wrong with it. Raises nothing: it holds the token."""
    parts = token.reveal().split(".")
    if len(parts) != 3:
        return "ID Token is not a valid JWT"
    payload = parts[1].replace("\r", "").replace("\n", "")  # which Go skips
    if not _BASE64URL.fullmatch(payload) or len(payload) % 4 == 1:
        return "ID Token is not a valid JWT: its payload is not base64url without padding"
    data = binascii.a2b_base64(payload.replace("-", "+").replace("_", "/") + "=" * (-len(payload) % 4))
    try:
        claims = read_json(data)
    except DocumentError:
        claims = None
    if not isinstance(claims, dict):
        return "parsing claims: the payload of the ID Token is not a JSON object"
    # As Go has it: without exp it was over long ago, and a number may stand in quotes.
    expires = claims.get("exp", 0)
    if isinstance(expires, str) and _NUMBER.fullmatch(expires):
        expires = float(expires)
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not math.isfinite(expires):
        return "parsing claims: exp of the ID Token is not a number"
    # Whole seconds, as client-go makes of it.
    return float(math.trunc(expires))


def is_good(ends: float, now: float) -> bool:
    """Whether a token that ends then may still be sent."""
    return now + LEEWAY < ends


def last_moment(ends: float) -> float:
    """The last moment that it is good."""
    return math.nextafter(ends - LEEWAY, -math.inf)
