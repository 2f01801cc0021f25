"""When a token ends, as Go reads it. tests/e2e/test_bootstrap_tokens.py asks the real controllers the same."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

from kubeauth.discovery import BootstrapToken, sign_cluster_info, sign_detached
from kubeauth.discovery._expiration import LONG_AGO, seconds_by_go
from tests.discovery.second import encoded
from tests.support.cases import each_case

NOON = 4386484800.0  # 2109-01-01T12:00:00Z


@each_case(
    ("text", "seconds"),
    [
        ("2109-01-01T12:00:00Z", NOON),
        ("2109-01-01T12:00:00.5Z", NOON + 0.5),
        ("2109-01-01T12:00:00,5Z", NOON + 0.5),
        ("2109-01-01T9:00:00Z", NOON - 3 * 3600),
        ("2109-01-01T17:30:00+05:30", NOON),
        ("2109-01-01T12:00:00+24:00", NOON - 24 * 3600),
        ("2109-01-01T12:00:00-23:60", NOON + 24 * 3600),
        ("2109-01-01T9:00:00,25+24:60", NOON - 28 * 3600 + 0.25),
        ("9999-12-31T23:59:59-24:00", 253402300799.0 + 24 * 3600),
        ("1969-12-31T23:59:59Z", -1.0),
    ],
)
def test_dates_that_go_takes_a12_a13(text: str, seconds: float) -> None:
    assert seconds_by_go(text) == seconds


@each_case(
    "text",
    [
        "garbage", "2109-01-01", "2109-01-01T12:00:00", "2109-01-01 12:00:00Z", "2109-01-01t12:00:00z",
        "2109-01-01T12:00:00Z\n", " 2109-01-01T12:00:00Z", "2109-02-30T12:00:00Z", "2109-01-01T24:00:00Z",
        "2109-01-01T12:00:60Z", "2109-01-01T12:0:00Z", "2109-01-01T12:00:00.Z", "2109-01-01T12:00:00+25:00",
        "2109-01-01T12:00:00+05:61", "+2109-01-01T12:00:00Z", "٢١٠٩-01-01T12:00:00Z", "2109-1-01T12:00:00Z",
        "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "2109-01-01T12:00:00\udcff",
    ],
)  # fmt: skip
def test_what_is_none_is_long_over_a12_a13(text: str) -> None:
    assert seconds_by_go(text) == LONG_AGO


def test_a_secret_that_is_no_text_signs_as_the_bytes_that_it_is_a16_a29() -> None:
    key = bytes(range(128, 144))
    values = {"token-id": b"binary", "token-secret": key, "usage-bootstrap-signing": b"true"}
    secret = {
        "metadata": {"name": "bootstrap-token-binary", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {name: b64encode(value).decode() for name, value in values.items()},
    }
    signed = sign_cluster_info({"data": {"kubeconfig": "x"}}, [secret], now=0.0)
    assert signed is not None
    header = encoded(b'{"alg":"HS256","kid":"binary"}')
    mac = hmac.new(key, f"{header}.{encoded(b'x')}".encode(), hashlib.sha256).digest()
    assert signed["data"]["jws-kubeconfig-binary"] == f"{header}..{encoded(mac)}"


def test_a_secret_that_no_bytes_could_be_signs_all_the_same_a18() -> None:
    """Half a surrogate pair: JSON may hold one."""
    signed = {
        sign_detached("x", BootstrapToken("abc123", secret)) for secret in ("\ud800", "\ud801", "\udc80")
    }
    assert len(signed) == 3
