"""What an issuer is asked and what it answers: discovery and the refresh_token grant (O5, O6). Pure.

Nothing here raises for what an issuer says: what is wrong is returned, so that no traceback holds an answer.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote_plus, urlencode

from kubeauth._config.auth_provider import OidcConfig
from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._secret import Secret

MAX_RESPONSE_SIZE = 2**20
# Of what a stranger says, in an error.
_MAX_SHOWN = 80

ID_NOT_RETURNED = (
    'token response did not contain an id_token, either the scope "openid" wasn\'t requested upon login, or '
    "the provider doesn't support id_tokens as part of the refresh response"
)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """One request."""

    url: str
    body: Secret[bytes] | None = None
    """None: a GET."""
    authorization: Secret[str] | None = None


@dataclass(frozen=True, slots=True)
class TokenResponse:
    status_code: int
    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Why there is none."""

    reason: str


Fetch = Callable[[TokenRequest], TokenResponse | NoResponse]
"""Makes a request, blocking, within the time and the trust that the configuration gives it."""


@dataclass(frozen=True, slots=True)
class OidcProblem:
    """What is wrong, in client-go's words where it has any, and what to do."""

    reason: str
    advice: str
    is_rejected: bool = False
    """Whether the issuer answered with an error: it may want the client's secret in another way."""


@dataclass(frozen=True, slots=True)
class TokenSet:
    id_token: Secret[str] | None
    refresh_token: Secret[str] | None


def build_discovery_request(issuer_url: str) -> TokenRequest:
    """Where an issuer says where its endpoints are."""
    return TokenRequest(issuer_url.removesuffix("/") + "/.well-known/openid-configuration")


def parse_discovery(reply: TokenResponse) -> str | OidcProblem:
    """The URL to refresh at (O5)."""
    if reply.status_code != 200:
        # Not a secret: anybody may ask this.
        said = _truncate(reply.body.decode("utf-8", "replace"))
        return OidcProblem(
            f'oidc: failed to query metadata endpoint {reply.status_code}: "{said}"',
            "Is idp-issuer-url right, and is the issuer at work?",
        )
    found = _parse_json(reply.body)
    if not isinstance(found, dict):
        return OidcProblem(
            "oidc: failed to decode provider discovery object: it is not a JSON object",
            "Is idp-issuer-url right? A proxy or a login page may have answered instead.",
        )
    url = found.get("token_endpoint")
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        return OidcProblem(
            "oidc: discovery object doesn't contain a token_endpoint", "Is idp-issuer-url right?"
        )
    return url


def build_refresh_request(
    url: str, config: OidcConfig, refresh_token: Secret[str], *, in_header: bool
) -> TokenRequest:
    """The refresh_token grant, with the client's id and secret where this issuer wants them."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
    secret = config.client_secret.reveal() if config.client_secret else ""
    header: Secret[str] | None = None
    if in_header:
        # Encoded twice, as RFC 6749 has it and golang.org/x/oauth2 does it.
        pair = f"{quote_plus(config.client_id)}:{quote_plus(secret)}"
        header = Secret(f"Basic {b64encode(pair.encode()).decode()}")
    else:
        form["client_id"] = config.client_id
        if secret:
            form["client_secret"] = secret
    return TokenRequest(url, Secret(urlencode(form).encode()), header)


def parse_token_response(reply: TokenResponse, secrets: tuple[str, ...]) -> TokenSet | OidcProblem:
    """What came of a grant. `secrets` are not repeated, should the issuer do so."""
    found = _parse_body(reply)
    failed = not 200 <= reply.status_code <= 299
    code = found.get("error") if found is not None else None
    if failed or code:
        return _parse_error(reply, found or {}, secrets)
    if found is None:
        return OidcProblem(
            f"failed to refresh token: oauth2: cannot parse the reply (status {reply.status_code})",
            "It is not JSON. Is the token endpoint that of an issuer, or has a proxy answered instead?",
        )
    if not _get_text(found, "access_token"):
        advice = "The issuer does not keep to OAuth 2.0: tell whoever runs it."
        return OidcProblem("failed to refresh token: oauth2: server response missing access_token", advice)
    return TokenSet(_get_secret(found, "id_token"), _get_secret(found, "refresh_token"))


def _parse_error(reply: TokenResponse, found: Mapping[str, Json], secrets: tuple[str, ...]) -> OidcProblem:
    """Of a reply that may hold tokens only the two members that are meant for people are repeated."""
    code = _redact(_get_text(found, "error"), secrets)
    said = _redact(_get_text(found, "error_description"), secrets)
    words = f'oauth2: "{code}"' if code else f"oauth2: cannot fetch token: status {reply.status_code}"
    advice = "Check client-id and client-secret, and what the issuer's own log says."
    if code == "invalid_grant":
        advice = (
            "The refresh-token is over, was revoked, or was used by somebody else already: log in again, as "
            "you did to get it."
        )
    reason = f'failed to refresh token: {words} "{said}"' if said else f"failed to refresh token: {words}"
    return OidcProblem(reason, advice, is_rejected=True)


def _parse_body(reply: TokenResponse) -> Mapping[str, Json] | None:
    kind = reply.content_type.partition(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "text/plain"):
        # Some endpoints do; x/oauth2 goes by this alone.
        return dict(parse_qsl(reply.body.decode("utf-8", "replace"))) or None
    found = _parse_json(reply.body)
    return found if isinstance(found, dict) else None


def _parse_json(body: bytes) -> Json:
    try:
        return read_json(body)
    except DocumentError:
        return None


def _get_text(found: Mapping[str, Json], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _get_secret(found: Mapping[str, Json], name: str) -> Secret[str] | None:
    text = _get_text(found, name)
    return Secret(text) if text else None


def _redact(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "<hidden>")
    return _truncate(text)


def _truncate(text: str) -> str:
    text = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    # In quotes, on one line: it is a stranger's.
    return json.dumps(text, ensure_ascii=False)[1:-1]


# As client-go: so much earlier, since no two clocks agree.
LEEWAY = 10.0

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


def read_expiry(token: Secret[str]) -> float | str:
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


def is_valid(ends: float, now: float) -> bool:
    """Whether a token that ends then may still be sent."""
    return now + LEEWAY < ends


def last_valid_time(ends: float) -> float:
    """The last moment that it is good."""
    return math.nextafter(ends - LEEWAY, -math.inf)
