"""Certificates that no authority would make, byte by byte."""

from __future__ import annotations

import binascii

RSA_KEY = b"\x30\x0a\x02\x03\x01\x00\x01\x02\x03\x01\x00\x01"


def tlv(tag: int, content: bytes) -> bytes:
    """A value as DER has it."""
    size = len(content)
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big") if size >= 0x80 else b""
    length = bytes([0x80 | len(digits)]) + digits if digits else bytes([size])
    return bytes([tag]) + length + content


def sequence(*parts: bytes) -> bytes:
    return tlv(0x30, b"".join(parts))


ALGORITHM = sequence(b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", b"\x05\x00")


def key_info(key: bytes = RSA_KEY) -> bytes:
    return sequence(ALGORITHM, tlv(0x03, b"\x00" + key))


def certificate(
    *,
    info: bytes | None = None,
    version: bytes = tlv(0xA0, b"\x02\x01\x02"),
    serial: bytes = b"\x02\x01\x00",
    behind: bytes = b"",
) -> bytes:
    """One with the serial number 0, as kubeadm has made them."""
    signed = sequence(
        version,
        serial,
        ALGORITHM,
        sequence(),
        sequence(),
        sequence(),
        key_info() if info is None else info,
        behind,
    )
    return sequence(signed, ALGORITHM, tlv(0x03, b"\x00\xff"))


def pem(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + binascii.b2a_base64(der) + b"-----END CERTIFICATE-----\n"
