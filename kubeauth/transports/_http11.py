"""HTTP/1.1 framing: encodes requests and parses responses. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubeauth._http import parse_content_length

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# Matches the whole head, so that no method, URL or header value can inject another header.
_REQUEST_HEAD = re.compile(
    rb"%b [!-~]+ HTTP/1\.1\r\n(?:%b: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*\r\n" % (_TOKEN, _TOKEN)
)
_TEXT = rb"[^\x00\n\v\f\r]*"
_STATUS_LINE = re.compile(rb"(HTTP/1\.[01]) ([1-9][0-9]{2})(?: (%b))?\r?" % _TEXT)
_HEADER_LINE = re.compile(rb"(%b):(%b)\r?" % (_TOKEN, _TEXT))
_CHUNK_HEADER = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r")
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_LINE_FOLD = re.compile(rb"\r?\n[ \t]+")

# The maximum size of all heads and trailers of a response together, and of a line between chunks.
_MAX_HEADER_SIZE = 100 * 1024


class RequestEncoder:
    """Encodes a request. Raises `protocol_error` for one that must not be sent."""

    __slots__ = (
        "_is_chunked",
        "_protocol_error",
        "_remaining",
        "closes_connection",
        "head",
        "requests_upgrade",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]],
        protocol_error: type[Exception],
    ) -> None:
        self._protocol_error = protocol_error
        self._is_chunked = False
        self._remaining = 0
        self.closes_connection = False
        """Whether the connection is closed after the response."""
        self.requests_upgrade = False
        """Whether the request asks the server to switch to another protocol."""
        lines = [b"%b %b HTTP/1.1\r\n" % (method.encode("ascii", "replace"), target)]
        hosts, lengths, codings = 0, [], []
        for name, value in headers:
            lowered = name.lower()
            if lowered == b"content-length":
                lengths.append(value)
                continue
            lines.append(b"%b: %b\r\n" % (name, value))
            if lowered == b"host":
                hosts += 1
            elif lowered == b"transfer-encoding":
                codings.append(value)
            elif lowered == b"connection":
                self.closes_connection = self.closes_connection or _contains_close(value)
            elif lowered == b"upgrade":
                self.requests_upgrade = True
        # Exactly one host and one length: of two, a proxy could use one and the server the other.
        if hosts != 1:
            raise protocol_error("A request must have exactly one Host header")
        if codings:
            self._is_chunked = _parse_codings(codings, protocol_error)
        elif lengths:
            self._remaining = _parse_length(lengths, protocol_error)
            lines.append(b"Content-Length: %d\r\n" % self._remaining)
        lines.append(b"\r\n")
        self.head = b"".join(lines)
        if self.head.count(b"\n") != len(lines) or not _REQUEST_HEAD.fullmatch(self.head):
            # The message does not quote the header: even a part of it may be a secret.
            raise protocol_error("Illegal method, URL or header: it has characters that HTTP/1.1 forbids")

    def encode_body(self, data: bytes) -> bytes:
        """Encode one part of the body."""
        if self._is_chunked:
            return b"%x\r\n%b\r\n" % (len(data), data) if data else b""  # an empty chunk would end the body
        self._remaining -= len(data)
        if self._remaining < 0:
            raise self._protocol_error("Too much data for declared Content-Length")
        return data

    def encode_end(self) -> bytes:
        """Encode the end of the body."""
        if self._is_chunked:
            return b"0\r\n\r\n"
        if self._remaining:
            raise self._protocol_error("Too little data for declared Content-Length")
        return b""


class ResponseParser:
    """Parses a response from the data that the connection receives.

    Raises `protocol_error` if the data is not a valid response, or ends before the response is complete.
    """

    __slots__ = (
        "_allow_upgrade", "_header_size", "_is_chunked", "_line_kind", "_method", "_partial",
        "_protocol_error", "_remaining", "buffered", "can_reuse_connection", "headers", "is_complete",
        "is_upgraded", "reason", "status", "version",
    )  # fmt: skip

    def __init__(self, method: str, protocol_error: type[Exception], *, allow_upgrade: bool = False) -> None:
        self._method = method
        self._protocol_error = protocol_error
        self._allow_upgrade = allow_upgrade
        self.version = self.reason = b""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.can_reuse_connection = True
        """Whether another request may be sent on this connection."""
        self.is_upgraded = False
        """Whether the connection has switched to another protocol."""
        self.is_complete = False
        """Whether all of the response was parsed."""
        self.buffered = b""
        """Data that was received after the head, and not passed to `feed_body` yet."""
        self._is_chunked = False
        self._remaining: int | None = None  # bytes of the body or chunk; None: until the connection ends
        self._line_kind = "size"  # of the next line between chunks: "size", "end" or "trailer"
        self._partial = b""
        self._header_size = 0

    def feed_head(self, data: bytes) -> bool:
        """Parse `data`, which is empty if the server has closed. Return whether the head is complete."""
        if not data:
            raise self._protocol_error("Server disconnected without sending a response.")
        # Do not search from the start each time: a head may arrive byte by byte.
        start = max(0, len(self.buffered) - 2)
        self.buffered += data
        while (end := _END_OF_HEAD.search(self.buffered, start)) is not None:
            start = 0
            self._add_header_size(end.end())
            head, self.buffered = self.buffered[: end.start()], self.buffered[end.end() :]
            self._parse_head(head)
            # After an informational response (100 Continue, 103 Early Hints) another head follows.
            if self.status >= 200 or self.status == 101:
                if self.is_complete and self.buffered and not self.is_upgraded:
                    self.can_reuse_connection = False
                return True
        self._check_header_size(len(self.buffered))
        return False

    def feed_body(self, data: bytes) -> bytes:
        """Return the part of the body in `data`, which is empty if the server has closed."""
        self.buffered = b""
        if self._is_chunked:
            return self._decode_chunks(data)
        if self._remaining is None:
            self.is_complete = not data
            return data
        if not data:
            raise self._protocol_error(
                "peer closed connection without sending complete message body "
                f"({self._remaining} bytes missing)"
            )
        part = data[: self._remaining]
        self._remaining -= len(part)
        self._set_complete(self._remaining == 0, len(part) < len(data))
        return part

    def build_extensions(self, network_stream: object) -> dict[str, object]:
        """Return the extensions of the httpx response."""
        return {
            "http_version": self.version,
            "reason_phrase": self.reason,
            "network_stream": network_stream,
        }

    def _parse_head(self, head: bytes) -> None:
        first, _, fields = head.partition(b"\n")
        if b"\n " in fields or b"\n\t" in fields:
            fields = _LINE_FOLD.sub(b" ", fields)
        status_line = _STATUS_LINE.fullmatch(first)
        if status_line is None:
            raise self._protocol_error("illegal status line")
        self.version, status, reason = status_line.groups()
        self.status, self.reason = int(status), reason or b""
        self.headers = headers = []
        self.can_reuse_connection = self.version == b"HTTP/1.1"
        lengths, codings = [], []
        for line in fields.split(b"\n") if fields else ():
            field = _HEADER_LINE.fullmatch(line)
            if field is None:
                raise self._protocol_error("illegal header line")
            name, value = field.groups()
            value = value.strip(b" \t")
            headers.append((name, value))
            lowered = name.lower()
            if lowered == b"content-length":
                lengths.append(value)
            elif lowered == b"transfer-encoding":
                codings.append(value)
            elif lowered == b"connection" and _contains_close(value):
                self.can_reuse_connection = False
        self._set_framing(lengths, codings)

    def _set_framing(self, lengths: list[bytes], codings: list[bytes]) -> None:
        """Determine where the body ends."""
        # Both are validated first, even if the response has no body: a proxy on the way may use either, and
        # a server that sends such a header cannot be trusted with another request. h11 does the same.
        length = _parse_length(lengths, self._protocol_error) if lengths else None
        is_chunked = bool(codings) and _parse_codings(codings, self._protocol_error)
        if is_chunked and lengths:
            self.can_reuse_connection = False
        if self.status == 101 and not self._allow_upgrade:
            raise self._protocol_error("101 Switching Protocols, but the request has no Upgrade header")
        if self.status == 101 or (self._method == "CONNECT" and 200 <= self.status < 300):
            self.is_complete = self.is_upgraded = True
            self.can_reuse_connection = False
        elif self._method == "HEAD" or self.status in (204, 304):
            self.is_complete = True
        elif self.status < 200:
            pass  # another head follows
        elif is_chunked:
            self._is_chunked = True
            self._remaining = 0
        elif length is not None:
            self._remaining = length
            self.is_complete = length == 0
        else:
            self.can_reuse_connection = False

    def _decode_chunks(self, data: bytes) -> bytes:
        if not data:
            raise self._protocol_error(
                "peer closed connection without sending complete message body (incomplete chunked read)"
            )
        data = self._partial + data
        parts: list[bytes] = []
        position = 0
        while not self.is_complete:
            if self._remaining:
                part = data[position : position + self._remaining]
                if not part:
                    break
                parts.append(part)
                position += len(part)
                self._remaining -= len(part)
                continue
            end = data.find(b"\n", position)
            if end < 0:
                break
            self._parse_line(data[position:end])
            position = end + 1
        self._partial = data[position:]
        self._check_header_size(len(self._partial))
        self._set_complete(self.is_complete, bool(self._partial))
        return b"".join(parts)

    def _parse_line(self, line: bytes) -> None:
        """Parse a line that is not part of the body: a chunk size, the end of a chunk, or a trailer."""
        if self._line_kind == "size":
            size = _CHUNK_HEADER.fullmatch(line)
            if size is None:
                raise self._protocol_error("illegal chunk header")
            self._remaining = int(size[1], 16)
            self._line_kind = "end" if self._remaining else "trailer"
        elif self._line_kind == "end":
            if line != b"\r":
                raise self._protocol_error("a chunk is longer than its declared size")
            self._line_kind = "size"
        else:
            self._add_header_size(len(line))
            self.is_complete = line == b"\r"
            if not self.is_complete and not _HEADER_LINE.fullmatch(line):
                raise self._protocol_error("illegal trailer")

    def _set_complete(self, is_complete: bool, has_more_data: bool) -> None:
        self.is_complete = is_complete
        if is_complete and has_more_data:
            self.can_reuse_connection = False  # no request was sent that this data could answer

    def _add_header_size(self, size: int) -> None:
        # All heads count together: a server could send informational responses forever.
        self._header_size += size
        self._check_header_size(self._header_size)

    def _check_header_size(self, size: int) -> None:
        if size > _MAX_HEADER_SIZE:
            raise self._protocol_error(f"the response headers are larger than {_MAX_HEADER_SIZE} bytes")


def _contains_close(value: bytes) -> bool:
    return b"close" in (option.strip() for option in value.lower().split(b","))


def _parse_codings(codings: list[bytes], protocol_error: type[Exception]) -> bool:
    """Return True for `Transfer-Encoding: chunked`; raise for any other value."""
    if [coding.lower() for coding in codings] != [b"chunked"]:
        raise protocol_error("Only Transfer-Encoding: chunked is supported")
    return True


def _parse_length(values: list[bytes], protocol_error: type[Exception]) -> int:
    """Return the length in the Content-Length headers; raise unless all of them have the same valid value."""
    lengths = {length.strip() for value in values for length in value.split(b",")}
    length = lengths.pop()
    parsed = None if lengths else parse_content_length(length)
    if parsed is None:
        raise protocol_error("bad Content-Length")
    return parsed
