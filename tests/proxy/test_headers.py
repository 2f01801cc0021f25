"""Which headers go on, and which stay."""

from __future__ import annotations

import pytest

from kubeauth._proxy._headers import answered, sent_on, values
from kubeauth._proxy._refusal import Refused
from tests.support.cases import each_case

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


@pytest.mark.attack(
    "proxy",
    "headers that remove impersonation (`Connection`) or change the protocol (`Upgrade: h2c`)",
    "rejected, or not sent on",
)
@pytest.mark.parametrize("name", [b"Authorization", b"impersonate-user", b"Impersonate-Extra-Scopes"])
def test_who_asks_cannot_be_taken_away(name: bytes) -> None:
    """Somebody behind a gateway that impersonates its users would be the gateway itself."""
    with pytest.raises(Refused) as refused:
        sent((b"connection", b"close, " + name))
    assert refused.value.code == 400


@each_case(
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


@each_case("protocol", [b"SPDY/3.1", b"spdy/3.1", b"websocket", b"WebSocket", b"websocket, SPDY/3.1"])
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


def test_upgrades_in_several_headers_are_one_list() -> None:
    upgrade = [(b"connection", b"upgrade"), (b"upgrade", b",SPDY/3.1 ,"), (b"upgrade", b"\twebsocket")]
    assert sent_on(upgrade, b"api:6443").upgrade == b"SPDY/3.1, websocket"
    assert sent_on([*upgrade, (b"upgrade", b"h2c")], b"api:6443").upgrade is None


@pytest.mark.attack(
    "proxy",
    "headers that remove impersonation (`Connection`) or change the protocol (`Upgrade: h2c`)",
    "rejected, or not sent on",
)
@each_case(
    "protocol",
    [
        b"h2c", b"H2C", b"h2c/1", b'"h2c"', b"h2c;x", b"h2c x", b"h2 c", b"(x)h2c", b"websocket, h2c", b"h2c, websocket",
        b"HTTP/2.0", b"TLS/1.0", b"h2", b"h3-29", b"tcp", b"anything", b"websocket/13", b'"websocket"', b"websocket;x",
        b"websocket h2c", b"SPDY", b"SPDY/3", b"SPDY/3.1/2", b"SPDY/ 3.1", b'"websocket, SPDY/3.1"', b"websocket\x0b",
    ],
)  # fmt: skip
def test_other_protocols_are_not_upgraded_to(protocol: bytes) -> None:
    """Requests in them would pass no filter. The request itself is forwarded without the upgrade."""
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
