"""A cluster that was found, for people and for programs. Nothing secret is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kubeauth.cli._tables import cell, facts

if TYPE_CHECKING:
    from kubeauth._config.client_config import ClientConfig
    from kubeauth._parsing import Json
    from kubeauth.cli._discover_certificates import Described
    from kubeauth.discovery._result import Discovered

_NOT_SAVED = "no: --save PATH writes the kubeconfig, -o kubeconfig prints it"


def as_table(
    found: Discovered,
    certificates: Sequence[Described],
    warnings: Sequence[str],
    *,
    method: str,
    saved: str | None,
    width: int | None,
) -> str:
    """One fact below the other. The names are so short that a pin fits beside them in 80 columns."""
    return facts(_rows(found, certificates, warnings, method, saved), width)


def _rows(
    found: Discovered,
    certificates: Sequence[Described],
    warnings: Sequence[str],
    method: str,
    saved: str | None,
) -> Iterator[tuple[str, str]]:
    yield "Server", cell(found.config.server)
    yield "Method", cell(method)
    for each in certificates:
        yield "CA", f"{each.subject}, {each.ends}"
        yield "Pin", each.pin
    yield "User", cell(f"{user_of(found)} ({credential_of(found.config)})")
    yield "Saved", _NOT_SAVED if saved is None else f"{cell(saved)}, for its owner alone"
    for warning in warnings:
        yield "Beware", cell(warning)


def as_document(
    found: Discovered, certificates: Sequence[Described], warnings: Sequence[str], saved: str | None
) -> Json:
    """The keys are stable, more may come."""
    return {
        "method": found.method,
        "server": found.config.server,
        "certificateAuthorities": [each.facts for each in certificates],
        "context": found.config.context,
        "user": user_of(found),
        "credential": credential_of(found.config),
        "warnings": list(warnings),
        "saved": saved,
    }


def user_of(found: Discovered) -> str:
    """As the kubeconfig calls whoever it signs in."""
    (context,) = found.kubeconfig["contexts"]
    return str(context["context"]["user"])


def credential_of(config: ClientConfig) -> str:
    """What it is, not what it says."""
    from kubeauth.discovery._token import BootstrapToken
    from kubeauth.errors import ConfigError

    if config.token:
        try:
            return f"bootstrap token {BootstrapToken.parse(config.token)}"
        except ConfigError:
            return "token"
    # Programs are never discovered, and nobody without a credential.
    return "password" if config.username else "client certificate"
