"""The OIDC issuer of `auth-provider: oidc`: whether it is there, and how long the id-token is still good."""

from __future__ import annotations

from kubeauth._config._oidc import OidcConfig
from kubeauth._config._server import without_password
from kubeauth._oidc._dialogue import NoReply, Wrong, discovery, token_endpoint
from kubeauth._oidc._token import is_good
from kubeauth._parsing import Json
from kubeauth._transport._fetch import Fetching
from kubeauth.cli._doctor_findings import Finding, error, ok, warning
from kubeauth.cli._doctor_given import token_end
from kubeauth.cli._doctor_words import day, ends, parted
from kubeauth.errors import TLSError


def look_at_issuer(oidc: OidcConfig) -> Wrong | None:
    """Asks it where its endpoints are, as a renewal would, and spends no token. What is wrong, if so."""
    try:
        fetch = Fetching().fetch_for(oidc)
    except TLSError as wrong:
        return Wrong(*parted(str(wrong)))
    reply = fetch(discovery(oidc.issuer_url))
    if isinstance(reply, NoReply):
        return Wrong(f"it cannot be reached: {reply.reason}", "Check idp-issuer-url, and its CA and proxy.")
    endpoint = token_endpoint(reply)
    return endpoint if isinstance(endpoint, Wrong) else None


def issuer_finding(oidc: OidcConfig, wrong: Wrong | None, now: float) -> Finding:
    """Whether it can give a new token when this one ends."""
    issuer = without_password(oidc.issuer_url)
    end = token_end(oidc.id_token) if oidc.id_token else None
    has_refresh_token = oidc.refresh_token is not None
    facts: dict[str, Json] = {
        "issuer": issuer,
        "id_token_ends": day(end),
        "has_refresh_token": has_refresh_token,
    }
    token = "no id-token" if end is None else f"id-token {ends(end, now)}"
    is_usable = end is not None and is_good(end, now)
    if wrong is not None:
        summary = f"{issuer}: {wrong.reason}; {token}"
        # What is there still works.
        return (warning if is_usable else error)("issuer", summary, wrong.advice, **facts)
    if not has_refresh_token:
        summary = f"{issuer} answers, but there is no refresh-token; {token}"
        advice = "When the id-token is over you must log in again, as you did to get it."
        return (warning if is_usable else error)("issuer", summary, advice, **facts)
    return ok("issuer", f"{issuer} answers; {token}, refresh-token there", **facts)
