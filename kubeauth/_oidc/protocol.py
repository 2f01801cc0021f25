"""Requests and responses of an OIDC issuer: discovery, the refresh_token grant, id-tokens (O5, O6). No I/O.

Invalid responses are returned as an OidcProblem and not raised, so that no traceback refers to a response.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, quote_plus, urlencode

from kubeauth import schemas
from kubeauth._config.auth_provider import OidcConfig
from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._secret import Secret

if TYPE_CHECKING:
    from kubeauth.schemas import Model

MAX_RESPONSE_SIZE = 2**20
# Characters of untrusted text in an error message.
_MAX_QUOTED = 80

ID_NOT_RETURNED = (
    'token response did not contain an id_token, either the scope "openid" wasn\'t requested upon login, or '
    "the provider doesn't support id_tokens as part of the refresh response"
)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request to an issuer."""

    url: str
    body: Secret[bytes] | None = None
    """None for a GET request."""
    authorization: Secret[str] | None = None


@dataclass(frozen=True, slots=True)
class TokenResponse:
    status_code: int
    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Why the issuer returned no response."""

    reason: str


Fetch = Callable[[TokenRequest], TokenResponse | NoResponse]
"""Sends a request and blocks for the response. Applies the timeout, proxy and CA of the OidcConfig."""


@dataclass(frozen=True, slots=True)
class OidcProblem:
    """What is wrong, in the words of client-go if it has a message for it, and what to do."""

    reason: str
    advice: str
    is_rejected: bool = False
    """Whether the issuer returned an error. It may expect the client secret in the other place."""


def build_discovery_request(issuer_url: str) -> TokenRequest:
    """Build the request for the issuer's discovery document."""
    return TokenRequest(issuer_url.removesuffix("/") + "/.well-known/openid-configuration")


def parse_discovery(response: TokenResponse) -> str | OidcProblem:
    """Return the URL of the token endpoint (O5)."""
    if response.status_code != 200:
        # The request needs no credentials, so its response contains no secrets.
        text = _quote(response.body.decode("utf-8", "replace"))
        return OidcProblem(
            f'oidc: failed to query metadata endpoint {response.status_code}: "{text}"',
            "Check that idp-issuer-url is correct and that the issuer is running.",
        )
    metadata = _validate(schemas.OIDCProviderMetadata, _parse_json(response.body))
    if metadata is None:
        return OidcProblem(
            "oidc: failed to decode provider discovery object: it is not a JSON object with a token_endpoint",
            "Check idp-issuer-url. The response may have come from a proxy or a login page.",
        )
    if not metadata.token_endpoint.startswith(("https://", "http://")):
        return OidcProblem("oidc: discovery object doesn't contain a token_endpoint", "Check idp-issuer-url.")
    return metadata.token_endpoint


