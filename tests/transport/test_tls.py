"""ssl_context: the same servers are trusted as by Go, with real handshakes on loopback (K50, K50a, K51)."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import kubeauth
from kubeauth import ClientConfig, Secret
from kubeauth.errors import TLSError
from tests.support.cases import each_case

ROOT = trustme.CA()
INTERMEDIATE = ROOT.create_child_ca()
LEAF = INTERMEDIATE.issue_cert("localhost", "api.internal")


@dataclass
class Server:
    """Accepts TLS connections and records the server name that each requests."""

    certificate: trustme.LeafCert
    maximum: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED
    names: list[str | None] = field(default_factory=list[str | None])

    @contextmanager
    def listening(self) -> Iterator[int]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = self.maximum
        if self.maximum == ssl.TLSVersion.TLSv1_1:
            context.minimum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("ALL:@SECLEVEL=0")
        self.certificate.configure_cert(context)
        context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self._serve, args=(listener, context), daemon=True)
            thread.start()
            try:
                yield listener.getsockname()[1]
            finally:
                # Closing the listener would not interrupt accept() in the thread. After a signal, such as SIGCHLD,
                # accept() would be restarted with the same file descriptor, which may be the listener of another
                # test by then.
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _serve(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(connection, server_side=True) as tls:
                    tls.sendall(b"ok")
            except OSError:
                connection.close()


def handshake(config: ClientConfig, server: Server, host: str = "localhost") -> str:
    """Return what the server sends after the handshake, or the verification error."""
    context = kubeauth.ssl_context(config)
    with server.listening() as port, socket.create_connection(("127.0.0.1", port)) as raw:
        try:
            with context.wrap_socket(raw, server_hostname=host) as tls:
                return tls.recv(2).decode()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message


def config(**fields: Any) -> ClientConfig:
    return ClientConfig(server="https://localhost", **fields)


def pem(ca: trustme.CA) -> bytes:
    return ca.cert_pem.bytes()


def test_only_the_configured_ca_is_trusted_k50(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert handshake(config(ca_data=pem(ROOT)), Server(LEAF)) == "ok"

    # The CAs of the system would trust the server.
    (tmp_path / "system.pem").write_bytes(pem(ROOT))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    assert "unable to get" in handshake(config(ca_data=pem(trustme.CA())), Server(LEAF))


def test_without_a_ca_the_system_cas_are_trusted_k50(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "system.pem").write_bytes(pem(ROOT))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    assert handshake(config(), Server(LEAF)) == "ok"

    # No CAs are added to those of SSL_CERT_FILE.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "home"))

    assert len(kubeauth.ssl_context(config()).get_ca_certs()) == 1


def test_certifi_is_used_if_the_system_has_no_cas_k50a(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "home"))
    context = kubeauth.ssl_context(config())
    assert len(context.get_ca_certs()) > 50
    assert "unable to get" in handshake(config(), Server(LEAF))


def test_ca_data_takes_precedence_over_a_ca_file_k49_k50(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(pem(ROOT))
    path = str(tmp_path / "ca")
    assert handshake(config(ca_file=path), Server(LEAF)) == "ok"
    assert "unable to get" in handshake(config(ca_file=path, ca_data=pem(trustme.CA())), Server(LEAF))
    assert handshake(config(ca_file="/missing", ca_data=pem(ROOT)), Server(LEAF)) == "ok"


def test_an_empty_ca_file_trusts_nothing_k50(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(b"")
    assert "unable to get" in handshake(config(ca_file=str(tmp_path / "ca")), Server(LEAF))


@each_case(
    "data",
    [b"garbage", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", b"\xff\xfe",
     b"-----BEGIN CERTIFICATE-----", b"-----BEGIN PRIVATE KEY-----\ns3ntinel\n-----END PRIVATE KEY-----\n"],
)  # fmt: skip
def test_a_ca_that_cannot_be_parsed_is_an_error_k50(data: bytes) -> None:
    with pytest.raises(TLSError, match="unable to load root certificates from the kubeconfig's") as caught:
        kubeauth.ssl_context(config(ca_data=data))
    assert "s3ntinel" not in str(caught.value)


def test_control_characters_in_errors_are_escaped() -> None:
    with pytest.raises(TLSError, match=r"U\+001B\[2J") as caught:
        kubeauth.ssl_context(config(ca_file="/\x1b[2J"))
    assert "\x1b" not in str(caught.value)


def test_a_ca_file_that_cannot_be_read_is_an_error_k50(tmp_path: Path) -> None:
    with pytest.raises(TLSError, match=r"cannot read the CA file .*missing: No such file"):
        kubeauth.ssl_context(config(ca_file=str(tmp_path / "missing")))


def test_text_around_the_certificates_is_ignored_k50() -> None:
    bundle = "# Schlüssel é\n".encode() + pem(trustme.CA()) + b"\ntext\n" + pem(ROOT) + b"trailing"
    assert handshake(config(ca_data=bundle), Server(LEAF)) == "ok"


def test_huge_invalid_pem_data_is_rejected_k50() -> None:
    begin, end = b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n"
    for data in (begin * 500_000, end * 500_000, begin * 200_000 + end):
        with pytest.raises(TLSError):
            kubeauth.ssl_context(config(ca_data=data))

    nested = begin * 1000 + pem(ROOT) + end * 1000
    assert handshake(config(ca_data=nested), Server(LEAF)) == "ok"


def test_invalid_certificates_in_a_bundle_are_skipped_k50() -> None:
    invalid = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    with_headers = pem(trustme.CA()).replace(b"CERTIFICATE-----\n", b"CERTIFICATE-----\nKey: value\n\n", 1)
    assert handshake(config(ca_data=invalid + with_headers + pem(ROOT) + invalid), Server(LEAF)) == "ok"

    only_with_headers = pem(ROOT).replace(b"CERTIFICATE-----\n", b"CERTIFICATE-----\nKey: value\n\n", 1)

    with pytest.raises(TLSError):
        kubeauth.ssl_context(config(ca_data=only_with_headers))


def test_any_certificate_in_the_bundle_is_a_trust_anchor_k50a() -> None:
    assert handshake(config(ca_data=pem(INTERMEDIATE)), Server(LEAF)) == "ok"
    leaf = LEAF.cert_chain_pems[0].bytes()
    assert handshake(config(ca_data=leaf), Server(LEAF)) == "ok"


def test_certificates_without_key_identifiers_are_accepted_k50a() -> None:
    """Old clusters have such certificates, and OpenSSL's strict mode, the default since Python 3.13, rejects them."""
    ca, leaf = chain_without_key_identifiers()
    assert handshake(config(ca_data=ca), Server(leaf)) == "ok"
    context = kubeauth.ssl_context(config(ca_data=ca))
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


