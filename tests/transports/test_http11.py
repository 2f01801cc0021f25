"""HTTP/1.1 framing, also compared with h11, the parser of httpx."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeauth.transports._http11 import _MAX_HEADER_SIZE, RequestEncoder, ResponseParser
from tests.support.cases import each_case


class LocalError(Exception):
    pass


class RemoteError(Exception):
    pass


def encode_request(
    method: str = "GET", target: bytes = b"/", *headers: tuple[bytes, bytes]
) -> RequestEncoder:
    return RequestEncoder(method, target, [(b"Host", b"h"), *headers], LocalError)


def parse(*received: bytes, method: str = "GET", upgrades: bool = False) -> tuple[ResponseParser, bytes]:
    """Parse a response that arrives in these pieces, before the server closes; return it with its body."""
    response = ResponseParser(method, RemoteError, allow_upgrade=upgrades)
    pieces = [piece for piece in received if piece]
    while not response.feed_head(pieces.pop(0) if pieces else b""):
        pass
    body = b""
    while not response.is_complete:
        body += response.feed_body(response.buffered or (pieces.pop(0) if pieces else b""))
    if pieces and not response.is_upgraded:
        response.can_reuse_connection = False
    return response, body


class TestRequests:
    def test_the_head_of_a_request(self) -> None:
        request = encode_request("POST", b"/a?b=c", (b"X", b"1"), (b"X", b"\xff 2"), (b"Empty", b""))
        assert request.head == b"POST /a?b=c HTTP/1.1\r\nHost: h\r\nX: 1\r\nX: \xff 2\r\nEmpty: \r\n\r\n"
        assert (request.closes_connection, request.requests_upgrade) == (False, False)
        assert encode_request("GET", b"/", (b"upgrade", b"spdy/3.1")).requests_upgrade

    @each_case(
        ("method", "target", "name", "value"),
        [
            ("GET", b"/", b"A", b"1\r\nEvil: 2"),
            ("GET", b"/", b"A", b"1\n Evil: 2"),
            ("GET", b"/", b"A", b"1\rEvil: 2"),
            ("GET", b"/", b"A", b"1\x00"),
            ("GET", b"/", b"A\r\nEvil", b"2"),
            ("GET", b"/", b"A b", b"2"),
            ("GET", b"/", b"A:", b"2"),
            ("GET", b"/", b"", b"2"),
            ("GET", b"/ HTTP/1.1\r\nEvil: 2\r\n", b"A", b"2"),
            ("GET", b"/a b", b"A", b"2"),
            ("GET", b"", b"A", b"2"),
            ("GET /x", b"/", b"A", b"2"),
            ("GÉT", b"/", b"A", b"2"),
            ("", b"/", b"A", b"2"),
            ("GET", b"/", b"Content-Length", b"two"),
            ("GET", b"/", b"Content-Length", b"-2"),
            ("GET", b"/", b"Content-Length", b"2, 3"),
            ("GET", b"/", b"Content-Length", b"2\r\nEvil: 2"),
            ("GET", b"/", b"Transfer-Encoding", b"gzip"),
            ("GET", b"/", b"host", b"other"),
        ],
    )
    def test_invalid_requests_are_rejected(
        self, method: str, target: bytes, name: bytes, value: bytes
    ) -> None:
        with pytest.raises(LocalError) as caught:
            encode_request(method, target, (b"Authorization", b"Bearer s3ntinel"), (name, value))
        assert "s3ntinel" not in str(caught.value)

    def test_a_body_with_content_length_is_sent_unchanged(self) -> None:
        request = encode_request("POST", b"/", (b"content-length", b"5"))
        assert [request.encode_body(part) for part in (b"ab", b"", b"cde")] == [b"ab", b"", b"cde"]
        assert request.encode_end() == b""

    def test_a_body_without_a_length_is_sent_in_chunks(self) -> None:
        request = encode_request("POST", b"/", (b"Transfer-Encoding", b"Chunked"))
        assert request.encode_body(b"kubernetes ok") == b"d\r\nkubernetes ok\r\n"
        assert request.encode_body(b"") == b""  # an empty chunk would end the body
        assert request.encode_end() == b"0\r\n\r\n"

    def test_a_request_without_a_host_is_rejected(self) -> None:
        with pytest.raises(LocalError, match="Host"):
            RequestEncoder("GET", b"/", [], LocalError)

    @each_case(("name", "values"), [
        (b"Content-Length", (b"0", b"5")),
        (b"Content-Length", (b"5", b"0")),
        (b"Transfer-Encoding", (b"chunked", b"chunked")),
        (b"Transfer-Encoding", (b"gzip", b"chunked")),
    ])  # fmt: skip
    def test_conflicting_framing_headers_are_rejected(self, name: bytes, values: tuple[bytes, bytes]) -> None:
        """A proxy could use one of them, and the server the other."""
        with pytest.raises(LocalError):
            encode_request("POST", b"/", *((name, value) for value in values))

    def test_a_repeated_content_length_is_sent_once(self) -> None:
        for headers in ([b"5, 5"], [b"5", b"5"]):
            request = encode_request("POST", b"/", *((b"content-length", value) for value in headers))
            assert request.head == b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"

    def test_content_length_is_dropped_from_a_chunked_request(self) -> None:
        """httpx adds a Content-Length to a body that is in memory."""
        request = encode_request("POST", b"/", (b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"5"))
        assert request.head == b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert request.encode_body(b"hello") + request.encode_end() == b"5\r\nhello\r\n0\r\n\r\n"

    @pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"0")], [(b"Content-Length", b"4")]])
    def test_a_body_longer_than_content_length_is_rejected(self, headers: list[tuple[bytes, bytes]]) -> None:
        with pytest.raises(LocalError, match="Too much"):
            encode_request("POST", b"/", *headers).encode_body(b"12345")

    def test_a_body_shorter_than_content_length_is_rejected(self) -> None:
        request = encode_request("POST", b"/", (b"Content-Length", b"5"))
        request.encode_body(b"1234")
        with pytest.raises(LocalError, match="Too little"):
            request.encode_end()

    def test_connection_close_is_recognized(self) -> None:
        assert encode_request("GET", b"/", (b"Connection", b"x, Close")).closes_connection
        assert encode_request("GET", b"/", (b"Connection", b"close"), (b"Connection", b"x")).closes_connection
        assert not encode_request("GET", b"/", (b"Connection", b"keep-alive")).closes_connection


class TestResponses:
    def test_status_line_headers_and_body(self) -> None:
        response, body = parse(
            b"HTTP/1.1 404 Not  Found\r\nSet-Cookie: a\r\nset-COOKIE:  b \r\nContent-Length: 2\r\n\r\nok"
        )

        assert (response.version, response.status, response.reason) == (b"HTTP/1.1", 404, b"Not  Found")
        assert response.headers == [(b"Set-Cookie", b"a"), (b"set-COOKIE", b"b"), (b"Content-Length", b"2")]
        assert body == b"ok"
        assert response.can_reuse_connection
        assert response.build_extensions("s") == {
            "http_version": b"HTTP/1.1",
            "reason_phrase": b"Not  Found",
            "network_stream": "s",
        }

    @each_case(
        ("received", "body", "is_reusable"),
        [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", True),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok more", b"ok", False),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: Close\r\n\r\nok", b"ok", False),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", b"ok", False),
            (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", b"", True),
            (b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n?", b"", False),
            (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", b"ok", True),
            (b"HTTP/1.1 200 OK\r\nA: one\r\n  two\r\nContent-Length: 2\r\n\r\nok", b"ok", True),
            (b"HTTP/1.1 200 OK\r\n\r\nuntil it closes", b"until it closes", False),
            (b"HTTP/1.1 200 OK\r\n\r\n", b"", False),
            (b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", b"", True),
            (b"HTTP/1.1 204 No Content\r\n\r\nno content", b"", False),
            (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", b"", True),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", True),
            (
                b"HTTP/1.1 103 Early Hints\r\nLink: x\r\nConnection: close\r\n\r\n"
                b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                b"ok",
                True,
            ),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"", True),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\no\r\n01\r\nk\r\n0\r\n\r\n", b"ok", True),
            (
                b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA;a="b;c" \r\nkubernetes\r\n'
                b"0;end\r\nDigest: x\r\nB: y\r\n\r\n",
                b"kubernetes",
                True,
            ),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\nmore", b"ok", False),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                b"ok",
                False,
            ),
        ],
    )  # fmt: skip
    def test_framing_decides_body_and_connection_reuse(
        self, received: bytes, body: bytes, is_reusable: bool
    ) -> None:
        for pieces in ((received,), [received[at : at + 1] for at in range(len(received))]):
            response, parsed_body = parse(*pieces)
            assert (parsed_body, response.can_reuse_connection) == (body, is_reusable)
            assert not response.is_upgraded

    def test_a_response_to_head_has_no_body(self) -> None:
        for length in (b"Content-Length: 7", b"Transfer-Encoding: chunked", b"X: y"):
            response, body = parse(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n", method="HEAD")
            assert (body, response.can_reuse_connection) == (b"", True)
        with_body, _ = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", method="HEAD")
        assert not with_body.can_reuse_connection

    def test_a_folded_header_is_joined(self) -> None:
        response, _ = parse(b"HTTP/1.1 204 x\r\nA: one\r\n\t two\r\n three\r\nB: 4\r\n\r\n")
        assert response.headers == [(b"A", b"one two three"), (b"B", b"4")]

    @pytest.mark.parametrize(("method", "status"), [("GET", b"101"), ("CONNECT", b"200")])
    def test_data_after_an_upgrade_stays_buffered(self, method: str, status: bytes) -> None:
        response, body = parse(
            b"HTTP/1.1 " + status + b" X\r\nUpgrade: spdy\r\n\r\n\x80\x03", method=method, upgrades=True
        )
        assert (response.is_upgraded, response.can_reuse_connection) == (True, False)
        assert (response.buffered, body) == (b"\x80\x03", b"")

    def test_a_rejected_tunnel_has_an_ordinary_response(self) -> None:
        response, body = parse(b"HTTP/1.1 403 X\r\nContent-Length: 2\r\n\r\nno", method="CONNECT")
        assert (response.is_upgraded, body) == (False, b"no")

    @each_case(
        "received",
        [
            b"\r\nHTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/2 200 OK\r\n\r\n",
            b"HTTP/1.1 099 OK\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: spdy/3.1\r\n\r\n",
            b"HTTP/1.1 2000 OK\r\n\r\n",
            b"HTTP/1.1 OK\r\n\r\n",
            b"ICY 200 OK\r\n\r\n",
            b"\x15\x03\x01\x00\x02\x02\x28\n\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nName : x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: x\x00y\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: x\rB: y\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: x\x0by\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n A: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nokk",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
            b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\no\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: " + b"x" * _MAX_HEADER_SIZE,
            b"HTTP/1.1 200 OK\r\n" + b"A: x\r\n" * (_MAX_HEADER_SIZE // 6),
            b"HTTP/1.1 200 OK\r\n" + b"A: x\r\n" * (_MAX_HEADER_SIZE // 6) + b"\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" * (_MAX_HEADER_SIZE // 25 + 1),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * _MAX_HEADER_SIZE,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: x\r\n" * _MAX_HEADER_SIZE,
        ],
    )  # fmt: skip
    def test_invalid_responses_are_rejected(self, received: bytes) -> None:
        with pytest.raises(RemoteError) as caught:
            parse(received)
        # The error is not that the response ended early.
        assert "Server disconnected" not in str(caught.value)
        assert "peer closed" not in str(caught.value)

    @pytest.mark.parametrize(
        "received", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 100 Continue\r\n\r\n"]
    )
    def test_a_connection_closed_without_a_response_is_an_error(self, received: bytes) -> None:
        """KubeTransport recognizes a stale connection by this word."""
        with pytest.raises(RemoteError, match="disconnected"):
            parse(received)

    @each_case(
        ("received", "message"),
        [
            (b"Content-Length: 5\r\n\r\nkube", "1 bytes missing"),
            (b"Content-Length: 5\r\n\r\n", "5 bytes missing"),
            (b"Transfer-Encoding: chunked\r\n\r\n", "incomplete chunked read"),
            (b"Transfer-Encoding: chunked\r\n\r\n4\r\nkub", "incomplete chunked read"),
            (b"Transfer-Encoding: chunked\r\n\r\n4\r\nkube\r\n", "incomplete chunked read"),
            (b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", "incomplete chunked read"),
        ],
    )
    def test_an_incomplete_response_is_an_error(self, received: bytes, message: str) -> None:
        with pytest.raises(RemoteError, match=message):
            parse(b"HTTP/1.1 200 OK\r\n" + received)

    def test_chunks_that_arrive_together_are_returned_together(self) -> None:
        response = ResponseParser("GET", RemoteError)
        response.feed_head(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n2\r\nb\n\r\n2\r\nc"
        )

        assert response.feed_body(response.buffered) == b"a\nb\nc"
        assert response.feed_body(b"\n\r\n") == b"\n"
        assert not response.is_complete


def parse_with_h11(received: bytes, method: str) -> tuple[object, ...] | None:
    """Parse with h11, as httpx does; None if h11 rejects it."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEADER_SIZE)
    connection.send(h11.Request(method=method, target="/", headers=[("Host", "h")]))
    connection.send(h11.EndOfMessage())
    body = b""
    response: h11.Response | h11.InformationalResponse | None = None
    try:
        connection.receive_data(received)
        closed = False
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                return 101, event.headers.raw_items(), b"", False
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif event is h11.NEED_DATA and not closed:
                connection.receive_data(b"")
                closed = True
            elif not isinstance(event, h11.InformationalResponse):
                break
    except h11.RemoteProtocolError:
        return None
    if response is None or not isinstance(event, h11.EndOfMessage):
        return None
    is_reusable = connection.our_state is h11.DONE and connection.their_state is h11.DONE
    # h11 takes remaining data as the next response. ResponseParser does not allow reuse of the connection.
    is_reusable = is_reusable and not closed and not connection.trailing_data[0]
    return response.status_code, response.headers.raw_items(), body, is_reusable


