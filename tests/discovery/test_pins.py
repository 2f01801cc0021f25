"""Pins of public keys, and the certificates that they are of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kubeauth.discovery import Pins, public_key_pin
from kubeauth.discovery._pins import Certificate, certificates
from kubeauth.errors import ConfigError, DiscoveryError
from kubeauth.testing import Authority
from tests.discovery import second
from tests.discovery.certificates import certificate, key_info, pem, sequence, tlv
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, render_error

DIGITS = "345959acb2c3b2feb87d281961c893f62a314207ef02599f1cc4a5fb255480b3"
PIN = f"sha256:{DIGITS}"
OTHER = "sha256:" + "d1" * 32
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

KEYS: dict[str, Callable[[], Key]] = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
}


def signed(key: Key, name: str = "kubernetes", serial: int = 1) -> bytes:
    """A certificate for that key."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), serial, start, start + timedelta(days=9)
    )
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(Encoding.PEM)


@each_case("kind", KEYS)
def test_a_pin_is_the_hash_of_the_public_key_a55(kind: str) -> None:
    key = KEYS[kind]()
    one = signed(key)
    info = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert public_key_pin(one) == f"sha256:{hashlib.sha256(info).hexdigest()}" == second.pin(one)
    # A renewed certificate of the same key has the same.
    assert public_key_pin(signed(key, "renewed", 2)) == public_key_pin(one)
    assert public_key_pin(signed(KEYS[kind]())) != public_key_pin(one)


def test_a_certificate_may_be_pem_or_der_text_or_bytes_a55(authority: Authority) -> None:
    der = x509.load_pem_x509_certificate(authority.pem).public_bytes(Encoding.DER)
    ways: list[bytes | str] = [authority.pem, authority.pem.decode(), b"some text\n" + authority.pem, der]
    assert {public_key_pin(each) for each in ways} == {second.pin(authority.pem)}


def test_a_serial_number_of_zero_does_not_matter_a56() -> None:
    der = certificate(serial=b"\x02\x01\x00")
    assert public_key_pin(der) == f"sha256:{hashlib.sha256(key_info()).hexdigest()}"


def test_what_is_hashed_is_what_stands_there_a56() -> None:
    """A key with an encoding that no library would write: zeros before its number."""
    odd = key_info(b"\x30\x0c\x02\x05\x00\x00\x01\x00\x01\x02\x03\x01\x00\x01")
    assert public_key_pin(certificate(info=odd)) == f"sha256:{hashlib.sha256(odd).hexdigest()}"


def test_a_certificate_of_the_first_version_has_no_version_a56() -> None:
    assert public_key_pin(certificate(version=b"")) == public_key_pin(certificate())
    assert public_key_pin(certificate(behind=tlv(0xA3, sequence()))) == public_key_pin(certificate())


@each_case("text", [PIN, PIN.upper(), f"SHA256:{DIGITS}", f"Sha256:{DIGITS.upper()}"])
def test_a_pin_may_be_in_any_case_a53_a58(text: str) -> None:
    assert list(Pins.parse([text])) == [PIN]
    assert list(Pins.parse(text)) == [PIN]


@each_case(
    ("text", "why"),
    [
        ("", "an algorithm, a colon and a hash"),
        ("xyz", "an algorithm, a colon and a hash"),
        ("foo", "an algorithm, a colon and a hash"),
        ("0011223344", "an algorithm, a colon and a hash"),
        (DIGITS, "an algorithm, a colon and a hash"),
        (PIN + PIN, "an algorithm, a colon and a hash"),
        (f"{PIN}:", "an algorithm, a colon and a hash"),
        (f"md5:{DIGITS}", "the algorithm must be sha256"),
        (f"sha512:{DIGITS * 2}", "the algorithm must be sha256"),
        (f":{DIGITS}", "the algorithm must be sha256"),
        (f" {PIN}", "the algorithm must be sha256"),
        ("sha256:", "64 hexadecimal digits, not 0"),
        (PIN[:-2], "64 hexadecimal digits, not 62"),
        (PIN[:-1], "64 hexadecimal digits, not 63"),
        (f"{PIN}0", "64 hexadecimal digits, not 65"),
        (f"{PIN}00", "64 hexadecimal digits, not 66"),
        (f"{PIN}\n", "64 hexadecimal digits, not 65"),
        (f"{PIN[:-1]}g", "hexadecimal digits alone"),
        (f"{PIN[:-1]}\n", "hexadecimal digits alone"),
        (f"{PIN[:-1]}\u0661", "hexadecimal digits alone"),
        (f"sha256: {DIGITS[1:]}", "hexadecimal digits alone"),
    ],
)
def test_what_is_no_pin_is_refused_a53_a54_a58(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"CA pin 1 of 1 is an invalid CA hash: .*{why}"):
        Pins.parse([text])


def test_one_bad_pin_spoils_all_a57() -> None:
    with pytest.raises(ConfigError, match="CA pin 2 of 3 is an invalid CA hash"):
        Pins.parse([PIN, "xyz", OTHER])


def test_an_error_about_a_pin_does_not_repeat_it_a92() -> None:
    for text in (SENTINEL, f"sha256:{SENTINEL}", f"{SENTINEL}:{DIGITS}"):
        with pytest.raises(ConfigError) as raised:
            Pins.parse([text])
        assert SENTINEL not in str(raised.value)


