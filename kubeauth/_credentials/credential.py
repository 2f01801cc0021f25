"""Credential: an Authorization header, a client certificate, or both; and the Status of a client. Pure."""

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
    """What authenticates a request. Immutable: a refresh replaces it."""

    authorization: str | None = None
    """The value of the Authorization header, which is secret."""
    client_certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        header = HIDDEN if self.authorization else None
        return f"Credential(authorization={header}, client_certificate={self.client_certificate!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a credential cannot be pickled: send the path of the kubeconfig instead")


@dataclass(frozen=True, slots=True)
class Unauthorized:
    """A 401: the credential that was rejected, and the origin that rejected it."""

    credential: Credential
    origin: Hashable


def find_header_problem(token: str) -> str | None:
    """Return why `token` is not a valid HTTP header value; None if it is."""
    if not token.isascii():
        return "it contains characters that are not ASCII"
    if not token.isprintable():
        return "it contains a line break or another control character"
    if token != token.strip():
        return "it starts or ends with white space"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What `client.status()` returns. Contains no secret."""

    source: str
    """The source of the credential: `token`, `token file /path`, `client certificate`, `plugin aws`,
    `oidc https://...`, ..., or `none`."""
    kind: str
    """`token`, `basic`, `certificate`, `token+certificate`, or `none`, also before the first was fetched."""
    expires: datetime | None
    """When it expires, if known. The expiry of a static token is not."""
    last_error: KubeAuthError | None
    """Why the last refresh failed; None if it succeeded. The previous credential is used until it expires."""


def credential_kind(credential: Credential) -> str:
    """Return `token`, `basic`, `certificate`, `token+certificate` or `none`."""
    kinds: list[str] = []
    if credential.authorization:
        kinds.append("basic" if credential.authorization.startswith("Basic ") else "token")
    if credential.client_certificate:
        kinds.append("certificate")
    return "+".join(kinds) or "none"
