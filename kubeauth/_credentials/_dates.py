"""From when until when a certificate is valid."""

from __future__ import annotations

from dataclasses import dataclass

from kubeauth._credentials._credential import Identity
from kubeauth._credentials._fork import no_fork


@dataclass(frozen=True, slots=True)
class Dates:
    """Seconds since 1970."""

    not_before: float
    not_after: float


def dates_of(identity: Identity) -> Dates | None:
    """Those of the leaf, which comes first; None if they cannot be told."""
    # All of it: also what the library sets up when it is first used is not finished by a child.
    with no_fork:
        from cryptography.x509 import load_pem_x509_certificates

        try:
            leaf = load_pem_x509_certificates(identity.certificate)[0]
            return Dates(leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp())
        except Exception:
            # OpenSSL took it, cryptography is stricter, and its errors have nothing in common: InvalidVersion
            # is no ValueError. The credential works, its end is not known.
            return None
