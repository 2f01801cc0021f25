"""Certificates for tests: a certificate authority, intermediates, and the certificates they sign."""

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
    """A certificate (followed by its intermediates, if any) and its private key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, certificate_file: str | os.PathLike[str], key_file: str | os.PathLike[str]) -> None:
        """Write both files. Each is replaced atomically: a reader sees the old or the new content."""
        for path, data in ((certificate_file, self.certificate), (key_file, self.key)):
            new = Path(f"{os.fspath(path)}.new")
            new.write_bytes(data)
            new.replace(path)


class Authority:
    """A certificate authority with its own key."""

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
        self._certificate = self._sign(parent or self, name, self._key, [(constraints, True)], not_after)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)
        """The CA certificate, for `certificate-authority-data`."""

    def intermediate(self, name: str = "kubeauth test intermediate CA") -> Authority:
        """Return an intermediate CA, signed by this one. The certificates it issues include its own."""
        return Authority(name, parent=self, key_identifiers=self._key_identifiers)

    def server(
        self,
        *names: str,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
        chain: bool = True,
    ) -> KeyPair:
        """Issue a server certificate for host names and IP addresses. It may be expired or not yet valid."""
        alternative_names = x509.SubjectAlternativeName([_build_general_name(name) for name in names])
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(names[0], usage, alternative_names, not_after, chain, (), not_before)

    def client(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
    ) -> KeyPair:
        """Issue a client certificate. Kubernetes takes the user from its CN, and the groups from its O."""
        return self._issue(user, ExtendedKeyUsageOID.CLIENT_AUTH, None, not_after, True, groups, not_before)

    def _issue(
        self,
        name: str,
        usage: x509.ObjectIdentifier,
        alternative_names: x509.SubjectAlternativeName | None,
        not_after: datetime.datetime | None,
        chain: bool,
        organizations: Sequence[str],
        not_before: datetime.datetime | None = None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage([usage]), False)]
        if alternative_names is not None:
            extensions.append((alternative_names, False))
        certificate = self._sign(self, name, key, extensions, not_after, organizations, not_before)
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        if chain and self._parent is not None:
            pem += self.pem
        return KeyPair(pem, _encode_key(key))

    def _sign(
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
        not_after = not_after or now + 30 * DAY
        builder = (
            x509.CertificateBuilder()
            .subject_name(_build_name(name, organizations))
            .issuer_name(_build_name(issuer.name, ()))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before or min(now, not_after) - DAY)
            .not_valid_after(not_after)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        if self._key_identifiers:
            subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer._key.public_key())
            builder = builder.add_extension(subject, critical=False).add_extension(authority, critical=False)
        return builder.sign(issuer._key, hashes.SHA256())


def _build_name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _build_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
