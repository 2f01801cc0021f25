"""Certificates for tests: an authority, its intermediates, and what they sign."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (with its intermediates, if any) and its private key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, certificate_file: str | os.PathLike[str], key_file: str | os.PathLike[str]) -> None:
        """Puts both into files, each replaced at once: a reader sees the old or the new, never a half."""
        for path, data in ((certificate_file, self.certificate), (key_file, self.key)):
            new = Path(f"{os.fspath(path)}.new")
            new.write_bytes(data)
            new.replace(path)


class Authority:
    """A CA with a key of its own."""

    def __init__(
        self,
        name: str = "kubeauth test CA",
        *,
        parent: Self | None = None,
        key_identifiers: bool = True,
        not_after: datetime.datetime | None = None,
    ) -> None:
        self.name = name
        self._parent = parent
        self._key_identifiers = key_identifiers
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = self._signed_by(parent or self, name, self._key, [(constraints, True)], not_after)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)
        """Its certificate: what goes into `certificate-authority-data`."""

    def intermediate(self, name: str = "kubeauth test intermediate CA") -> Authority:
        """Another authority, signed by this one. What it signs comes with its certificate."""
        return Authority(name, parent=self, key_identifiers=self._key_identifiers)

    def server(
        self,
        *names: str,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
        chain: bool = True,
    ) -> KeyPair:
        """A server's certificate for host names and addresses; over already, or not valid yet, if so told."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(names[0], usage, alternatives, not_after, chain, (), not_before)

    def client(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
    ) -> KeyPair:
        """A client certificate as Kubernetes reads it: common name is user, organizations are groups."""
        return self._issue(user, ExtendedKeyUsageOID.CLIENT_AUTH, None, not_after, True, groups, not_before)

    def _issue(
        self,
        name: str,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
        not_after: datetime.datetime | None,
        chain: bool,
        organizations: Sequence[str],
        not_before: datetime.datetime | None = None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage([usage]), False)]
        if alternatives is not None:
            extensions.append((alternatives, False))
        certificate = self._signed_by(self, name, key, extensions, not_after, organizations, not_before)
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        if chain and self._parent is not None:
            pem += self.pem
        return KeyPair(pem, _key_pem(key))

    def _signed_by(
        self,
        issuer: Authority,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        extensions: Sequence[tuple[x509.ExtensionType, bool]],
        not_after: datetime.datetime | None = None,
        organizations: Sequence[str] = (),
        not_before: datetime.datetime | None = None,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        until = not_after or now + 30 * DAY
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name, organizations))
            .issuer_name(_name(issuer.name, ()))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before or min(now, until) - DAY)
            .not_valid_after(until)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        if self._key_identifiers:
            subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer._key.public_key())
            builder = builder.add_extension(subject, critical=False).add_extension(authority, critical=False)
        return builder.sign(issuer._key, hashes.SHA256())


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
