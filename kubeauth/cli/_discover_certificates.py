"""Certificates of a CA as `kubeauth discover` shows them: whose, until when, and their pins."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubeauth.cli._tables import cell

if TYPE_CHECKING:
    from kubeauth._parsing import Json
    from kubeauth.discovery._pins import Certificate

# In place of what a certificate says that nobody can read. Its pin is known all the same.
_UNKNOWN = "<unreadable>"


@dataclass(frozen=True, slots=True)
class Described:
    """A certificate, in words."""

    pin: str
    subject: str
    ends: str
    """How long it is good, or since when it is not."""
    facts: dict[str, Json]
    """The same for programs."""


def described(certificates: Iterable[Certificate], now: float) -> list[Described]:
    return [_described(each, now) for each in certificates]


def _described(certificate: Certificate, now: float) -> Described:
    from kubeauth.cli._doctor_certificates import certificate_of
    from kubeauth.cli._doctor_words import DAY, day

    with warnings.catch_warnings():
        # Some CAs of kubeadm have the serial number 0, of which cryptography says that it should not be.
        warnings.simplefilter("ignore")
        read = certificate_of(certificate.pem)
    if read is None:
        unknown: dict[str, Json] = {
            "pin": certificate.pin,
            "subject": None,
            "notAfter": None,
            "daysLeft": None,
        }
        return Described(certificate.pin, _UNKNOWN, _UNKNOWN, unknown)
    facts: dict[str, Json] = {
        "pin": certificate.pin,
        "subject": read.subject,
        "notAfter": day(read.not_after),
        "daysLeft": round((read.not_after - now) / DAY, 1),
    }
    return Described(certificate.pin, cell(read.subject), read.judged(now)[1], facts)
