"""A client certificate and its key into an SSLContext, through memory (K55).

`load_cert_chain` takes paths only. The key must not lie in a named file, where a crash leaves it, so the
paths are those of descriptors: anonymous memory on Linux, pipes elsewhere.
"""

from __future__ import annotations

import errno
import os
import ssl
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kubeauth._credentials.credential import ClientCertificate
from kubeauth._runtime import no_fork
from kubeauth.errors import ClientCertificateError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


# A pipe is written before it is read, so all must fit its buffer: 16 KiB is the least of any system.
PIPE_BUFFER = 16 * 1024
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def load_client_cert(context: ssl.SSLContext, identity: ClientCertificate, *, where: str = "") -> None:
    """Gives `context` the certificate to show. ClientCertificateError if the two halves do not work together.

    `where` says in the error which pair it was.
    """
    why = try_load(context, identity)
    if why is not None:
        raise _cert_error(why, where)


def find_cert_problem(identity: ClientCertificate) -> str | None:
    """Why certificate and key are no use, in words; None if they can be parsed and belong together.

    ClientCertificateError if that cannot be found out, for which neither of them is to blame.
    """
    why = try_load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity)
    if isinstance(why, _ResourceProblem):
        raise _cert_error(why)
    return why


def check_client_cert(identity: ClientCertificate, *, where: str = "") -> None:
    """ClientCertificateError if certificate and key cannot be parsed, or do not belong together."""
    load_client_cert(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity, where=where)


class _ResourceProblem(str):
    """A problem of this machine, not of the certificate."""


def _cert_error(why: str, where: str = "") -> ClientCertificateError:
    return ClientCertificateError(f"the client certificate{where and f' ({where})'} cannot be used: {why}")


def try_load(context: ssl.SSLContext, identity: ClientCertificate) -> str | None:
    """As `load_identity`, with what is wrong as a value: no frame with the key is part of a traceback."""
    if b"-----BEGIN CERTIFICATE-----" not in identity.certificate:
        return "there is no certificate in it. It must be PEM, starting with -----BEGIN CERTIFICATE-----"
    if b"PRIVATE KEY-----" not in identity.key.reveal():
        return "there is no private key beside it. It must be PEM, as -----BEGIN PRIVATE KEY-----"
    last = "no way is left"
    try:
        for way in _strategies(identity):
            try:
                way(context, identity)
            except OSError as error:
                if isinstance(error, ssl.SSLError):
                    return _describe_ssl_error(error)
                last = (error.strerror or str(error)).lower()
                if error.errno in _OUT_OF_RESOURCES:
                    # Another way would not help, and the last of them writes the key to a disk.
                    break
                # No memfd, no /proc, no /dev/fd: the next way needs less.
            else:
                return None
    except _EncryptedKey:
        return "its key is encrypted. Decrypt it first, for example with: openssl pkey -in KEY -out NEW"
    return _ResourceProblem(
        f"it cannot be handed to OpenSSL: {last}. Check the limits of this process (ulimit -n), and that "
        "there is room in its temporary directory."
    )


def _describe_ssl_error(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not match the certificate. Were both replaced?"
    return f"it cannot be parsed ({error.reason or 'no reason given'}). Is it complete?"


Strategy = Callable[[ssl.SSLContext, ClientCertificate], None]


def _strategies(identity: ClientCertificate) -> list[Strategy]:
    ways: list[Strategy] = []
    if hasattr(os, "memfd_create"):
        ways.append(_load_via_memfd)
    if os.name == "posix":
        if max(len(identity.certificate), len(identity.key.reveal())) <= PIPE_BUFFER:
            ways.append(_load_via_pipes)
        ways.append(_load_via_unlinked_file)
    return [*ways, _load_via_private_file]


def _load_via_memfd(context: ssl.SSLContext, identity: ClientCertificate) -> None:
    """Linux: memory with a descriptor. It never was a file."""
    with ExitStack() as stack:
        descriptors: list[int] = []
        for data in _pem_pair(identity):
            descriptor = os.memfd_create("kubeauth", os.MFD_CLOEXEC)
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
        _load(context, *(f"/proc/self/fd/{descriptor}" for descriptor in descriptors))


def _load_via_pipes(context: ssl.SSLContext, identity: ClientCertificate) -> None:
    """POSIX: what OpenSSL reads from a pipe is gone."""
    with ExitStack() as stack:
        descriptors: list[int] = []
        for data in _pem_pair(identity):
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            descriptors.append(reader)
            with open(writer, "wb") as pipe:
                pipe.write(data)
        _load(context, *(f"/dev/fd/{reader}" for reader in descriptors))


def _load_via_unlinked_file(context: ssl.SSLContext, identity: ClientCertificate) -> None:
    """POSIX: files that have lost their names before anything is written to them."""
    with tempfile.TemporaryFile(buffering=0) as certificate, tempfile.TemporaryFile(buffering=0) as key:
        for file, data in zip((certificate, key), _pem_pair(identity), strict=True):
            file.write(data)
            file.seek(0)
        _load(context, f"/dev/fd/{certificate.fileno()}", f"/dev/fd/{key.fileno()}")


def _load_via_private_file(context: ssl.SSLContext, identity: ClientCertificate) -> None:
    """Anywhere: files that only their owner can read, gone a moment later."""
    with ExitStack() as stack:
        paths: list[str] = []
        for data in _pem_pair(identity):
            descriptor, path = tempfile.mkstemp(prefix="kubeauth-")
            stack.callback(os.unlink, path)
            paths.append(path)
            with open(descriptor, "wb") as file:
                file.write(data)
        _load(context, *paths)


def _pem_pair(identity: ClientCertificate) -> tuple[bytes, bytes]:
    # Apart, because each may hold the other's kind too: of the one only certificates count, of the other
    # only the key.
    return identity.certificate, identity.key.reveal()


class _EncryptedKey(Exception):
    pass


def _reject_password() -> str:
    # Without a callback OpenSSL would ask for the password on the terminal.
    raise _EncryptedKey


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    context.load_cert_chain(certificate, key, password=_reject_password)


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Validity:
    """Seconds since 1970."""

    not_before: float
    not_after: float


def read_validity(identity: ClientCertificate) -> Validity | None:
    """Those of the leaf, which comes first; None if they cannot be told."""
    return read_leaf(identity.certificate, _read_dates)


def read_leaf(pem: bytes, read: Callable[[Certificate], _T]) -> _T | None:
    """What `read` makes of the first certificate; None if it cannot be parsed."""
    # All of it: also what the library sets up when it is first used is not finished by a child.
    with no_fork:
        from cryptography.x509 import load_pem_x509_certificates

        try:
            return read(load_pem_x509_certificates(pem)[0])
        except Exception:
            # OpenSSL took it, cryptography is stricter, and its errors have nothing in common: InvalidVersion
            # is no ValueError. The credential works, its end is not known.
            return None


def _read_dates(leaf: Certificate) -> Validity:
    return Validity(leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp())