def build_refresh_request(
    url: str, config: OidcConfig, refresh_token: Secret[str], *, in_header: bool
) -> TokenRequest:
    """Build the refresh_token grant, with client id and secret in the header or in the form."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
    secret = config.client_secret.reveal() if config.client_secret else ""
    header: Secret[str] | None = None
    if in_header:
        # Form-encoded and then base64-encoded, as in RFC 6749 and golang.org/x/oauth2.
        pair = f"{quote_plus(config.client_id)}:{quote_plus(secret)}"
        header = Secret(f"Basic {b64encode(pair.encode()).decode()}")
    else:
        form["client_id"] = config.client_id
        if secret:
            form["client_secret"] = secret
    return TokenRequest(url, Secret(urlencode(form).encode()), header)


def parse_token_response(
    response: TokenResponse, secrets: tuple[str, ...]
) -> schemas.TokenResponse | OidcProblem:
    """Parse the response to a grant. `secrets` are redacted from messages that quote the response."""
    tokens = _validate(schemas.TokenResponse, _parse_body(response))
    is_error = not 200 <= response.status_code <= 299
    if is_error or (tokens is not None and tokens.error):
        return _build_error(response, tokens or schemas.TokenResponse(), secrets)
    if tokens is None:
        return OidcProblem(
            f"failed to refresh token: oauth2: cannot parse the response (status {response.status_code})",
            "It is not JSON. Check the issuer's token endpoint; the response may have come from a proxy.",
        )
    if not tokens.access_token:
        advice = "The issuer violates OAuth 2.0: report this to its administrator."
        return OidcProblem("failed to refresh token: oauth2: server response missing access_token", advice)
    return tokens


def _build_error(
    response: TokenResponse, tokens: schemas.TokenResponse, secrets: tuple[str, ...]
) -> OidcProblem:
    """Quote only `error` and `error_description`, because other parts of the response may be tokens."""
    code = _redact(tokens.error, secrets)
    description = _redact(tokens.error_description, secrets)
    reason = f'oauth2: "{code}"' if code else f"oauth2: cannot fetch token: status {response.status_code}"
    advice = "Check client-id and client-secret, and see the issuer's log."
    if code == "invalid_grant":
        advice = (
            "The refresh-token has expired, was revoked, or was already used by another client: log in "
            "again, as you did to get it."
        )
    suffix = f' "{description}"' if description else ""
    return OidcProblem(f"failed to refresh token: {reason}{suffix}", advice, is_rejected=True)


def _parse_body(response: TokenResponse) -> Json:
    media_type = response.content_type.partition(";")[0].strip().lower()
    if media_type in ("application/x-www-form-urlencoded", "text/plain"):
        # Some issuers use these instead of JSON. Like x/oauth2, look only at the content type.
        return dict(parse_qsl(response.body.decode("utf-8", "replace"))) or None
    return _parse_json(response.body)


def _parse_json(body: bytes) -> Json:
    try:
        return read_json(body)
    except DocumentError:
        return None


_Model = TypeVar("_Model", bound="Model")


def _validate(model: type[_Model], document: Json) -> _Model | None:
    # Here, because a client with a token does not need pydantic.
    from kubeauth._parsing.models import Invalid, validate_document

    found = None if document is None else validate_document(model, document)
    return None if isinstance(found, Invalid) else found


def _redact(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "<hidden>")
    return _quote(text)


def _quote(text: str) -> str:
    """Truncate untrusted text, and escape it to one line."""
    text = text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."
    return json.dumps(text, ensure_ascii=False)[1:-1]


# Seconds before `exp` at which a token is treated as expired, as in client-go, because clocks differ.
EXPIRY_LEEWAY = 10.0

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


def read_expiry(token: Secret[str]) -> float | str:
    """Return the `exp` of an id-token in seconds since 1970, or what is wrong with the token.

    Raise nothing, so that no traceback refers to the token.
    """
    parts = token.reveal().split(".")
    if len(parts) != 3:
        return "ID Token is not a valid JWT"
    payload = parts[1].replace("\r", "").replace("\n", "")  # ignored by Go
    if not _BASE64URL.fullmatch(payload) or len(payload) % 4 == 1:
        return "ID Token is not a valid JWT: its payload is not base64url without padding"
    data = binascii.a2b_base64(payload.replace("-", "+").replace("_", "/") + "=" * (-len(payload) % 4))
    try:
        claims = read_json(data)
    except DocumentError:
        claims = None
    if not isinstance(claims, dict):
        return "parsing claims: the payload of the ID Token is not a JSON object"
    # Like Go: without exp the token has expired, and exp may be a number in quotes.
    expires = claims.get("exp", 0)
    if isinstance(expires, str) and _NUMBER.fullmatch(expires):
        expires = float(expires)
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not math.isfinite(expires):
        return "parsing claims: exp of the ID Token is not a number"
    # client-go truncates to seconds.
    return float(math.trunc(expires))


def is_valid(expires_at: float, now: float) -> bool:
    """Return whether a token with this `exp` may still be used."""
    return now + EXPIRY_LEEWAY < expires_at


def last_valid_time(expires_at: float) -> float:
    """Return the last time at which a token with this `exp` is valid."""
    return math.nextafter(expires_at - EXPIRY_LEEWAY, -math.inf)
