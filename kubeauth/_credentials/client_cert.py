"""Load a client certificate and its key into an SSLContext through memory (K55), and read its validity.

`load_cert_chain` accepts only paths. A crash could leave a key in a named file, so the paths are those of
file descriptors: anonymous memory on Linux, pipes elsewhere.
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


# A pipe is written before it is read, so the data must fit its buffer, which has at least 16 KiB everywhere.
PIPE_BUFFER = 16 * 1024
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def load_client_cert(context: ssl.SSLContext, client_cert: ClientCertificate, *, where: str = "") -> None:
    """Load the certificate into `context`. ClientCertificateError if certificate and key do not match.

    `where` names the certificate in the error.
    """
    problem = try_load(context, client_cert)
    if problem is not None:
        raise _cert_error(problem, where)


def find_cert_problem(client_cert: ClientCertificate) -> str | None:
    """Return why certificate and key are invalid; None if they can be parsed and match.

    ClientCertificateError if this machine has no resources left to check them.
    """
    problem = try_load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), client_cert)
    if isinstance(problem, _ResourceProblem):
        raise _cert_error(problem)
    return problem


def check_client_cert(client_cert: ClientCertificate, *, where: str = "") -> None:
    """Raise ClientCertificateError if certificate and key cannot be parsed, or do not match."""
    load_client_cert(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), client_cert, where=where)


class _ResourceProblem(str):
    """A problem of this machine, not of the certificate."""


def _cert_error(problem: str, where: str = "") -> ClientCertificateError:
    return ClientCertificateError(
        f"the client certificate{where and f' ({where})'} cannot be used: {problem}"
    )


def try_load(context: ssl.SSLContext, client_cert: ClientCertificate) -> str | None:
    """As `load_client_cert`, but return the problem: no traceback has a frame with the key."""
    if b"-----BEGIN CERTIFICATE-----" not in client_cert.certificate:
        return "it contains no certificate. It must be PEM, starting with -----BEGIN CERTIFICATE-----"
    if b"PRIVATE KEY-----" not in client_cert.key.reveal():
        return "its key is not a private key. It must be PEM, as -----BEGIN PRIVATE KEY-----"
    reason = "no strategy is available"
    try:
        for load in _strategies(client_cert):
            try:
                load(context, client_cert)
            except OSError as error:
                if isinstance(error, ssl.SSLError):
                    return _describe_ssl_error(error)
                reason = (error.strerror or str(error)).lower()
                if error.errno in _OUT_OF_RESOURCES:
                    # Another strategy would not help, and the last one writes the key to disk.
                    break
                # No memfd, no /proc, no /dev/fd: the next strategy needs less.
            else:
                return None
    except _EncryptedKey:
        return "its key is encrypted. Decrypt it first, for example with: openssl pkey -in KEY -out NEW"
    return _ResourceProblem(
        f"it cannot be passed to OpenSSL: {reason}. Check the limits of this process (ulimit -n), and that "
        "there is space in its temporary directory."
    )


def _describe_ssl_error(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not match the certificate. Were both replaced?"
    return f"it cannot be parsed ({error.reason or 'unknown reason'}). Is it complete?"


Strategy = Callable[[ssl.SSLContext, ClientCertificate], None]


def _strategies(client_cert: ClientCertificate) -> list[Strategy]:
    strategies: list[Strategy] = []
    if hasattr(os, "memfd_create"):
        strategies.append(_load_via_memfd)
    if os.name == "posix":
        if max(len(client_cert.certificate), len(client_cert.key.reveal())) <= PIPE_BUFFER:
            strategies.append(_load_via_pipes)
        strategies.append(_load_via_unlinked_file)
    return [*strategies, _load_via_private_file]


def _load_via_memfd(context: ssl.SSLContext, client_cert: ClientCertificate) -> None:
    """Linux: anonymous memory with a descriptor."""
    with ExitStack() as stack:
        descriptors: list[int] = []
        for data in _pem_pair(client_cert):
            descriptor = os.memfd_create("kubeauth", os.MFD_CLOEXEC)
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
        _load(context, *(f"/proc/self/fd/{descriptor}" for descriptor in descriptors))


def _load_via_pipes(context: ssl.SSLContext, client_cert: ClientCertificate) -> None:
    """POSIX: pipes, which OpenSSL reads once."""
    with ExitStack() as stack:
        descriptors: list[int] = []
        for data in _pem_pair(client_cert):
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            descriptors.append(reader)
            with open(writer, "wb") as pipe:
                pipe.write(data)
        _load(context, *(f"/dev/fd/{reader}" for reader in descriptors))


def _load_via_unlinked_file(context: ssl.SSLContext, client_cert: ClientCertificate) -> None:
    """POSIX: files that are unlinked before anything is written to them."""
    with tempfile.TemporaryFile(buffering=0) as certificate, tempfile.TemporaryFile(buffering=0) as key:
        for file, data in zip((certificate, key), _pem_pair(client_cert), strict=True):
            file.write(data)
            file.seek(0)
        _load(context, f"/dev/fd/{certificate.fileno()}", f"/dev/fd/{key.fileno()}")


def _load_via_private_file(context: ssl.SSLContext, client_cert: ClientCertificate) -> None:
    """Any system: files that only their owner can read, deleted after loading."""
    with ExitStack() as stack:
        paths: list[str] = []
        for data in _pem_pair(client_cert):
            descriptor, path = tempfile.mkstemp(prefix="kubeauth-")
            stack.callback(os.unlink, path)
            paths.append(path)
            with open(descriptor, "wb") as file:
                file.write(data)
        _load(context, *paths)


def _pem_pair(client_cert: ClientCertificate) -> tuple[bytes, bytes]:
    # Two files, since each may contain the other part, too: OpenSSL reads certificates only from the first,
    # and the key only from the second.
    return client_cert.certificate, client_cert.key.reveal()


class _EncryptedKey(Exception):
    pass


def _reject_password() -> str:
    # Without a callback, OpenSSL would prompt on the terminal.
    raise _EncryptedKey


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    context.load_cert_chain(certificate, key, password=_reject_password)


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Validity:
    """The validity period of a certificate, in seconds since 1970."""

    not_before: float
    not_after: float


def read_validity(client_cert: ClientCertificate) -> Validity | None:
    """Return the validity of the leaf, which comes first; None if it cannot be parsed."""
    return read_leaf(client_cert.certificate, _read_dates)


def read_leaf(pem: bytes, read: Callable[[Certificate], _T]) -> _T | None:
    """Return `read(certificate)` for the first certificate; None if it cannot be parsed."""
    # Also during the call, which may initialize the library: a child forked meanwhile cannot complete it.
    with no_fork:
        from cryptography.x509 import load_pem_x509_certificates

        try:
            return read(load_pem_x509_certificates(pem)[0])
        except Exception:
            # cryptography is stricter than OpenSSL, and its errors have no common base: InvalidVersion is not
            # a ValueError. The credential works; its expiry is unknown.
            return None


def _read_dates(leaf: Certificate) -> Validity:
    return Validity(leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp())
