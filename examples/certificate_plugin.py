"""An exec plugin that issues short-lived client certificates, written with `kubeauth.plugin`.

    users:
    - name: me
      user:
        exec:
          apiVersion: client.authentication.k8s.io/v1
          interactiveMode: Never
          command: python
          args: [examples/certificate_plugin.py, --ca, ca.pem, --ca-key, ca.key, --user, alice, --group, dev]

An example: whoever can read the key of a CA can be anybody, so it belongs on a server that knows whom it
signs for. A plugin of yours makes a key, sends that server a signing request, and returns what comes back.
By hand:

    KUBERNETES_EXEC_INFO='{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}' \
        python examples/certificate_plugin.py --ca ca.pem --ca-key ca.key --user alice
"""

from __future__ import annotations

import argparse
import functools
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeauth import errors, plugin


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="An exec plugin that issues short-lived client certificates."
    )
    parser.add_argument("--ca", type=Path, required=True, help="the CA's certificate, PEM")
    parser.add_argument("--ca-key", type=Path, required=True, help="the CA's private key, PEM")
    parser.add_argument("--user", required=True)
    parser.add_argument("--group", action="append", default=[], help="may be given more than once")
    parser.add_argument("--minutes", type=float, default=60)
    return parser.parse_args()


def login(options: argparse.Namespace, info: plugin.ExecInfo) -> plugin.Credential:
    ca, ca_key = authority(options.ca, options.ca_key)
    now = datetime.now(UTC)
    lifetime = min(timedelta(minutes=options.minutes), ca.not_valid_after_utc - now)
    key = ec.generate_private_key(ec.SECP256R1())
    # The user is the common name, the groups are organizations: that is how Kubernetes reads it.
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in options.group]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, options.user)]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return plugin.Credential(
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        # A little less than the certificate's life, so that it never ends in a handshake.
        expires=now + lifetime * 0.95,
    )


def authority(
    certificate_file: Path, key_file: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    except OSError as error:
        raise errors.CredentialError(f"cannot read {error.filename}: {error.strerror}") from error
    except (ValueError, TypeError):
        # Not chained: the reason may quote the key.
        raise errors.CredentialError(
            f"{certificate_file} must be a certificate and {key_file} its key, both PEM and not encrypted"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise errors.CredentialError(f"the key in {key_file} is of a kind that this example does not know")
    if key.public_key() != certificate.public_key():
        raise errors.CredentialError(f"the key in {key_file} is not the key of {certificate_file}")
    if certificate.not_valid_after_utc <= datetime.now(UTC):
        raise errors.CredentialError(f"the CA in {certificate_file} has expired")
    return certificate, key


if __name__ == "__main__":
    plugin.run(functools.partial(login, arguments()))
