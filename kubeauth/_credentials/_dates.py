"""From when until when a certificate is valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kubeauth._credentials._credential import Identity
from kubeauth._fork import no_fork

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Dates:
    """Seconds since 1970."""

    not_before: float
    not_after: float


def dates_of(identity: Identity) -> Dates | None:
    """Those of the leaf, which comes first; None if they cannot be told."""
    return read_leaf(identity.certificate, _dates)


def read_leaf(pem: bytes, read: Callable[[Certificate], _T]) -> _T | None:
    """What `read` makes of the first certificate; None if it cannot be parsed."""
    # All of it: also what the library sets up when it is first used is not finished by a child.
    with no_fork:
        from cryptography.x509 import load_pem_x509_certificates

        try:
            return read(load_pem_x509_certificates(pem)[0])
        except Exception:
            # OpenSSL took it, cryptography is stricter, and its errors have nothing in common: InvalidVersion
            # is no ValueError. The credential works, its end is not known.
            return None


def _dates(leaf: Certificate) -> Dates:
    return Dates(leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp())
