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

from kubeauth._credentials._credential import Identity
from kubeauth.errors import ClientCertificateError

# A pipe is written before it is read, so all must fit its buffer: 16 KiB is the least of any system.
PIPE_ROOM = 16 * 1024
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def load_identity(context: ssl.SSLContext, identity: Identity, *, where: str = "") -> None:
    """Gives `context` the certificate to show. ClientCertificateError if the two halves do not work together.

    `where` says in the error which pair it was.
    """
    why = load_problem(context, identity)
    if why is not None:
        raise _unusable(why, where)


def identity_problem(identity: Identity) -> str | None:
    """Why certificate and key are no use, in words; None if they can be parsed and belong together.

    ClientCertificateError if that cannot be found out, for which neither of them is to blame.
    """
    why = load_problem(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity)
    if isinstance(why, _Shortage):
        raise _unusable(why)
    return why


def check_identity(identity: Identity, *, where: str = "") -> None:
    """ClientCertificateError if certificate and key cannot be parsed, or do not belong together."""
    load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity, where=where)


class _Shortage(str):
    """A problem of this machine, not of the certificate."""


def _unusable(why: str, where: str = "") -> ClientCertificateError:
    return ClientCertificateError(f"the client certificate{where and f' ({where})'} cannot be used: {why}")


def load_problem(context: ssl.SSLContext, identity: Identity) -> str | None:
    """As `load_identity`, with what is wrong as a value: no frame with the key is part of a traceback."""
    if b"-----BEGIN CERTIFICATE-----" not in identity.certificate:
        return "there is no certificate in it. It must be PEM, starting with -----BEGIN CERTIFICATE-----"
    if b"PRIVATE KEY-----" not in identity.key.reveal():
        return "there is no private key beside it. It must be PEM, as -----BEGIN PRIVATE KEY-----"
    last = "no way is left"
    try:
        for way in _ways(identity):
            try:
                way(context, identity)
            except OSError as error:
                if isinstance(error, ssl.SSLError):
                    return _in_words(error)
                last = (error.strerror or str(error)).lower()
                if error.errno in _NO_ROOM:
                    # Another way would not help, and the last of them writes the key to a disk.
                    break
                # No memfd, no /proc, no /dev/fd: the next way needs less.
            else:
                return None
    except _EncryptedKey:
        return "its key is encrypted. Decrypt it first, for example with: openssl pkey -in KEY -out NEW"
    return _Shortage(
        f"it cannot be handed to OpenSSL: {last}. Check the limits of this process (ulimit -n), and that "
        "there is room in its temporary directory."
    )


def _in_words(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not match the certificate. Were both replaced?"
    return f"it cannot be parsed ({error.reason or 'no reason given'}). Is it complete?"


Way = Callable[[ssl.SSLContext, Identity], None]


def _ways(identity: Identity) -> list[Way]:
    ways: list[Way] = []
    if hasattr(os, "memfd_create"):
        ways.append(through_memfd)
    if os.name == "posix":
        if max(len(identity.certificate), len(identity.key.reveal())) <= PIPE_ROOM:
            ways.append(through_pipes)
        ways.append(through_nameless_file)
    return [*ways, through_short_lived_file]


def through_memfd(context: ssl.SSLContext, identity: Identity) -> None:
    """Linux: memory with a descriptor. It never was a file."""
    with ExitStack() as stack:
        descriptors: list[int] = []
        for data in _halves(identity):
            descriptor = os.memfd_create("kubeauth", os.MFD_CLOEXEC)
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
        _load(context, *(f"/proc/self/fd/{descriptor}" for descriptor in descriptors))


def through_pipes(context: ssl.SSLContext, identity: Identity) -> None:
    """POSIX: what OpenSSL reads from a pipe is gone."""
    with ExitStack() as stack:
        descriptors: list[int] = []
        for data in _halves(identity):
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            descriptors.append(reader)
            with open(writer, "wb") as pipe:
                pipe.write(data)
        _load(context, *(f"/dev/fd/{reader}" for reader in descriptors))


def through_nameless_file(context: ssl.SSLContext, identity: Identity) -> None:
    """POSIX: files that have lost their names before anything is written to them."""
    with tempfile.TemporaryFile(buffering=0) as certificate, tempfile.TemporaryFile(buffering=0) as key:
        for file, data in zip((certificate, key), _halves(identity), strict=True):
            file.write(data)
            file.seek(0)
        _load(context, f"/dev/fd/{certificate.fileno()}", f"/dev/fd/{key.fileno()}")


def through_short_lived_file(context: ssl.SSLContext, identity: Identity) -> None:
    """Anywhere: files that only their owner can read, gone a moment later."""
    with ExitStack() as stack:
        paths: list[str] = []
        for data in _halves(identity):
            descriptor, path = tempfile.mkstemp(prefix="kubeauth-")
            stack.callback(os.unlink, path)
            paths.append(path)
            with open(descriptor, "wb") as file:
                file.write(data)
        _load(context, *paths)


def _halves(identity: Identity) -> tuple[bytes, bytes]:
    # Apart, because each may hold the other's kind too: of the one only certificates count, of the other
    # only the key.
    return identity.certificate, identity.key.reveal()


class _EncryptedKey(Exception):
    pass


def _no_password() -> str:
    # Without a callback OpenSSL would ask for the password on the terminal.
    raise _EncryptedKey


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    context.load_cert_chain(certificate, key, password=_no_password)
