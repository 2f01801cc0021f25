"""Certificates as the doctor sees them: whose, for which names, and until when."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubeauth._config.files import split_pem_certificates
from kubeauth._credentials.client_cert import read_leaf
from kubeauth._parsing import Json
from kubeauth.cli._doctor_findings import Level
from kubeauth.cli._doctor_words import DAY, cut, day, ends, span

if TYPE_CHECKING:
    from cryptography import x509

# So long before its end somebody should know; of a shorter life, the last third.
SOON = 30 * DAY

_UNNAMED = "(without a name)"
# Of a name.
_MOST = 200


@dataclass(frozen=True, slots=True)
class Certificate:
    subject: str
    issuer: str
    names: tuple[str, ...]
    """Hosts and addresses that it is for."""
    not_before: float
    not_after: float

    def judged(self, now: float) -> tuple[Level, str]:
        """How its life stands, in words."""
        if now < self.not_before:
            return Level.ERROR, f"not valid before {day(self.not_before)}, in {span(self.not_before - now)}"
        if now > self.not_after:
            return Level.ERROR, ends(self.not_after, now)
        soon = min(SOON, (self.not_after - self.not_before) / 3)
        level = Level.WARNING if self.not_after - now < soon else Level.OK
        return level, ends(self.not_after, now)

    def facts(self, now: float) -> dict[str, Json]:
        return {
            "subject": self.subject,
            "issuer": self.issuer,
            "names": list(self.names),
            "not_before": day(self.not_before),
            "not_after": day(self.not_after),
            "days_left": round((self.not_after - now) / DAY, 1),
        }


def certificate_of(pem: bytes) -> Certificate | None:
    """The first in `pem`; None if it cannot be parsed."""
    return read_leaf(pem, _read)


def certificates_of(pem: bytes) -> list[Certificate]:
    """All that can be parsed."""
    found = (certificate_of(block.encode()) for block in split_pem_certificates(pem))
    return [certificate for certificate in found if certificate is not None]


def _read(leaf: x509.Certificate) -> Certificate:
    with warnings.catch_warnings():
        # A name that is longer than it may be is worth no line on stderr.
        warnings.simplefilter("ignore", UserWarning)
        subject, issuer = leaf.subject.rfc4514_string(), leaf.issuer.rfc4514_string()
    return Certificate(
        subject=cut(subject, _MOST) or _UNNAMED,
        issuer=cut(issuer, _MOST) or _UNNAMED,
        names=_names(leaf),
        not_before=leaf.not_valid_before_utc.timestamp(),
        not_after=leaf.not_valid_after_utc.timestamp(),
    )


def _names(leaf: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    hosts: list[str] = found.get_values_for_type(x509.DNSName)
    return (*hosts, *map(str, found.get_values_for_type(x509.IPAddress)))


def signer(authorities: Sequence[Certificate], certificate: Certificate | None) -> Certificate | None:
    """The one that counts in a bundle: whose name signed `certificate`, else any; of those the youngest."""
    named = [each for each in authorities if certificate and each.subject == certificate.issuer]
    return max(named or authorities, key=lambda each: each.not_after, default=None)
