"""What a request is signed with: a header, a certificate, both or nothing. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

from kubeauth._secret import HIDDEN, Secret
from kubeauth.errors import KubeAuthError


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate with its private key, both PEM."""

    certificate: bytes = field(repr=False)
    key: Secret[bytes]


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """Everything that says who asks. Never changed: a new one takes its place."""

    authorization: str | None = None
    """The value of the Authorization header. A secret, in the form that costs a request nothing."""
    client_certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        header = HIDDEN if self.authorization else None
        return f"Credential(authorization={header}, client_certificate={self.client_certificate!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a credential cannot be pickled: send the path of the kubeconfig instead")


@dataclass(frozen=True, slots=True)
class Unauthorized:
    """A 401: which credential was refused, and by whom."""

    credential: Credential
    origin: Hashable


def find_header_problem(token: str) -> str | None:
    """Why `token` cannot be the value of an HTTP header; None if it can."""
    if not token.isascii():
        return "it has characters that are not ASCII"
    if not token.isprintable():
        return "it has a line break or another control character in it"
    if token != token.strip():
        return "it has blanks at its ends"
    return None


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


def credential_kind(credential: Credential) -> str:
    """What it consists of, in a word."""
    kinds: list[str] = []
    if credential.authorization:
        kinds.append("basic" if credential.authorization.startswith("Basic ") else "token")
    if credential.client_certificate:
        kinds.append("certificate")
    return "+".join(kinds) or "none"