def parse_with_kubeauth(received: bytes, method: str, pieces: list[int]) -> tuple[object, ...] | None:
    cuts = sorted({0, len(received), *(piece % (len(received) + 1) for piece in pieces)})
    try:
        response, body = parse(*(received[a:b] for a, b in pairwise(cuts)), method=method)
    except RemoteError:
        return None
    return response.status, response.headers, body, response.can_reuse_connection


TOKENS = st.text("abcXYZ-09_.!", min_size=1, max_size=8).map(str.encode)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12).map(str.encode)
HEADERS = st.lists(st.tuples(TOKENS, VALUES), max_size=4)
STATUS = st.sampled_from([200, 201, 204, 304, 404, 500, 999])
PIECES = st.lists(st.integers(0, 10_000), max_size=6)


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    status, headers = draw(STATUS), draw(HEADERS)
    body = draw(st.binary(max_size=64))
    lines = [b"%b: %b\r\n" % header for header in headers]
    if draw(st.booleans()):
        lines.append(b"Connection: %b\r\n" % draw(st.sampled_from([b"close", b"keep-alive", b"Close, x"])))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    if status in (204, 304):
        body = b""
    elif framing == "length":
        lines.append(b"Content-Length: %d\r\n" % len(body))
    elif framing == "chunked":
        lines.append(b"transfer-encoding: chunked\r\n")
        size = draw(st.integers(1, 20))
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    before = draw(
        st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 x\r\nLink: y\r\n\r\n"])
    )
    return before + b"HTTP/1.1 %d %b\r\n" % (status, draw(VALUES)) + b"".join(lines) + b"\r\n" + body


