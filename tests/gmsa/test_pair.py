"""A server's certificate, with real handshakes and files that are swapped as Kubernetes does it."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kubeauth.errors import ConfigError
from kubeauth.gmsa._pair import ServedPair
from kubeauth.testing import Authority, KeyPair
from tests.support.leaks import SENTINEL, render_error


class Mounted:
    """A Secret in a pod: files are links through `..data`, which is swapped at once for another directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = directory / "tls.crt", directory / "tls.key"
        self._number = 0
        for file in self.files:
            file.symlink_to(Path("..data") / file.name)

    def swap(self, pair: KeyPair) -> None:
        self._number += 1
        fresh = self.directory / f"..{self._number}"
        fresh.mkdir()
        (fresh / "tls.crt").write_bytes(pair.certificate)
        (fresh / "tls.key").write_bytes(pair.key)
        before = (self.directory / "..data").resolve()
        (self.directory / "..data_tmp").symlink_to(fresh.name)
        (self.directory / "..data_tmp").replace(self.directory / "..data")
        if self._number > 1:  # as the kubelet does: what was there is gone
            for file in before.iterdir():
                file.unlink()
            before.rmdir()


def der(pair: KeyPair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.decode())


def shown(pair: ServedPair, authority: Authority, name: str | None = "webhook.test") -> bytes:
    """The certificate that a client is shown, in memory; DER."""
    trust = ssl.create_default_context(cadata=authority.pem.decode())
    trust.check_hostname = name is not None
    found = handshake(pair, trust, name).getpeercert(binary_form=True)
    assert found is not None
    return found


def handshake(pair: ServedPair, trust: ssl.SSLContext, name: str | None = "webhook.test") -> ssl.SSLObject:
    """A client that has shaken hands with a server that has that pair."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(back, there, server_hostname=name)
    server = pair.context.wrap_bio(there, back, server_side=True)
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    (tmp_path / "tls").mkdir()
    return Mounted(tmp_path / "tls")


@pytest.mark.parametrize("name", ["webhook.test", None])
def test_swaps_by_link_are_noticed_each_time_b79(
    mounted: Mounted, authority: Authority, name: str | None
) -> None:
    pairs = [authority.server("webhook.test") for _ in range(4)]
    mounted.swap(pairs[0])
    served = ServedPair(*mounted.files)
    assert shown(served, authority, name) == der(pairs[0])
    for pair in pairs[1:]:
        assert not served.reload()
        mounted.swap(pair)
        assert shown(served, authority, name) != der(pair)
        assert served.reload()
        assert shown(served, authority, name) == der(pair)


def test_files_with_the_same_time_differ_by_what_is_in_them_b79(
    mounted: Mounted, authority: Authority
) -> None:
    pairs = [authority.server("webhook.test") for _ in range(2)]
    mounted.swap(pairs[0])
    served = ServedPair(*mounted.files)
    before = os.stat(mounted.files[0])
    mounted.swap(pairs[1])
    for file in mounted.files:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert served.reload()
    assert shown(served, authority) == der(pairs[1])
    for file in mounted.files:
        os.utime(file)
    assert not served.reload()  # the same, written again


def other_key(kind: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def encrypted(pem: bytes) -> bytes:
    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )


@pytest.mark.parametrize("fault", ["empty", "half", "ec", "rsa", "encrypted", "garbage", "gone"])
def test_a_bad_pair_leaves_the_one_before_b78(
    mounted: Mounted, authority: Authority, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kubeauth.gmsa")
    first, new = authority.server("webhook.test"), authority.server("webhook.test")
    mounted.swap(first)
    served = ServedPair(*mounted.files)
    bad = {
        "empty": KeyPair(b"", b""),
        "half": KeyPair(new.certificate, first.key),
        "ec": KeyPair(new.certificate, other_key("ec")),
        "rsa": KeyPair(new.certificate, other_key("rsa")),
        "encrypted": KeyPair(new.certificate, encrypted(new.key)),
        "garbage": KeyPair(new.certificate[:200], new.key[:80]),
        "gone": new,
    }[fault]
    mounted.swap(bad)
    if fault == "gone":
        mounted.files[1].unlink()
    for _ in range(3):
        assert not served.reload()
        assert shown(served, authority) == der(first)
    (record,) = caplog.records  # said once
    assert record.levelno == logging.WARNING
    assert "the one before stays" in record.getMessage()
    assert "client" not in record.getMessage()

    if fault == "gone":
        mounted.files[1].symlink_to("..data/tls.key")
    mounted.swap(new)
    assert served.reload()
    assert shown(served, authority) == der(new)
    mounted.swap(bad)
    if fault != "gone":
        assert not served.reload()
        assert len(caplog.records) == 3  # and said again for another time


def test_what_is_put_back_is_no_complaint_b78(
    mounted: Mounted, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    first = authority.server("webhook.test")
    mounted.swap(first)
    served = ServedPair(*mounted.files)
    for _ in range(2):
        mounted.swap(KeyPair(b"", b""))
        served.reload()
        mounted.swap(first)
        assert not served.reload()
    assert len(caplog.records) == 2


def test_a_key_of_another_kind_takes_the_place_of_the_old_one_b79(mounted: Mounted, tmp_path: Path) -> None:
    """A context into which both were loaded would go on to show the first to whoever likes it better."""
    import trustme

    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    pairs = []
    for kind in (trustme.KeyType.RSA, trustme.KeyType.ECDSA, trustme.KeyType.RSA):
        leaf = authority.issue_cert("webhook.test", key_type=kind)
        chain = b"".join(each.bytes() for each in leaf.cert_chain_pems)
        pairs.append(KeyPair(chain, leaf.private_key_pem.bytes()))
    trusted = Authority()
    trusted.pem = authority.cert_pem.bytes()
    mounted.swap(pairs[0])
    served = ServedPair(*mounted.files)
    for pair in pairs[1:]:
        mounted.swap(pair)
        assert served.reload()
        assert shown(served, trusted) == der(pair)


@pytest.mark.parametrize("fault", ["missing", "empty", "mismatch"])
def test_without_a_pair_to_begin_with_it_does_not_begin_b78(
    tmp_path: Path, authority: Authority, fault: str
) -> None:
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    pair = authority.server("webhook.test")
    if fault != "missing":
        KeyPair(b"" if fault == "empty" else pair.certificate, other_key("ec")).write(*files)
    with pytest.raises(ConfigError, match="the certificate of the webhook cannot be used") as caught:
        ServedPair(*files)
    assert str(tmp_path) in str(caught.value)
    assert "PRIVATE" not in render_error(caught.value)


def test_no_descriptor_to_be_had_is_told_and_passes_b78(
    mounted: Mounted, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, new = authority.server("webhook.test"), authority.server("webhook.test")
    mounted.swap(first)
    served = ServedPair(*mounted.files)
    mounted.swap(new)

    def none_left(*_: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as limits:
        limits.setattr(os, "memfd_create", none_left)
        assert not served.reload()
    assert "too many open files" in caplog.text
    assert "client" not in caplog.text
    assert served.reload()
    assert shown(served, authority) == der(new)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("fault", ["fifo", "huge", "directory"])
def test_whatever_is_put_there_it_goes_on_and_ends_b78_b79(
    mounted: Mounted, authority: Authority, backend: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the place of the key: what nobody writes to, what is larger than memory, what is no file."""
    pairs = [authority.server("webhook.test") for _ in range(2)]
    mounted.swap(pairs[0])
    served = ServedPair(*mounted.files)
    key = mounted.files[1]

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.follow, 0.01)
            os.unlink(key)
            if fault == "fifo":
                os.mkfifo(key)
            elif fault == "huge":
                key.touch()
                os.truncate(key, 2**40)
            else:
                key.mkdir()
            with anyio.fail_after(50):
                while "stays" not in caplog.text:  # noqa: ASYNC110 -- a log has no event
                    await anyio.sleep(0.01)
                assert shown(served, authority) == der(pairs[0])
                key.rmdir() if fault == "directory" else key.unlink()
                key.symlink_to(Path("..data") / key.name)
                mounted.swap(pairs[1])
                while shown(served, authority) != der(pairs[1]):  # noqa: ASYNC110 -- no event tells of it
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    anyio.run(work, backend=backend)


