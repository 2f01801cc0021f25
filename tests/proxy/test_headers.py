"""Which headers go on, and which stay."""

from __future__ import annotations

import pytest

from kubeauth._proxy._headers import answered, sent_on, values
from kubeauth._proxy._refusal import Refused

HOST = (b"host", b"api:6443")


def sent(*given: tuple[bytes, bytes], may_upgrade: bool = True) -> list[tuple[bytes, bytes]]:
    return sent_on(given, b"api:6443", may_upgrade=may_upgrade).headers


def test_what_goes_on() -> None:
    given = [
        (b"accept", b"*/*"), (b"authorization", b"Bearer x"), (b"impersonate-user", b"eve"), (b"cookie", b"a=b"),
        (b"x-forwarded-for", b"1.2.3.4"), (b"via", b"1.1 x"), (b"accept", b"text/html"),
    ]  # fmt: skip
    assert sent((b"host", b"localhost:8001"), *given) == [HOST, *given]


def test_what_is_between_neighbours_stays() -> None:
    hops = [
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
        b"trailer", b"upgrade",
    ]  # fmt: skip
    assert sent(*((name, b"x") for name in hops), (b"x-y", b"z"), (b"x", b"gone")) == [HOST, (b"x-y", b"z")]


def test_what_the_connection_names_stays() -> None:
    given = (b"connection", b"close, X-Secret"), (b"connection", b"keep-alive,X-Other")
    assert sent(*given, (b"x-secret", b"1"), (b"x-other", b"2"), (b"x-third", b"3")) == [
        HOST,
        (b"x-third", b"3"),
    ]


@pytest.mark.parametrize("name", [b"Authorization", b"impersonate-user", b"Impersonate-Extra-Scopes"])
def test_who_asks_cannot_be_taken_away(name: bytes) -> None:
    """Somebody behind a gateway that impersonates its users would be the gateway itself."""
    with pytest.raises(Refused) as refused:
        sent((b"connection", b"close, " + name))
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("given", "length", "framing"),
    [
        ([], 0, []),
        ([(b"content-length", b"0")], 0, [(b"content-length", b"0")]),
        ([(b"content-length", b"007")], 7, [(b"content-length", b"7")]),
        ([(b"transfer-encoding", b"chunked")], None, [(b"transfer-encoding", b"chunked")]),
        (
            [(b"connection", b"content-length, host"), (b"content-length", b"7")],
            7,
            [(b"content-length", b"7")],
        ),
    ],
)
def test_how_long_a_body_is(
    given: list[tuple[bytes, bytes]], length: int | None, framing: list[tuple[bytes, bytes]]
) -> None:
    found = sent_on(given, b"api:6443")
    assert (found.length, found.headers) == (length, [HOST, *framing])


def test_expectations() -> None:
    assert sent((b"expect", b"100-Continue")) == [HOST]
    with pytest.raises(Refused) as refused:
        sent((b"expect", b"a miracle"))
    assert refused.value.code == 417


@pytest.mark.parametrize("protocol", [b"SPDY/3.1", b"websocket", b"tcp", b"a, b"])
def test_upgrades(protocol: bytes) -> None:
    given = (b"connection", b"keep-alive, Upgrade"), (b"upgrade", protocol), (b"sec-websocket-key", b"k")
    found = sent_on(given, b"api:6443")
    assert found.upgrade == protocol
    said = [HOST, (b"sec-websocket-key", b"k"), (b"connection", b"Upgrade"), (b"upgrade", protocol)]
    assert found.headers == said
    assert sent(*given, may_upgrade=False) == [HOST, (b"sec-websocket-key", b"k")]
    assert sent((b"upgrade", protocol)) == [HOST]  # not for the next hop, and so for nobody


@pytest.mark.parametrize("protocol", [b"", b",", b" , "])
def test_an_upgrade_to_nothing_is_none(protocol: bytes) -> None:
    found = sent_on([(b"connection", b"upgrade"), (b"upgrade", protocol)], b"api:6443")
    assert (found.upgrade, found.headers) == (None, [HOST])


@pytest.mark.parametrize(
    "protocol", [b"h2c", b"H2C", b"websocket, h2c", b"HTTP/2.0", b"TLS/1.0", b"h2", b"h3-29"]
)
def test_another_http_is_not_spoken_behind_our_back(protocol: bytes) -> None:
    """Whoever could would be looked at by no filter. The request itself is as good as any."""
    given = (b"connection", b"Upgrade, HTTP2-Settings"), (b"upgrade", protocol), (b"http2-settings", b"x")
    found = sent_on(given, b"api:6443")
    assert (found.upgrade, found.headers) == (None, [HOST])


def test_answers() -> None:
    given = [
        (b"Warning", b'299 - "old"'), (b"Audit-Id", b"1"), (b"Content-Length", b"2"), (b"Connection", b"X-Hop, close"),
        (b"X-Hop", b"x"), (b"Keep-Alive", b"5"), (b"Upgrade", b"h2c"), (b"Set-Cookie", b"a"), (b"Set-Cookie", b"b"),
    ]  # fmt: skip
    kept = [given[0], given[1], given[2], given[7], given[8]]
    assert answered(given) == kept
    assert answered([(b"Connection", b"content-length"), (b"content-length", b"2")]) == [
        (b"content-length", b"2")
    ]


def test_a_length_beside_chunks_does_not_count() -> None:
    assert answered([(b"Content-Length", b"2"), (b"Transfer-Encoding", b"chunked"), (b"A", b"b")]) == [
        (b"A", b"b")
    ]


def test_an_answer_that_switches() -> None:
    given = [(b"Upgrade", b"SPDY/3.1"), (b"Connection", b"Upgrade"), (b"X", b"y"), (b"Content-Length", b"0")]
    said = [(b"X", b"y"), (b"Connection", b"Upgrade"), (b"Upgrade", b"SPDY/3.1")]
    assert answered(given, switched=True) == said


def test_values() -> None:
    assert values([(b"a", b"1"), (b"b", b"2"), (b"a", b"\xff")], b"a") == ["1", "\xff"]
