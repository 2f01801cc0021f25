"""Keys reach OpenSSL through memory, and nothing stays behind (K55)."""

from __future__ import annotations

import os
import resource
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives import serialization

from kubeauth import Secret
from kubeauth._credentials import client_cert as _keypair
from kubeauth._credentials.client_cert import check_client_cert, find_cert_problem, load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.errors import ClientCertificateError
from kubeauth.testing import APIServer, Authority
from tests.support.cases import each_case
from tests.support.residue import no_residue

WAYS = [
    _keypair._load_via_memfd, _keypair._load_via_pipes, _keypair._load_via_unlinked_file, _keypair._load_via_private_file,
]  # fmt: skip


def identity(authority: Authority, name: str = "carol") -> ClientCertificate:
    pair = authority.client(name)
    return ClientCertificate(pair.certificate, Secret(pair.key))


def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_works_and_leaves_nothing(
    way: _keypair.Strategy, authority: Authority, server: APIServer
) -> None:
    with no_residue():
        it = context()
        it.load_verify_locations(cadata=authority.pem.decode())
        way(it, identity(authority))
        port = int(server.url.rpartition(":")[2])
        import socket

        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            it.wrap_socket(raw, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(b"GET /version HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            while tls.recv(4096):
                pass
    assert server.requests[0].common_name == "carol"


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_leaves_nothing_either(way: _keypair.Strategy, authority: Authority) -> None:
    one, other = identity(authority), identity(authority)
    with no_residue(), pytest.raises(OSError):  # noqa: PT011 -- OpenSSL's own, or of the seek that a pipe refuses
        way(context(), ClientCertificate(one.certificate, other.key))


def test_off_the_main_thread(authority: Authority) -> None:
    failed: list[BaseException] = []

    def load() -> None:
        try:
            check_client_cert(identity(authority))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_where_one_way_is_closed_the_next_is_taken(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a system without memfd, in a container without /proc, with a full temporary directory."""
    tried: list[str] = []

    def closed(name: str) -> Callable[..., None]:
        def way(*_: object) -> None:
            tried.append(name)
            raise OSError(38, "Function not implemented")

        return way

    for way in WAYS[:-1]:
        monkeypatch.setattr(_keypair, way.__name__, closed(way.__name__))
    load_client_cert(context(), identity(authority))
    assert tried == ["_load_via_memfd", "_load_via_pipes", "_load_via_unlinked_file"]
    monkeypatch.setattr(_keypair, WAYS[-1].__name__, closed("last"))
    with pytest.raises(ClientCertificateError, match="function not implemented"):
        load_client_cert(context(), identity(authority))


def test_what_does_not_fit_a_pipe_does_not_go_through_one(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(38, "no")

    monkeypatch.setattr(_keypair, "_load_via_memfd", fail)
    monkeypatch.setattr(_keypair, "_load_via_pipes", lambda *_: pytest.fail("would block"))
    big = identity(authority)
    filled = big.certificate + b"# padding\n" * (_keypair.PIPE_BUFFER // 10)
    load_client_cert(context(), ClientCertificate(filled, big.key))


class TestWhatIsWrongWithIt:
    def why(self, certificate: bytes, key: bytes) -> str:
        with no_residue(), pytest.raises(ClientCertificateError) as caught:
            check_client_cert(ClientCertificate(certificate, Secret(key)), where="/etc/c.pem")
        assert "/etc/c.pem" in str(caught.value)
        assert caught.value.__context__ is None
        return str(caught.value)

    def test_each_has_its_sentence(self, authority: Authority) -> None:
        one, other = authority.client("a"), authority.client("b")
        assert "it contains no certificate" in self.why(b"", one.key)
        assert "its key is not a private key" in self.why(one.certificate, b"")
        assert "its key is not a private key" in self.why(one.certificate, one.certificate)
        assert "does not match" in self.why(one.certificate, other.key)
        assert "cannot be parsed" in self.why(
            one.certificate[:100] + b"\n-----END CERTIFICATE-----\n", one.key
        )
        assert "cannot be parsed" in self.why(
            one.certificate, one.key[:80] + b"\n-----END PRIVATE KEY-----\n"
        )

    def test_an_encrypted_key_is_not_asked_about_on_the_terminal(self, authority: Authority) -> None:
        pair = authority.client("a")
        key = serialization.load_pem_private_key(pair.key, None)
        encrypted = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )  # fmt: skip
        assert "encrypted" in self.why(pair.certificate, encrypted)


@each_case("way", WAYS)
def test_of_each_half_only_its_own_counts(way: _keypair.Strategy, authority: Authority) -> None:
    """As in Go: another key beside the certificate, another certificate beside the key."""
    mine, other = authority.client("a"), authority.client("b")
    way(context(), ClientCertificate(other.key + mine.certificate, Secret(other.certificate + mine.key)))


def test_one_file_may_hold_both(authority: Authority) -> None:
    """As kubelet-client-current.pem does."""
    pair = authority.client("a")
    both = pair.key + pair.certificate
    check_client_cert(ClientCertificate(both, Secret(both)))


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="about Linux")
@each_case("room", range(4))
def test_short_of_descriptors_no_key_is_written_to_a_disk(room: int, authority: Authority) -> None:
    """It says so instead: there is another way, and that is a file with a name."""
    pair = identity(authority)
    find_cert_problem(pair)  # whatever is loaded late is loaded
    taken: list[int] = []
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 512), before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(2))
        for descriptor in taken[:room]:
            os.close(descriptor)
        del taken[:room]
        failure: Exception | None = None
        try:
            find_cert_problem(pair)
        except ClientCertificateError as error:
            failure = error
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    if failure is not None:
        assert "too many open files" in str(failure)
        assert "ulimit -n" in str(failure)
    # Two in memory, and one that OpenSSL opens: with less, a file would do with one, and must not.
    assert (failure is None) == (room >= 3)
