"""A certificate for the webhook, by a CA that signs nothing else: its key is thrown away."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeauth._secret import Secret

DAYS = 3650
"""Nobody is there to replace it, but for whoever installed it."""
_CA_NAME = "kubeauth GMSA webhook CA"
# The clock of an API server may be behind ours.
_BEFORE = datetime.timedelta(hours=1)

_Extensions = Sequence[tuple[x509.ExtensionType, bool]]


@dataclass(frozen=True, slots=True)
class NewPair:
    """All as PEM."""

    ca: bytes
    certificate: bytes
    key: Secret[bytes]


def new_pair(names: Sequence[str], *, now: datetime.datetime, days: int = DAYS) -> NewPair:
    """For a server with these names, the first of which is short. It ends with its CA."""
    signing, serving = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ends = now + datetime.timedelta(days=days)
    ca = _signed(
        _CA_NAME,
        signing,
        by=signing,
        between=(now - _BEFORE, ends),
        extensions=[
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (_usage(key_cert_sign=True, crl_sign=True), True),
        ],
    )
    certificate = _signed(
        names[0],
        serving,
        by=signing,
        between=(now - _BEFORE, ends),
        extensions=[
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(digital_signature=True), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False),
        ],
    )
    pem = serialization.Encoding.PEM
    key = serving.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return NewPair(ca.public_bytes(pem), certificate.public_bytes(pem), Secret(key))


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    by: ec.EllipticCurvePrivateKey,
    between: tuple[datetime.datetime, datetime.datetime],
    extensions: _Extensions,
) -> x509.Certificate:
    begins, ends = between
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(_CA_NAME))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        # An older CA has the same name: by these they are told apart.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(by, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
