"""HTTP/1.1 over TLS in threads: enough of a server for tests, from the standard library."""

from __future__ import annotations

import itertools
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from traceback import format_exception
from typing import Any, Protocol

from kubeauth._compat import shut_down
from kubeauth._http import parse_content_length

# More than any request to an API server has.
_MAX_BODY = 64 * 2**20


class ResponseLike(Protocol):
    """What can be sent: see Answer."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> Any: ...
    @property
    def headers(self) -> Any: ...
    @property
    def chunks(self) -> Iterable[bytes] | None: ...
    @property
    def hang_up(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class RawRequest:
    """What came over the wire."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    certificate: bytes | None
    sni: str | None
    connection: int


class Listener:
    """Takes connections on a port of 127.0.0.1 (0: a free one), each in a thread of its own."""

    def __init__(
        self, respond: Callable[[RawRequest], ResponseLike], context: ssl.SSLContext | None, port: int = 0
    ) -> None:
        self._respond = respond
        self._context = context
        self._numbers = itertools.count(1)
        self._open: dict[int, socket.socket] = {}
        # Guards _open and _closed.
        self._lock = threading.Lock()
        self._closed = False
        self._socket = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port: int = self._socket.getsockname()[1]
        if context is not None:
            context.sni_callback = _remember_name
        self._thread = threading.Thread(target=self._accept, name="APIServer", daemon=True)
        self._thread.start()

    @property
    def open_connections(self) -> int:
        with self._lock:
            return len(self._open)

    def hang_up(self) -> None:
        """Ends every connection at once."""
        with self._lock:
            connections = list(self._open.values())
        for connection in connections:
            with suppress(OSError):
                # Not that of ssl, which takes the TLS away from the thread that is in the middle of it.
                shut_down(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        """Takes no more connections, and ends those there are."""
        with self._lock:
            self._closed = True
        with suppress(OSError):
            # Wakes the thread that waits in accept().
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        self.hang_up()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            number = next(self._numbers)
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._open[number] = connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        stream = connection
        try:
            if self._context is not None:
                # In this thread, not in the one that accepts: a slow client holds up nobody else.
                stream = self._context.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
                with self._lock:
                    self._open[number] = stream
                _shake_hands(stream)
            _RequestHandler(stream, self._respond, number)
        except (OSError, ValueError):
            pass  # the client went away, or could not agree on TLS: its own error says so
        finally:
            with self._lock:
                del self._open[number]
            stream.close()


def _shake_hands(stream: ssl.SSLSocket) -> None:
    try:
        stream.do_handshake()
    except ssl.SSLError:
        # Closing with something unread would be a reset, and the client would never read why.
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(65536):
            pass
        raise


def _remember_name(stream: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: object) -> None:
    # Both classes take attributes; their stubs do not know this one.
    stream.sni = name  # type: ignore[union-attr]


class _RequestHandler(BaseHTTPRequestHandler):
    """All requests of one connection."""

    protocol_version = "HTTP/1.1"

    def __init__(
        self, stream: socket.socket, respond: Callable[[RawRequest], ResponseLike], number: int
    ) -> None:
        self._respond = respond
        self._number = number
        # There is no socketserver around it, and nothing that it does asks for one.
        super().__init__(stream, stream.getpeername(), None)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # any method will do
            return self._converse
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _converse(self) -> None:
        stream = self.request
        certificate = stream.getpeercert(binary_form=True) if isinstance(stream, ssl.SSLSocket) else None
        try:
            body = self._body()
        except ValueError:
            self.close_connection = True  # where the next request begins is not known
            self.send_error(HTTPStatus.BAD_REQUEST, explain="the length of the body is not valid")
            return
        request = RawRequest(
            method=self.command,
            path=self.path,
            headers=tuple(self.headers.items()),
            body=body,
            certificate=certificate,
            sni=getattr(stream, "sni", None),
            connection=self._number,
        )
        try:
            answer = self._respond(request)
        except Exception as error:
            # A mistake in the test: whoever looks at the response should see it.
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="".join(format_exception(error)))
            return
        if answer.hang_up:
            self.close_connection = True
            return
        self._say(answer)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts: list[bytes] = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        length = parse_content_length(self.headers.get("Content-Length", "0"))
        if length is None or length > _MAX_BODY:
            raise ValueError("Content-Length")
        return self.rfile.read(length)

    def _say(self, answer: ResponseLike) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        headers = dict(answer.headers)
        if not isinstance(answer.body, bytes):
            headers.setdefault("Content-Type", "application/json")
        if answer.chunks is not None:
            headers["Transfer-Encoding"] = "chunked"
        elif answer.status >= HTTPStatus.OK and answer.status != HTTPStatus.NO_CONTENT:
            headers.setdefault("Content-Length", str(len(body)))  # a test may lie about it
        self.send_response_only(answer.status)
        own = {name.lower() for name in headers}
        for name, value in (("Server", self.version_string()), ("Date", self.date_time_string())):
            if name.lower() not in own:
                self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if answer.chunks is None:
            self.wfile.write(body)
            return
        for chunk in filter(None, answer.chunks):  # an empty one would be the end
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")
