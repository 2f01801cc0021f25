"""The parser of Content-Length, and the code that uses it."""

from __future__ import annotations

from typing import Any

import h11
import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeauth._http import MAX_DIGITS, parse_content_length
from kubeauth._proxy._headers import sent_on
from kubeauth._proxy._refusal import Refused
from kubeauth.discovery._fetch import NoReply, before_the_body
from tests.support.cases import each_case

INVALID_LENGTHS = [
    "",
    "²",
    "٤",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1_0",
    "0x1",
    "1.0",
    "1, 1",
    "9" * 5000,
    "9" * 19,
    "\x001",
]


@each_case("value", INVALID_LENGTHS)
def test_an_invalid_content_length_is_none(value: str) -> None:
    assert parse_content_length(value) is None
    assert parse_content_length(value.encode()) is None


@pytest.mark.parametrize(("value", "length"), [("0", 0), ("007", 7), ("9" * MAX_DIGITS, 10**MAX_DIGITS - 1)])
def test_a_valid_content_length_is_parsed(value: str, length: int) -> None:
    assert parse_content_length(value) == length
    assert parse_content_length(value.encode()) == length


@given(st.one_of(st.binary(max_size=22), st.text("0123456789 +-_", max_size=22).map(str.encode)))
@example(b"9" * 20)
@example(b"\xb2")
def test_h11_parses_accepted_lengths_equally(value: bytes) -> None:
    length = parse_content_length(value)
    if length is None:
        return
    request = h11.Request(method="GET", target="/", headers=[(b"Host", b"h"), (b"Content-Length", value)])
    assert int(dict(request.headers)[b"content-length"]) == length


@each_case("value", INVALID_LENGTHS)
def test_discovery_reports_an_invalid_content_length(value: str) -> None:
    response: Any = httpx.Response(200, headers=[(b"Content-Length", value.encode())])
    result = before_the_body(response)
    assert isinstance(result, NoReply)
    assert "Content-Length" in result.reason


@pytest.mark.parametrize("value", [b"9" * 19, b"\xb2", b""])
def test_the_proxy_rejects_an_invalid_content_length(value: bytes) -> None:
    """It must not be replaced by other framing, such as a chunked body."""
    with pytest.raises(Refused) as caught:
        sent_on([(b"content-length", value)], b"h", may_upgrade=False)
    assert caught.value.code == 400
