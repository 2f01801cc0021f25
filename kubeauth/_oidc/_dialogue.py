"""What an issuer is asked and what it answers: discovery and the refresh_token grant (O5, O6). Pure.

Nothing here raises for what an issuer says: what is wrong is returned, so that no traceback holds an answer.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote_plus, urlencode

from kubeauth._config._oidc import OidcConfig
from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._secret import Secret

MAX_REPLY = 2**20
# Of what a stranger says, in an error.
_SHOWN = 80

MISSING = (
    'token response did not contain an id_token, either the scope "openid" wasn\'t requested upon login, or '
    "the provider doesn't support id_tokens as part of the refresh response"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    url: str
    body: Secret[bytes] | None = None
    """None: a GET."""
    authorization: Secret[str] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoReply:
    """Why there is none."""

    reason: str


Fetch = Callable[[Call], Reply | NoReply]
"""Makes a request, blocking, within the time and the trust that the configuration gives it."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong, in client-go's words where it has any, and what to do."""

    reason: str
    advice: str
    was_refused: bool = False
    """Whether the issuer answered with an error: it may want the client's secret in another way."""


@dataclass(frozen=True, slots=True)
class Granted:
    id_token: Secret[str] | None
    refresh_token: Secret[str] | None


def discovery(issuer_url: str) -> Call:
    """Where an issuer says where its endpoints are."""
    return Call(issuer_url.removesuffix("/") + "/.well-known/openid-configuration")


def token_endpoint(reply: Reply) -> str | Wrong:
    """The URL to refresh at (O5)."""
    if reply.status != 200:
        # Not a secret: anybody may ask this.
        said = _cut(reply.body.decode("utf-8", "replace"))
        return Wrong(
            f'oidc: failed to query metadata endpoint {reply.status}: "{said}"',
            "Is idp-issuer-url right, and is the issuer at work?",
        )
    found = _json(reply.body)
    if not isinstance(found, dict):
        return Wrong(
            "oidc: failed to decode provider discovery object: it is not a JSON object",
            "Is idp-issuer-url right? A proxy or a login page may have answered instead.",
        )
    url = found.get("token_endpoint")
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        return Wrong("oidc: discovery object doesn't contain a token_endpoint", "Is idp-issuer-url right?")
    return url


def grant(url: str, config: OidcConfig, refresh_token: Secret[str], *, in_header: bool) -> Call:
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
    return Call(url, Secret(urlencode(form).encode()), header)


def granted(reply: Reply, secrets: tuple[str, ...]) -> Granted | Wrong:
    """What came of a grant. `secrets` are not repeated, should the issuer do so."""
    found = _form_or_json(reply)
    failed = not 200 <= reply.status <= 299
    code = found.get("error") if found is not None else None
    if failed or code:
        return _refusal(reply, found or {}, secrets)
    if found is None:
        return Wrong(
            f"failed to refresh token: oauth2: cannot parse the reply (status {reply.status})",
            "It is not JSON. Is the token endpoint that of an issuer, or has a proxy answered instead?",
        )
    if not _text(found, "access_token"):
        advice = "The issuer does not keep to OAuth 2.0: tell whoever runs it."
        return Wrong("failed to refresh token: oauth2: server response missing access_token", advice)
    return Granted(_secret(found, "id_token"), _secret(found, "refresh_token"))


def _refusal(reply: Reply, found: Mapping[str, Json], secrets: tuple[str, ...]) -> Wrong:
    """Of a reply that may hold tokens only the two members that are meant for people are repeated."""
    code = _shown(_text(found, "error"), secrets)
    said = _shown(_text(found, "error_description"), secrets)
    words = f'oauth2: "{code}"' if code else f"oauth2: cannot fetch token: status {reply.status}"
    advice = "Check client-id and client-secret, and what the issuer's own log says."
    if code == "invalid_grant":
        advice = (
            "The refresh-token is over, was revoked, or was used by somebody else already: log in again, as "
            "you did to get it."
        )
    reason = f'failed to refresh token: {words} "{said}"' if said else f"failed to refresh token: {words}"
    return Wrong(reason, advice, was_refused=True)


def _form_or_json(reply: Reply) -> Mapping[str, Json] | None:
    kind = reply.content_type.partition(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "text/plain"):
        # Some endpoints do; x/oauth2 goes by this alone.
        return dict(parse_qsl(reply.body.decode("utf-8", "replace"))) or None
    found = _json(reply.body)
    return found if isinstance(found, dict) else None


def _json(body: bytes) -> Json:
    try:
        return read_json(body)
    except DocumentError:
        return None


def _text(found: Mapping[str, Json], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _secret(found: Mapping[str, Json], name: str) -> Secret[str] | None:
    text = _text(found, name)
    return Secret(text) if text else None


def _shown(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "<hidden>")
    return _cut(text)


def _cut(text: str) -> str:
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    # In quotes, on one line: it is a stranger's.
    return json.dumps(text, ensure_ascii=False)[1:-1]
