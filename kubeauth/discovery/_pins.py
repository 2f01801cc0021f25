"""Pins of public keys, as `kubeadm join --discovery-token-ca-cert-hash` takes them (A46, A53-A58). Pure.

A pin is the SHA-256 of a certificate's SubjectPublicKeyInfo, of the very bytes that stand in the certificate.
So these are sliced out of it, and not written anew by a library that may write an odd one otherwise. Nothing
here looks at the serial number, which is 0 in some CAs of kubeadm, and which cryptography is going to refuse.
"""

from __future__ import annotations

import binascii
import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from kubeauth._config import files as _pem
from kubeauth.errors import ConfigError, DiscoveryError

_ALGORITHM = "sha256"
_DIGITS = 2 * hashlib.sha256().digest_size
_HEX = re.compile(r"[0-9a-f]*")

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----\n"
_SEQUENCE, _INTEGER, _BIT_STRING, _VERSION = 0x30, 0x02, 0x03, 0xA0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a bundle."""

    pem: bytes
    """It alone, as PEM, written anew: no other reader of the bundle can take it for something else."""
    der: bytes
    pin: str
    """`sha256:` and 64 digits: the same for every certificate of the same key."""

    def __repr__(self) -> str:
        return f"Certificate({self.pin})"


@dataclass(frozen=True, slots=True)
class Pins:
    """Which public keys are trusted. Empty, it is false, and allows none: what that means is up to you."""

    values: frozenset[str] = frozenset()
    """Each as `sha256:` and 64 digits in lower case."""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Pins in either case. ConfigError if one of them is none: then there are none at all."""
        given = [texts] if isinstance(texts, str) else list(texts)
        return cls(
            frozenset(_pin(text, f"CA pin {n} of {len(given)}") for n, text in enumerate(given, start=1))
        )

    def allows(self, certificate: Certificate) -> bool:
        """Whether its public key is one of these."""
        return certificate.pin in self.values

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.values))


def public_key_pin(certificate: bytes | str) -> str:
    """The pin of a certificate, PEM or DER: `sha256:` and 64 digits.

    ConfigError if it is none, or several: pin each by itself.
    """
    data = certificate.encode("utf-8", "replace") if isinstance(certificate, str) else certificate
    if b"-----BEGIN" not in data:
        try:
            return _pin_of(data)
        except _NoCertificate as error:
            raise ConfigError(f"what was given is not a certificate: {error}") from None
    try:
        found = certificates(data)
    except DiscoveryError as error:
        raise ConfigError(str(error)) from None
    if len(found) > 1:
        raise ConfigError(f"{len(found)} certificates were given: a pin is of one. Give each by itself.")
    return found[0].pin


def certificates(pem: bytes) -> list[Certificate]:
    """Every certificate in a bundle. DiscoveryError if there is none, or a bad one; the rest is skipped."""
    blocks = _pem.split_pem_certificates(pem)
    if not blocks:
        raise DiscoveryError("there is no certificate in the CA data: it must be PEM, with BEGIN CERTIFICATE")
    found: list[Certificate] = []
    for number, block in enumerate(blocks, start=1):
        body = block.removeprefix(_BEGIN).removesuffix(_END)
        try:
            der = binascii.a2b_base64("".join(body.split()), strict_mode=True)
            found.append(Certificate(_written(der), der, _pin_of(der)))
        except ValueError as error:
            why = error if isinstance(error, _NoCertificate) else "it is not base64"
            raise DiscoveryError(
                f"certificate {number} of {len(blocks)} in the CA data cannot be read: {why}"
            ) from None
    return found


def _written(der: bytes) -> bytes:
    lines = textwrap.wrap(binascii.b2a_base64(der, newline=False).decode(), 64)
    return "\n".join([_BEGIN, *lines, _END]).encode()


def _pin(text: str, which: str) -> str:
    # None of it is repeated: it may be a token that was given in the wrong place.
    algorithm, _, digits = text.partition(":")
    if text.count(":") != 1:
        problem = "it must be an algorithm, a colon and a hash"
    elif algorithm.lower() != _ALGORITHM:
        problem = "the algorithm must be sha256"
    elif len(digits) != _DIGITS:
        problem = f"there must be {_DIGITS} hexadecimal digits, not {len(digits)}"
    elif not _HEX.fullmatch(digits.lower()):
        problem = "there must be hexadecimal digits alone"
    else:
        return f"{_ALGORITHM}:{digits.lower()}"
    raise ConfigError(
        f"{which} is an invalid CA hash: {problem}. `kubeadm token create --print-join-command` prints one: "
        "sha256: and 64 hexadecimal digits."
    )


class _NoCertificate(ValueError):
    """What is wrong with it, in words."""


def _pin_of(der: bytes) -> str:
    return f"{_ALGORITHM}:{hashlib.sha256(_public_key_info(der)).hexdigest()}"


def _public_key_info(der: bytes) -> bytes:
    """The SubjectPublicKeyInfo of a certificate, with its tag and length, as it stands there."""
    whole = _Der(der).only(_SEQUENCE)
    signed = whole.next(_SEQUENCE)
    whole.next(_SEQUENCE)  # the algorithm of the signature
    whole.next(_BIT_STRING)
    whole.end()
    signed.skip(_VERSION)
    signed.next(_INTEGER)
    for _ in ("signature", "issuer", "validity", "subject"):
        signed.next(_SEQUENCE)
    start = signed.position
    info = signed.next(_SEQUENCE)
    info.next(_SEQUENCE)
    info.next(_BIT_STRING)
    info.end()
    return der[start : signed.position]


class _Der:
    """Values one after the other, in a piece of DER."""

    __slots__ = ("_data", "_end", "position")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self.position = start
        self._end = len(data) if end is None else end

    def next(self, tag: int) -> _Der:
        """What is inside the next value, which must be of that kind."""
        if self.position >= self._end or self._data[self.position] != tag:
            raise _NoCertificate("it is not the DER of an X.509 certificate")
        start, end = self._inside()
        self.position = end
        return _Der(self._data, start, end)

    def skip(self, tag: int) -> None:
        """The next value, if it is of that kind."""
        if self.position < self._end and self._data[self.position] == tag:
            self.next(tag)

    def only(self, tag: int) -> _Der:
        inside = self.next(tag)
        self.end()
        return inside

    def end(self) -> None:
        if self.position != self._end:
            raise _NoCertificate("there is something behind it that does not belong there")

    def _inside(self) -> tuple[int, int]:
        start = self.position + 2
        length = self._data[self.position + 1] if start <= self._end else 0x80
        if length >= 0x80:
            size = length - 0x80
            digits = self._data[start : min(start + size, self._end)]
            start += size
            length = int.from_bytes(digits, "big")
            # As DER wants it: as few bytes as will do. 0x80 alone would be a length without end.
            if len(digits) < max(size, 1) or size > 4 or digits[0] == 0 or length < 0x80:
                raise _NoCertificate("a length in it is not DER")
        if start + length > self._end:
            raise _NoCertificate("it is cut short")
        return start, start + length
