"""The OIDC issuer of `auth-provider: oidc`: whether it is there, and how long the id-token is still good."""

from __future__ import annotations

from kubeauth._config.auth_provider import OidcConfig
from kubeauth._config.urls import redact_url
from kubeauth._oidc.protocol import (
    NoResponse,
    OidcProblem,
    build_discovery_request,
    is_valid,
    parse_discovery,
)
from kubeauth._parsing import Json
from kubeauth._transport.oidc_http import HttpxFactory
from kubeauth.cli._doctor_findings import Finding, error, ok, warning
from kubeauth.cli._doctor_given import token_end
from kubeauth.cli._doctor_words import day, ends, parted
from kubeauth.errors import TLSError


def look_at_issuer(oidc: OidcConfig) -> OidcProblem | None:
    """Asks it where its endpoints are, as a renewal would, and spends no token. What is wrong, if so."""
    try:
        fetch = HttpxFactory().build_fetch(oidc)
    except TLSError as wrong:
        return OidcProblem(*parted(str(wrong)))
    reply = fetch(build_discovery_request(oidc.issuer_url))
    if isinstance(reply, NoResponse):
        return OidcProblem(
            f"it cannot be reached: {reply.reason}", "Check idp-issuer-url, and its CA and proxy."
        )
    endpoint = parse_discovery(reply)
    return endpoint if isinstance(endpoint, OidcProblem) else None


def issuer_finding(oidc: OidcConfig, wrong: OidcProblem | None, now: float) -> Finding:
    """Whether it can give a new token when this one ends."""
    issuer = redact_url(oidc.issuer_url)
    end = token_end(oidc.id_token) if oidc.id_token else None
    has_refresh_token = oidc.refresh_token is not None
    facts: dict[str, Json] = {
        "issuer": issuer,
        "id_token_ends": day(end),
        "has_refresh_token": has_refresh_token,
    }
    token = "no id-token" if end is None else f"id-token {ends(end, now)}"
    is_usable = end is not None and is_valid(end, now)
    if wrong is not None:
        summary = f"{issuer}: {wrong.reason}; {token}"
        # What is there still works.
        return (warning if is_usable else error)("issuer", summary, wrong.advice, **facts)
    if not has_refresh_token:
        summary = f"{issuer} answers, but there is no refresh-token; {token}"
        advice = "When the id-token is over you must log in again, as you did to get it."
        return (warning if is_usable else error)("issuer", summary, advice, **facts)
    return ok("issuer", f"{issuer} answers; {token}, refresh-token there", **facts)