@given(responses(), st.sampled_from(["GET", "POST"]), PIECES)
def test_responses_are_parsed_as_by_h11(received: bytes, method: str, pieces: list[int]) -> None:
    assert parse_with_kubeauth(received, method, pieces) == parse_with_h11(received, method) is not None


@given(responses(), PIECES, st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 3))
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", [], 0, b"", 0)
def test_a_damaged_response_accepted_by_both_is_parsed_as_by_h11(
    received: bytes, pieces: list[int], at: int, inserted: bytes, removed: int
) -> None:
    at %= len(received) + 1
    damaged = received[:at] + inserted + received[at + removed :]

    ours, theirs = parse_with_kubeauth(damaged, "GET", pieces), parse_with_h11(damaged, "GET")
    if ours is not None and theirs is not None:
        assert ours == theirs


INVALID_FRAMING = [
    b"Content-Length: -1", b"Content-Length: +5", b"Content-Length: ", b"Content-Length: abc",
    b"Content-Length: 5, 6", b"Content-Length: 5,", b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: " + b"9" * 21, b"Content-Length: " + b"9" * 5000, b"Content-Length: \xb2",
    b"Transfer-Encoding: ", b"Transfer-Encoding: gzip", b"Transfer-Encoding: identity",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked;q=1",
    b"Transfer-Encoding: chunked\r\nContent-Length: x", b"Content-Length: x\r\nTransfer-Encoding: chunked",
]  # fmt: skip
VALID_FRAMING = [
    b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: 5, 5",
    b"Content-Length: 5\r\nContent-Length: 5", b"Transfer-Encoding: chunked", b"X: y",
]  # fmt: skip
METHODS = ["GET", "HEAD", "POST", "OPTIONS"]
BODILESS = [100, 102, 103, 199, 204, 304]