def test_several_pins_are_fine_and_none_allow_nothing_a57() -> None:
    pins = Pins.parse([PIN, OTHER, PIN.upper()])
    assert (len(pins), list(pins), bool(pins)) == (2, [PIN, OTHER], True)
    none = Pins.parse([])
    assert (len(none), bool(none), none) == (0, False, Pins())
    assert not none.allows(Certificate(b"", b"", PIN))


def test_a_pin_allows_its_certificate_and_no_other_a58(authority: Authority) -> None:
    (mine,), (theirs,) = certificates(authority.pem), certificates(Authority("other").pem)
    pins = Pins.parse([mine.pin.upper(), PIN])
    assert (pins.allows(mine), pins.allows(theirs)) == (True, False)
    # A message about it shows what to compare.
    assert repr(theirs) == f"Certificate({theirs.pin})"


def test_every_certificate_of_a_bundle_is_found_a46(authority: Authority) -> None:
    other = Authority("other")
    pair = authority.server("localhost")
    headers = authority.pem.replace(b"CERTIFICATE-----\n", b"CERTIFICATE-----\nProc-Type: 4\n\n", 1)
    found = certificates(b"text\n" + authority.pem + pair.key + headers + other.pem.rstrip() + b"\ntext")
    assert [each.pin for each in found] == [second.pin(authority.pem), second.pin(other.pem)]
    assert [each.pem for each in found] == [authority.pem, other.pem]
    assert found[0].der == x509.load_pem_x509_certificate(authority.pem).public_bytes(Encoding.DER)


def test_a_certificate_is_written_anew_a46(authority: Authority) -> None:
    """So that whoever reads it next finds the one that was pinned."""
    spread = authority.pem.replace(b"\n", b"\r\n \t")
    assert certificates(spread)[0].pem == authority.pem


@each_case("data", [b"", b"foo", b"-----BEGIN CERTIFICATE-----\nAAAA", b"\x30\x00"])
def test_a_bundle_without_a_certificate_is_refused_a46(data: bytes) -> None:
    with pytest.raises(DiscoveryError, match="there is no certificate in the CA data"):
        certificates(data)


@each_case(
    ("block", "why"),
    [
        (b"-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n", "it is not base64"),
        (b"-----BEGIN CERTIFICATE-----\n\xff\xff\n-----END CERTIFICATE-----\n", "it is not base64"),
        (b"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n", "it is not base64"),
        (b"-----BEGIN CERTIFICATE-----\nMAA=\n-----x-----\n-----END CERTIFICATE-----\n", "it is not base64"),
        (b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "it is not the DER of"),
        (pem(b"foo"), "it is not the DER of"),
        (pem(certificate()[:-1]), "it is cut short"),
        (pem(certificate() + b"\x00"), "there is something behind it"),
    ],
)
def test_one_bad_certificate_spoils_the_bundle_a46(block: bytes, why: str, authority: Authority) -> None:
    with pytest.raises(DiscoveryError, match=f"certificate 2 of 2 in the CA data cannot be read: {why}"):
        certificates(authority.pem + block)


@each_case(
    "der",
    [
        b"",
        b"\x30",
        b"\x30\x80",
        b"\x30\x81\x05" + b"\x00" * 5,
        b"\x30\x82\x00\x05" + b"\x00" * 5,
        b"\x30\x85\x00\x00\x00\x00\x01\x00",
        b"\x30\x82\x01",
        b"\x30\x05\x00",
        sequence(),
        certificate(info=b""),
        certificate(info=sequence()),
        certificate(info=key_info()[:-1]),
        certificate(info=sequence(key_info(), key_info())),
        certificate(serial=b""),
    ],
)
def test_what_is_not_the_der_of_a_certificate_is_refused_a56(der: bytes) -> None:
    with pytest.raises(ConfigError, match="what was given is not a certificate"):
        public_key_pin(der)


def test_a_pin_is_of_one_certificate_a55(authority: Authority) -> None:
    with pytest.raises(ConfigError, match="2 certificates were given: a pin is of one"):
        public_key_pin(authority.pem * 2)
    with pytest.raises(ConfigError, match="there is no certificate in the CA data"):
        public_key_pin(authority.server("localhost").key)


@given(st.binary(max_size=64), st.data())
def test_no_bytes_make_it_fail_otherwise_a56(junk: bytes, data: st.DataObject) -> None:
    good = certificate()
    where = data.draw(st.integers(0, len(good) - 1))
    for der in (
        junk,
        good[:where] + junk + good[where:],
        good[:where],
        good[:where] + junk + good[where + len(junk) :],
    ):
        try:
            assert public_key_pin(der).startswith("sha256:")
        except ConfigError as error:
            assert "certificate" in str(error)


@given(st.binary(max_size=300))
def test_whatever_the_key_its_very_bytes_are_hashed_a55_a56(key: bytes) -> None:
    info = key_info(key)
    assert public_key_pin(pem(certificate(info=info))) == f"sha256:{hashlib.sha256(info).hexdigest()}"


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=4), st.booleans())
def test_pins_that_are_written_are_read_a53(values: list[bytes], upper: bool) -> None:
    texts = [f"sha256:{value.hex()}" for value in values]
    pins = Pins.parse([text.upper() if upper else text for text in texts])
    assert list(pins) == sorted(set(texts))
    assert Pins.parse(pins) == pins


def test_errors_about_certificates_hold_none_of_what_was_given() -> None:
    with pytest.raises(ConfigError) as raised:
        public_key_pin(SENTINEL)
    assert SENTINEL not in str(raised.value)
    assert "what was given is not a certificate" in render_error(raised.value)
