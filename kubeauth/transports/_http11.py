"""HTTP/1.1 as bytes: how a request is written, and what an answer says. Reads and writes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubeauth._http import parse_content_length

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# All of a head, each line of which must be one of ours: else somebody could slip in headers of their own.
_REQUEST = re.compile(
    rb"%b [!-~]+ HTTP/1\.1\r\n(?:%b: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*\r\n" % (_TOKEN, _TOKEN)
)
_TEXT = rb"[^\x00\n\v\f\r]*"
_STATUS = re.compile(rb"(HTTP/1\.[01]) ([1-9][0-9]{2})(?: (%b))?\r?" % _TEXT)
_FIELD = re.compile(rb"(%b):(%b)\r?" % (_TOKEN, _TEXT))
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r")
_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")

# Of heads and trailers together, of a line: what is longer has no end, or no sense.
_MOST = 100 * 1024


class Outgoing:
    """A request: its head, and how its body is written. `illegal` is raised for what must not be sent."""

    __slots__ = ("_chunked", "_illegal", "_left", "closes", "head", "upgrades")

    def __init__(
        self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], illegal: type[Exception]
    ) -> None:
        self._illegal = illegal
        self._chunked = False
        self._left = 0
        self.closes = False
        """Whether it asks for the connection to be closed afterwards."""
        self.upgrades = False
        """Whether it asks for something else to be spoken afterwards."""
        lines = [b"%b %b HTTP/1.1\r\n" % (method.encode("ascii", "replace"), target)]
        hosts, lengths, codings = 0, [], []
        for name, value in headers:
            kind = name.lower()
            if kind == b"content-length":
                lengths.append(value)
                continue
            lines.append(b"%b: %b\r\n" % (name, value))
            if kind == b"host":
                hosts += 1
            elif kind == b"transfer-encoding":
                codings.append(value)
            elif kind == b"connection":
                self.closes = self.closes or _says_close(value)
            elif kind == b"upgrade":
                self.upgrades = True
        # One host and one length: if there were two, each who reads them could go by another.
        if hosts != 1:
            raise illegal("A request must have one Host header")
        if codings:
            self._chunked = _is_chunked(codings, illegal)
        elif lengths:
            self._left = _length(lengths, illegal)
            lines.append(b"Content-Length: %d\r\n" % self._left)
        lines.append(b"\r\n")
        self.head = b"".join(lines)
        if self.head.count(b"\n") != len(lines) or not _REQUEST.fullmatch(self.head):
            # Not which: a header that was cut short is still a secret.
            raise illegal("Illegal method, URL or header: it holds what HTTP/1.1 has no way to say")

    def framed(self, data: bytes) -> bytes:
        """A part of the body as it goes over the wire."""
        if self._chunked:
            return b"%x\r\n%b\r\n" % (len(data), data) if data else b""  # an empty one would be the end
        self._left -= len(data)
        if self._left < 0:
            raise self._illegal("Too much data for declared Content-Length")
        return data

    def end(self) -> bytes:
        """What comes after the last part."""
        if self._chunked:
            return b"0\r\n\r\n"
        if self._left:
            raise self._illegal("Too little data for declared Content-Length")
        return b""


class Answer:
    """An answer, as it comes in. `broken` is raised for what cannot be one, or stops in the middle."""

    __slots__ = (
        "_broken", "_chunked", "_left", "_line_of", "_method", "_partial", "_spent", "_upgrades", "complete",
        "headers", "keeps", "reason", "rest", "status", "switched", "version",
    )  # fmt: skip

    def __init__(self, method: str, broken: type[Exception], *, upgrades: bool = False) -> None:
        self._method = method
        self._broken = broken
        self._upgrades = upgrades
        self.version = self.reason = b""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.keeps = True
        """Whether another request may go over this connection."""
        self.switched = False
        """Whether the connection speaks something else from here on."""
        self.complete = False
        """Whether nothing more of it will come."""
        self.rest = b""
        """What was received behind the head, and not taken yet."""
        self._chunked = False
        self._left: int | None = None  # of the body or of a chunk; None: until the end
        self._line_of = "size"  # what the next line between chunks is for
        self._partial = b""
        self._spent = 0  # on heads and trailers

    def begin(self, data: bytes) -> bool:
        """Takes what was received, nothing if the other side has closed. Whether the head is there."""
        if not data:
            raise self._broken("Server disconnected without sending a response.")
        # Not from the start each time: a head may come byte by byte.
        seen = max(0, len(self.rest) - 2)
        self.rest += data
        while (end := _END.search(self.rest, seen)) is not None:
            seen = 0
            self._spend(end.end())
            head, self.rest = self.rest[: end.start()], self.rest[end.end() :]
            self._read(head)
            # 100 Continue and 103 Early Hints announce another.
            if self.status >= 200 or self.status == 101:
                if self.complete and self.rest and not self.switched:
                    self.keeps = False
                return True
        self._bound(len(self.rest))
        return False

    def take(self, data: bytes) -> bytes:
        """What of the body is in what was received, which is nothing if the other side has closed."""
        self.rest = b""
        if self._chunked:
            return self._unchunked(data)
        if self._left is None:
            self.complete = not data
            return data
        if not data:
            raise self._broken(
                f"peer closed connection without sending complete message body ({self._left} bytes missing)"
            )
        part = data[: self._left]
        self._left -= len(part)
        self._finish(self._left == 0, len(part) < len(data))
        return part

    def extensions(self, network_stream: object) -> dict[str, object]:
        """What a response of httpx tells beside its headers."""
        return {
            "http_version": self.version,
            "reason_phrase": self.reason,
            "network_stream": network_stream,
        }

    def _read(self, head: bytes) -> None:
        first, _, fields = head.partition(b"\n")
        if b"\n " in fields or b"\n\t" in fields:
            fields = _FOLD.sub(b" ", fields)
        status = _STATUS.fullmatch(first)
        if status is None:
            raise self._broken("illegal status line")
        self.version, number, reason = status.groups()
        self.status, self.reason = int(number), reason or b""
        self.headers = headers = []
        self.keeps = self.version == b"HTTP/1.1"
        lengths, codings = [], []
        for line in fields.split(b"\n") if fields else ():
            field = _FIELD.fullmatch(line)
            if field is None:
                raise self._broken("illegal header line")
            name, value = field.groups()
            value = value.strip(b" \t")
            headers.append((name, value))
            kind = name.lower()
            if kind == b"content-length":
                lengths.append(value)
            elif kind == b"transfer-encoding":
                codings.append(value)
            elif kind == b"connection" and _says_close(value):
                self.keeps = False
        self._measure(lengths, codings)

    def _measure(self, lengths: list[bytes], codings: list[bytes]) -> None:
        """How long the body is."""
        # Checked first, and also where there is no body to measure: a proxy on the way may go by either, and
        # a server that writes such a header cannot be trusted with another request. As h11 does.
        length = _length(lengths, self._broken) if lengths else None
        is_chunked = bool(codings) and _is_chunked(codings, self._broken)
        if is_chunked and lengths:
            self.keeps = False
        if self.status == 101 and not self._upgrades:
            raise self._broken("101 Switching Protocols, which nobody asked for")
        if self.status == 101 or (self._method == "CONNECT" and 200 <= self.status < 300):
            self.complete = self.switched = True
            self.keeps = False
        elif self._method == "HEAD" or self.status in (204, 304):
            self.complete = True
        elif self.status < 200:
            pass  # another head follows
        elif is_chunked:
            self._chunked = True
            self._left = 0
        elif length is not None:
            self._left = length
            self.complete = length == 0
        else:
            self.keeps = False

    def _unchunked(self, data: bytes) -> bytes:
        if not data:
            raise self._broken(
                "peer closed connection without sending complete message body (incomplete chunked read)"
            )
        data = self._partial + data
        parts: list[bytes] = []
        at = 0
        while not self.complete:
            if self._left:
                part = data[at : at + self._left]
                if not part:
                    break
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                continue
            end = data.find(b"\n", at)
            if end < 0:
                break
            self._read_line(data[at:end])
            at = end + 1
        self._partial = data[at:]
        self._bound(len(self._partial))
        self._finish(self.complete, bool(self._partial))
        return b"".join(parts)

    def _read_line(self, line: bytes) -> None:
        """A line that is not of the body: the size of a chunk, the end of one, a trailer."""
        if self._line_of == "size":
            size = _CHUNK.fullmatch(line)
            if size is None:
                raise self._broken("illegal chunk header")
            self._left = int(size[1], 16)
            self._line_of = "end" if self._left else "trailer"
        elif self._line_of == "end":
            if line != b"\r":
                raise self._broken("a chunk is longer than it said")
            self._line_of = "size"
        else:
            self._spend(len(line))
            self.complete = line == b"\r"
            if not self.complete and not _FIELD.fullmatch(line):
                raise self._broken("illegal trailer")

    def _finish(self, complete: bool, more: bool) -> None:
        self.complete = complete
        if complete and more:
            self.keeps = False  # whatever that is, nobody asked for it

    def _spend(self, length: int) -> None:
        """All of them together: there is no end of heads either, if each announces another."""
        self._spent += length
        self._bound(self._spent)

    def _bound(self, length: int) -> None:
        if length > _MOST:
            raise self._broken(f"more than {_MOST} bytes of headers")


def _says_close(value: bytes) -> bool:
    return b"close" in (word.strip() for word in value.lower().split(b","))


def _is_chunked(codings: list[bytes], wrong: type[Exception]) -> bool:
    if [coding.lower() for coding in codings] != [b"chunked"]:
        raise wrong("a Transfer-Encoding that is not chunked")
    return True


def _length(values: list[bytes], wrong: type[Exception]) -> int:
    """The one length that all values give."""
    said = {word.strip() for value in values for word in value.split(b",")}
    length = said.pop()
    parsed = None if said else parse_content_length(length)
    if parsed is None:
        raise wrong("bad Content-Length")
    return parsed
