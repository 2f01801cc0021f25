"""The short-lived JWT that a request is signed with, in the seed's mode: made, and checked (A74-A79). Pure.

It proves that whoever asks has the token, and does not show it: the server is not trusted yet.
"""

from __future__ import annotations

import binascii
import hmac
import math
import re
from dataclasses import dataclass, field
from typing import TypeGuard

from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._parsing.go import go_json
from kubeauth._secret import Secret
from kubeauth.discovery._jws import as_bytes, checked, encoded, mac, token_of
from kubeauth.discovery._token import BootstrapToken, is_token_id, is_token_secret
from kubeauth.errors import ConfigError

LONGEST_LIFE = 120
"""Seconds. Who asks for more is refused."""
LONGEST_SKEW = 30
# Ours is a few hundred bytes; of a stranger's no more than this is ever parsed.
_LONGEST = 8192
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE | re.ASCII)
# Signs for ids that nobody has, so that they take as long as those that somebody has (A79).
_NOBODYS = Secret("0" * 16)


def request_jwt(
    token: BootstrapToken | str, *, now: float, lifetime: int = 60, audience: str | None = None
) -> Secret[str]:
    """A JWT for one request: `Authorization: Bearer <it>`.

    `audience` is the id of the cluster, if it has one. ConfigError if it is to live longer
    than two minutes: no server would take it.
    """
    maybe = token_of(token)
    del token  # what is raised may show variables
    given = checked(maybe)
    if not 0 < lifetime <= LONGEST_LIFE:
        raise ConfigError(f"a JWT lives up to {LONGEST_LIFE} seconds, not {lifetime}")
    issued = math.floor(now)
    claims: Json = {} if audience is None else {"aud": audience}
    claims |= {"exp": issued + lifetime, "iat": issued, "sub": given.id}
    parts = {"alg": "HS256", "kid": given.id, "typ": "JWT"}, claims
    signed = b".".join(encoded(as_bytes(go_json(part))) for part in parts)
    return Secret((signed + b"." + encoded(mac(given.secret, signed))).decode())


@dataclass(frozen=True, slots=True)
class PresentedJwt:
    """A JWT that claims to be signed with a bootstrap token. Nothing that it says is true yet."""

    id: str
    """Of the token, it says."""
    signed: bytes = field(repr=False)
    claims: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Somebody else may know what it is."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It is for us, and no good. Why is for the log: whoever sent it is told nothing."""

    reason: str


NOT_OURS = NotOurs()


def presented(authorization: str) -> PresentedJwt | NotOurs | Refused:
    """What an Authorization header brings. Raises nothing: it may hold somebody's secret."""
    bearer = _BEARER.fullmatch(authorization)
    if bearer is None or len(bearer[1]) > _LONGEST:
        return NOT_OURS
    parts = bearer[1].split(".")
    decoded = [_decoded(part) for part in parts]
    if len(parts) != 3 or decoded[0] is None or decoded[1] is None or decoded[2] is None:
        return NOT_OURS
    header = _object(decoded[0])
    # Never chosen by it: there is one algorithm, and who names another is not talking to us (A85).
    if header is None or header.get("alg") != "HS256":
        return NOT_OURS
    token_id = header.get("kid")
    if header.get("typ") != "JWT":
        return Refused("its typ is not JWT")  # the signature of a text, perhaps: A88
    if "crit" in header:
        return Refused("it has a crit, and nothing critical is understood")
    if not isinstance(token_id, str) or not is_token_id(token_id):
        return Refused("its kid is not the id of a bootstrap token")
    return PresentedJwt(token_id, f"{parts[0]}.{parts[1]}".encode(), decoded[1], decoded[2])


def jwt_problem(
    jwt: PresentedJwt,
    secret: Secret[str] | None,
    *,
    now: float,
    skew: float = 0,
    cluster_id: str | None = None,
) -> str | None:
    """Why it is not to be believed; None if it is. `secret` is that of the token; None if there is none."""
    # One that has not the form of a bootstrap token's is none here: some can be guessed (A11).
    is_known = secret is not None and is_token_secret(secret)
    signature = mac(secret if secret is not None and is_known else _NOBODYS, jwt.signed)
    if not hmac.compare_digest(signature, jwt.signature) or not is_known:
        return "there is no such token, or it was signed with another"
    claims = _object(jwt.claims)
    if claims is None:
        return "its claims are not a JSON object"
    return _claims_problem(claims, jwt.id, now, skew, cluster_id)


def _claims_problem(
    claims: dict[str, Json], token_id: str, now: float, skew: float, cluster_id: str | None
) -> str | None:
    if claims.get("sub") != token_id:
        return "its sub is not its kid"
    expires: Json = claims.get("exp")
    if not _is_number(expires):
        return "its exp is not a number"
    # Without the skew: that is for clocks that disagree, and must let nothing live longer (A78).
    if now >= expires:
        return "it is over"
    if expires > now + LONGEST_LIFE:
        return f"it ends in more than {LONGEST_LIFE} seconds"
    for name in ("iat", "nbf"):
        if name in claims and not (_is_number(claims[name]) and claims[name] <= now + skew):
            return f"its {name} is not a number, or not yet"
    if cluster_id is not None and "aud" in claims and not _is_for(claims["aud"], cluster_id):
        return "it is for another cluster"
    return None


def _is_for(audience: Json, cluster_id: str) -> bool:
    return audience == cluster_id or (isinstance(audience, list) and cluster_id in audience)


def _is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decoded(part: str) -> bytes | None:
    """base64url, written in the one way there is to write it."""
    if not _BASE64URL.fullmatch(part) or len(part) % 4 == 1:
        return None
    data = binascii.a2b_base64(part.replace("-", "+").replace("_", "/") + "=" * (-len(part) % 4))
    # The last character has bits to spare, which a decoder skips.
    return data if encoded(data) == part.encode() else None


def _object(data: bytes) -> dict[str, Json] | None:
    """JSON without a key that is there twice: the next reader might take the other."""
    repeated: list[str] = []
    try:
        found = read_json(data, repeated=repeated)
    except DocumentError:
        return None
    return found if isinstance(found, dict) and not repeated else None