def test_insecure_skip_tls_verify_verifies_nothing_and_excludes_a_ca_k43_k50() -> None:
    server = Server(trustme.CA().issue_cert("other.example"))
    assert handshake(config(insecure_skip_tls_verify=True), server) == "ok"
    for ca in ({"ca_data": pem(ROOT)}, {"ca_file": "/any"}):
        with pytest.raises(TLSError, match="root certificates file with the insecure flag is not allowed"):
            kubeauth.ssl_context(config(insecure_skip_tls_verify=True, **ca))


def test_the_host_is_verified_and_tls_server_name_replaces_it_k51() -> None:
    server = Server(LEAF)
    assert "Hostname mismatch" in handshake(config(ca_data=pem(ROOT)), server, host="wrong.example")
    named = config(ca_data=pem(ROOT), tls_server_name="api.internal")
    assert handshake(named, server, host="wrong.example") == "ok"
    assert server.names == ["wrong.example", "api.internal"]
    other = config(ca_data=pem(ROOT), tls_server_name="other.example")

    assert "Hostname mismatch" in handshake(other, server, host="localhost")


@pytest.mark.parametrize("name", [".", "..", "a..b", "x" * 64, "a\0b"])
def test_an_invalid_tls_server_name_is_an_error_k51(name: str) -> None:
    with pytest.raises(TLSError) as raised:
        kubeauth.ssl_context(config(ca_data=pem(ROOT), tls_server_name=name))

    assert str(raised.value) == (
        f"tls-server-name {name!r} is not a valid server name. Check it in the kubeconfig."
    )


def test_tls_server_name_applies_to_wrap_bio_k51() -> None:
    """Event loops call wrap_bio, with positional arguments."""
    context = kubeauth.ssl_context(config(ca_data=pem(ROOT), tls_server_name="api.internal"))
    tls = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), False, "wrong.example")
    assert tls.server_hostname == "api.internal"


def test_the_test_server_stops_after_a_failed_connection() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ConnectionError), Server(LEAF).listening():
        raise ConnectionError
    assert set(threading.enumerate()) <= before


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.MINIMUM_SUPPORTED is deprecated:DeprecationWarning")
def test_tls_1_2_is_the_minimum_k51() -> None:
    assert kubeauth.ssl_context(config()).minimum_version == ssl.TLSVersion.TLSv1_2
    assert handshake(config(ca_data=pem(ROOT)), Server(LEAF, maximum=ssl.TLSVersion.TLSv1_2)) == "ok"
    old = Server(LEAF, maximum=ssl.TLSVersion.TLSv1_1)

    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(config(ca_data=pem(ROOT)), old)


def test_disable_compression_is_loaded_k51() -> None:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://h", "disable-compression": True}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    assert kubeauth.load_config(document).disable_compression is True


def test_the_ssl_context_contains_no_client_key(tmp_path: Path) -> None:
    before = set(os.listdir(tmp_path))
    client = ROOT.issue_cert("client@example.com")
    context = kubeauth.ssl_context(
        config(
            ca_data=pem(ROOT),
            client_cert_data=client.cert_chain_pems[0].bytes(),
            client_key_data=Secret(client.private_key_pem.bytes()),
        )
    )
    assert context.cert_store_stats()["x509"] == 1
    assert set(os.listdir(tmp_path)) == before


def chain_without_key_identifiers() -> tuple[bytes, trustme.LeafCert]:
    """A CA and a server certificate with only the extensions that Go requires."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "minimal CA")])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )

    constraints = x509.BasicConstraints(ca=True, path_length=None)
    ca = builder(name, ca_key.public_key()).add_extension(constraints, critical=False)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    leaf = builder(x509.Name([]), key.public_key()).add_extension(names, critical=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    encoding = serialization.Encoding.PEM
    ca_pem = ca.sign(ca_key, hashes.SHA256()).public_bytes(encoding)
    return ca_pem, trustme.LeafCert(private, leaf.sign(ca_key, hashes.SHA256()).public_bytes(encoding), [])