def with_framing(status: int, framing: bytes) -> bytes:
    """Return a response with that status and no body, followed by a final one if it is informational."""
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" if status < 200 else b""
    return b"HTTP/1.1 %d X\r\n%b\r\n\r\n" % (status, framing) + final


@each_case("framing", INVALID_FRAMING)
@each_case("method", METHODS)
@each_case("status", [*BODILESS, 200, 206, 401, 404, 500])
def test_invalid_framing_is_rejected_also_without_a_body(status: int, method: str, framing: bytes) -> None:
    """As in h11: a RemoteProtocolError, so the connection is not reused."""
    received = with_framing(status, framing)

    assert parse_with_h11(received, method) is None
    with pytest.raises(RemoteError) as caught:
        parse(received, method=method)
    assert "Content-Length" in str(caught.value) or "Transfer-Encoding" in str(caught.value)


@each_case("framing", INVALID_FRAMING)
@each_case(("method", "status"), [("GET", 101), ("CONNECT", 200), ("CONNECT", 403)])
def test_invalid_framing_of_an_upgrade_is_rejected(method: str, status: int, framing: bytes) -> None:
    with pytest.raises(RemoteError, match=r"Content-Length|Transfer-Encoding"):
        parse(b"HTTP/1.1 %d X\r\n%b\r\n\r\n" % (status, framing), method=method, upgrades=True)


