"""How a client's credential is doing: for health checks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kubeauth._credentials._credential import Credential
from kubeauth.errors import KubeAuthError


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What `client.status()` says. Holds no secret."""

    source: str
    """Where it is from: `token`, `token file /path`, `client certificate`, `plugin aws`, `oidc https://...`,
    ..., or `none`."""
    kind: str
    """`token`, `basic`, `certificate`, `token+certificate`; `none` also before one was first asked for."""
    expires: datetime | None
    """When it is over, if that can be told: a token's own expiry is known to its issuer alone."""
    last_error: KubeAuthError | None
    """Why the last renewal failed; None when it worked. The credential before it is still in use."""


def kind_of(credential: Credential) -> str:
    """What it consists of, in a word."""
    kinds: list[str] = []
    if credential.authorization:
        kinds.append("basic" if credential.authorization.startswith("Basic ") else "token")
    if credential.identity:
        kinds.append("certificate")
    return "+".join(kinds) or "none"