def test_a_mistake_of_ours_leaves_the_one_before_b78(
    mounted: Mounted, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    class Mistaken(ServedPair):
        def reload(self) -> bool:
            raise MemoryError(SENTINEL)

    mounted.swap(authority.server("webhook.test"))
    served = Mistaken(*mounted.files)

    async def work() -> None:
        with anyio.move_on_after(50) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(served.follow, 0.001)
                while "MemoryError" not in caplog.text:  # noqa: ASYNC110 -- a log has no event
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught

    anyio.run(work)
    assert caplog.text.count("MemoryError") == 1  # once, and not each time
    assert SENTINEL not in caplog.text


def test_who_begins_with_a_fifo_is_told_b78(mounted: Mounted, authority: Authority) -> None:
    mounted.swap(authority.server("webhook.test"))
    os.unlink(mounted.files[1])
    os.mkfifo(mounted.files[1])
    with pytest.raises(ConfigError, match="it is not a regular file"):
        ServedPair(*mounted.files)


def test_tls_is_of_this_decade(mounted: Mounted, authority: Authority) -> None:
    """TLS 1.2 at least, and HTTP/1.1 is what is spoken: Go would take HTTP/2 if it were offered."""
    mounted.swap(authority.server("webhook.test"))
    served = ServedPair(*mounted.files)
    assert served.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert served._shown.minimum_version is ssl.TLSVersion.TLSv1_2
    client = ssl.create_default_context(cadata=authority.pem.decode())
    client.set_alpn_protocols(["h2", "http/1.1"])
    assert handshake(served, client).selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_is_followed_until_nobody_wants_it_b79(
    mounted: Mounted, authority: Authority, backend: str
) -> None:
    pairs = [authority.server("webhook.test") for _ in range(3)]
    mounted.swap(pairs[0])
    served = ServedPair(*mounted.files)

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.follow, 0.01)
            for pair in pairs[1:]:
                mounted.swap(pair)
                with anyio.fail_after(50):
                    while shown(served, authority) != der(pair):  # noqa: ASYNC110 -- no event tells of it
                        await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    anyio.run(work, backend=backend)
