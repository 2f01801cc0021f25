"""What a request is signed with: a header, a certificate, both or nothing. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NoReturn

from kubeauth._secret import HIDDEN, Secret


@dataclass(frozen=True, slots=True)
class Identity:
    """A client certificate with its private key, both PEM."""

    certificate: bytes = field(repr=False)
    key: Secret[bytes]


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """Everything that says who asks. Never changed: a new one takes its place."""

    authorization: str | None = None
    """The value of the Authorization header. A secret, in the form that costs a request nothing."""
    identity: Identity | None = None

    def __repr__(self) -> str:
        header = HIDDEN if self.authorization else None
        return f"Credential(authorization={header}, identity={self.identity!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a credential cannot be pickled: send the path of the kubeconfig instead")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A 401: which credential was refused, and by whom."""

    credential: Credential
    origin: Hashable


def header_problem(token: str) -> str | None:
    """Why `token` cannot be the value of an HTTP header; None if it can."""
    if not token.isascii():
        return "it has characters that are not ASCII"
    if not token.isprintable():
        return "it has a line break or another control character in it"
    if token != token.strip():
        return "it has blanks at its ends"
    return None
