"""How a client's credential is doing: for health checks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kubeauth.errors import KubeAuthError


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What `client.status()` says. Holds no secret."""

    source: str
    """Where the credential comes from: `token`, `token file /path`, `client certificate`, ..., or `none`."""
    kind: str
    """`token`, `basic`, `certificate`, `token+certificate` or `none`."""
    expires: datetime | None
    """When it is over, if that can be told: a token's own expiry is known to its issuer alone."""
    last_error: KubeAuthError | None
    """Why the last renewal failed; None when it worked. The credential before it is still in use."""
