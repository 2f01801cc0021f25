"""Client certificates are loaded into an SSLContext without leaving keys or descriptors behind (K55)."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives import serialization

from kubeauth import Secret
from kubeauth._credentials import client_cert
from kubeauth._credentials.client_cert import check_client_cert, find_cert_problem, load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.errors import ClientCertificateError
from kubeauth.testing import APIServer, Authority
from tests.support.cases import each_case
from tests.support.residue import no_residue

STRATEGIES = [
    client_cert._load_via_memfd,
    client_cert._load_via_pipes,
    client_cert._load_via_unlinked_file,
    client_cert._load_via_private_file,
]


def issue(authority: Authority, name: str = "carol") -> ClientCertificate:
    pair = authority.client(name)
    return ClientCertificate(pair.certificate, Secret(pair.key))


def new_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_authenticates_and_leaves_nothing_behind(
    strategy: client_cert.Strategy, authority: Authority, server: APIServer
) -> None:
    port = int(server.url.rpartition(":")[2])

    with no_residue():
        context = new_context()
        context.load_verify_locations(cadata=authority.pem.decode())
        strategy(context, issue(authority))
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(b"GET /version HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            while tls.recv(4096):
                pass

    assert server.requests[0].common_name == "carol"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_leaves_nothing_behind_when_it_fails(
    strategy: client_cert.Strategy, authority: Authority
) -> None:
    one, other = issue(authority), issue(authority)

    with no_residue(), pytest.raises(OSError):  # noqa: PT011 -- an SSLError, or that a pipe cannot seek
        strategy(new_context(), ClientCertificate(one.certificate, other.key))


def test_certificates_are_loaded_in_several_threads(authority: Authority) -> None:
    failures: list[BaseException] = []

    def load() -> None:
        try:
            check_client_cert(issue(authority))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert failures == []


def test_a_strategy_that_fails_is_followed_by_the_next(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems have no memfd, some containers no /proc, and a temporary directory may be full."""
    tried: list[str] = []

    def fail_as(name: str) -> Callable[..., None]:
        def fail(*_: object) -> None:
            tried.append(name)
            raise OSError(38, "Function not implemented")

        return fail

    for strategy in STRATEGIES[:-1]:
        monkeypatch.setattr(client_cert, strategy.__name__, fail_as(strategy.__name__))

    load_client_cert(new_context(), issue(authority))

    assert tried == ["_load_via_memfd", "_load_via_pipes", "_load_via_unlinked_file"]

    monkeypatch.setattr(client_cert, STRATEGIES[-1].__name__, fail_as("last"))
    with pytest.raises(ClientCertificateError, match="function not implemented"):
        load_client_cert(new_context(), issue(authority))


def test_a_certificate_larger_than_the_pipe_buffer_is_not_written_to_a_pipe(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(38, "no")

    monkeypatch.setattr(client_cert, "_load_via_memfd", fail)
    monkeypatch.setattr(client_cert, "_load_via_pipes", lambda *_: pytest.fail("would block"))
    pair = issue(authority)
    padded = pair.certificate + b"# padding\n" * (client_cert.PIPE_BUFFER // 10)

    load_client_cert(new_context(), ClientCertificate(padded, pair.key))


class TestInvalidCertificates:
    def error_message(self, certificate: bytes, key: bytes) -> str:
        with no_residue(), pytest.raises(ClientCertificateError) as caught:
            check_client_cert(ClientCertificate(certificate, Secret(key)), where="/etc/c.pem")
        assert "/etc/c.pem" in str(caught.value)
        assert caught.value.__context__ is None
        return str(caught.value)

    def test_the_error_says_what_is_wrong(self, authority: Authority) -> None:
        one, other = authority.client("a"), authority.client("b")
        assert "it contains no certificate" in self.error_message(b"", one.key)
        assert "its key is not a private key" in self.error_message(one.certificate, b"")
        assert "its key is not a private key" in self.error_message(one.certificate, one.certificate)
        assert "does not match" in self.error_message(one.certificate, other.key)
        assert "cannot be parsed" in self.error_message(
            one.certificate[:100] + b"\n-----END CERTIFICATE-----\n", one.key
        )
        assert "cannot be parsed" in self.error_message(
            one.certificate, one.key[:80] + b"\n-----END PRIVATE KEY-----\n"
        )

    def test_an_encrypted_key_does_not_prompt_for_a_passphrase(self, authority: Authority) -> None:
        pair = authority.client("a")
        key = serialization.load_pem_private_key(pair.key, None)
        encrypted = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )  # fmt: skip
        assert "encrypted" in self.error_message(pair.certificate, encrypted)


@each_case("strategy", STRATEGIES)
def test_other_pem_blocks_are_ignored(strategy: client_cert.Strategy, authority: Authority) -> None:
    """As in Go, a key in the certificate data and a certificate in the key data are skipped."""
    mine, other = authority.client("a"), authority.client("b")
    strategy(
        new_context(), ClientCertificate(other.key + mine.certificate, Secret(other.certificate + mine.key))
    )


def test_one_file_can_contain_the_certificate_and_the_key(authority: Authority) -> None:
    """As kubelet-client-current.pem does."""
    pair = authority.client("a")
    both = pair.key + pair.certificate
    check_client_cert(ClientCertificate(both, Secret(both)))


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd_create")
@each_case("free", range(4))
def test_without_free_descriptors_the_key_is_not_written_to_disk(free: int, authority: Authority) -> None:
    """The last strategy writes a named file and needs only one descriptor, so EMFILE must not reach it."""
    pair = issue(authority)
    failure: Exception | None = None
    find_cert_problem(pair)  # so that all modules are imported
    occupied: list[int] = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[0], 512), limits[1]))
    try:
        with suppress(OSError):
            while True:
                occupied.append(os.dup(2))
        for descriptor in occupied[:free]:
            os.close(descriptor)
        del occupied[:free]

        try:
            find_cert_problem(pair)
        except ClientCertificateError as error:
            failure = error
    finally:
        for descriptor in occupied:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    if failure is not None:
        assert "too many open files" in str(failure)
        assert "ulimit -n" in str(failure)
    # Two memory files, and one descriptor for OpenSSL.
    assert (failure is None) == (free >= 3)