@each_case("framing", VALID_FRAMING)
@each_case(("method", "status"), [*[("GET", status) for status in BODILESS], ("HEAD", 200), ("HEAD", 404)])
def test_valid_framing_without_a_body_is_parsed_as_by_h11(method: str, status: int, framing: bytes) -> None:
    received = with_framing(status, framing)
    ours, theirs = parse_with_kubeauth(received, method, []), parse_with_h11(received, method)

    assert ours is not None
    assert theirs is not None
    assert (ours[0], ours[2:]) == (theirs[0], theirs[2:])


def test_a_connection_is_not_reused_after_content_length_with_chunked_also_without_a_body() -> None:
    framing = b"Content-Length: 5\r\nTransfer-Encoding: chunked"
    assert not parse(with_framing(204, framing))[0].can_reuse_connection
    assert not parse(with_framing(200, framing), method="HEAD")[0].can_reuse_connection


FRAMING_VALUES = st.one_of(
    st.sampled_from([b"0", b"5", b"5, 5", b"5,6", b"-1", b"", b"chunked", b"Chunked", b"gzip", b"9" * 21]),
    st.text("0123456789,+- xX_", max_size=6).map(str.encode),
    st.binary(max_size=4),
)


@given(
    st.sampled_from([*BODILESS, 200, 404]),
    st.sampled_from(METHODS),
    st.lists(
        st.tuples(st.sampled_from([b"Content-Length", b"transfer-encoding", b"X"]), FRAMING_VALUES),
        max_size=3,
    ),
)
def test_framing_rejected_by_h11_is_rejected(
    status: int, method: str, headers: list[tuple[bytes, bytes]]
) -> None:
    framing = b"\r\n".join(b"%b: %b" % header for header in headers) or b"X: y"
    received = with_framing(status, framing)
    if parse_with_h11(received, method) is None:
        assert parse_with_kubeauth(received, method, []) is None


NAMES = st.one_of(TOKENS, st.sampled_from([b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection"]))
ANY_VALUES = st.one_of(
    st.sampled_from([b"chunked", b"Chunked", b"gzip", b"close", b"0", b"5", b"5, 5", b"+5", b" 5", b"5\t"]),
    st.binary(max_size=6),
    VALUES,
)
NEXT = b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n"


@given(
    st.sampled_from(["GET", "POST", "G T", "GET\n"]),
    st.one_of(st.just(b"/a?b=c"), st.binary(max_size=5)),
    st.lists(st.tuples(NAMES, ANY_VALUES), max_size=4),
    st.binary(max_size=8),
)
@example("POST", b"/", [(b"Content-Length", b"5"), (b"Content-Length", b"0")], b"")
@example("POST", b"/", [(b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"2")], b"hello")
def test_h11_parses_encoded_requests_and_finds_their_end(
    method: str, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    try:
        request = encode_request(method, target, *headers)
        sent = request.head + request.encode_body(body) + request.encode_end()
    except LocalError:
        return

    server = h11.Connection(h11.SERVER)
    server.receive_data(sent + NEXT)

    head = server.next_event()

    assert isinstance(head, h11.Request)
    assert (head.method, head.target) == (method.encode(), target)

    # Except the length, which RequestEncoder normalizes.
    expected = [(name.lower(), value.strip(b" \t")) for name, value in [(b"Host", b"h"), *headers]]
    lengths = [value for name, value in head.headers if name == b"content-length"]
    assert [each for each in head.headers if each[0] != b"content-length"] == [
        (name, value.lower() if name == b"transfer-encoding" else value)
        for name, value in expected
        if name != b"content-length"
    ]
    assert lengths in ([], [b"%d" % len(body)])

    received = b""
    while isinstance(event := server.next_event(), h11.Data):
        received += bytes(event.data)

    assert isinstance(event, h11.EndOfMessage)
    assert received == body
    assert server.trailing_data[0] == NEXT
