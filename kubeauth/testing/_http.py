"""A threaded HTTP/1.1 server with TLS for tests, built on the standard library."""

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

# Larger than any request to an API server.
_MAX_BODY_SIZE = 64 * 2**20


class ResponseLike(Protocol):
    """A response to send, as Answer."""

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
    """A request as received, before the server authenticates it."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    certificate: bytes | None
    sni: str | None
    connection: int


class Listener:
    """Accepts connections on a port of 127.0.0.1 (0: any free port) and serves each in its own thread."""

    def __init__(
        self, respond: Callable[[RawRequest], ResponseLike], context: ssl.SSLContext | None, port: int = 0
    ) -> None:
        self._respond = respond
        self._context = context
        self._numbers = itertools.count(1)
        self._open: dict[int, socket.socket] = {}
        # Guards _open and _is_closed.
        self._lock = threading.Lock()
        self._is_closed = False
        self._socket = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port: int = self._socket.getsockname()[1]
        if context is not None:
            context.sni_callback = _store_server_name
        self._thread = threading.Thread(target=self._accept, name="APIServer", daemon=True)
        self._thread.start()

    @property
    def open_connections(self) -> int:
        with self._lock:
            return len(self._open)

    def hang_up(self) -> None:
        """Close every connection at once."""
        with self._lock:
            connections = list(self._open.values())
        for connection in connections:
            with suppress(OSError):
                # Not SSLSocket.shutdown(), which removes the TLS object while the serving thread uses it.
                shut_down(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop accepting connections, and close the open ones."""
        with self._lock:
            self._is_closed = True
        with suppress(OSError):
            # Wakes up the thread that waits in accept().
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
                if self._is_closed:
                    connection.close()
                    return
                self._open[number] = connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        stream = connection
        try:
            if self._context is not None:
                # Handshake in this thread, so that a slow client does not block accept().
                stream = self._context.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
                with self._lock:
                    self._open[number] = stream
                do_handshake(stream)
            _RequestHandler(stream, self._respond, number)
        except (OSError, ValueError):
            pass  # the client disconnected, or the TLS handshake failed: the client's own error explains it
        finally:
            with self._lock:
                del self._open[number]
            stream.close()


def do_handshake(stream: ssl.SSLSocket) -> None:
    """Perform the TLS handshake. If it fails, wait until the client has read the alert."""
    try:
        stream.do_handshake()
    except ssl.SSLError:
        # Closing a socket with unread data resets the connection, and the client would never read the alert.
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(65536):
            pass
        raise


def _store_server_name(stream: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: object) -> None:
    # Both classes accept attributes; their stubs do not declare this one.
    stream.sni = name  # type: ignore[union-attr]


class _RequestHandler(BaseHTTPRequestHandler):
    """Handles all requests of one connection."""

    protocol_version = "HTTP/1.1"

    def __init__(
        self, stream: socket.socket, respond: Callable[[RawRequest], ResponseLike], number: int
    ) -> None:
        self._respond = respond
        self._number = number
        # There is no socketserver, and BaseHTTPRequestHandler does not use one.
        super().__init__(stream, stream.getpeername(), None)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # the base class looks up do_GET and so on: accept any method
            return self._handle
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _handle(self) -> None:
        stream = self.request
        certificate = stream.getpeercert(binary_form=True) if isinstance(stream, ssl.SSLSocket) else None
        try:
            body = self._read_body()
        except ValueError:
            self.close_connection = True  # the start of the next request is unknown
            self.send_error(HTTPStatus.BAD_REQUEST, explain="invalid length of the request body")
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
            response = self._respond(request)
        except Exception as error:
            # A bug in the test: show it in the response.
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="".join(format_exception(error)))
            return
        if response.hang_up:
            self.close_connection = True
            return
        self._send(response)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts: list[bytes] = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        length = parse_content_length(self.headers.get("Content-Length", "0"))
        if length is None or length > _MAX_BODY_SIZE:
            raise ValueError("Content-Length")
        return self.rfile.read(length)

    def _send(self, response: ResponseLike) -> None:
        body = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
        headers = dict(response.headers)
        if not isinstance(response.body, bytes):
            headers.setdefault("Content-Type", "application/json")
        if response.chunks is not None:
            headers["Transfer-Encoding"] = "chunked"
        elif response.status >= HTTPStatus.OK and response.status != HTTPStatus.NO_CONTENT:
            headers.setdefault("Content-Length", str(len(body)))  # a test may set a wrong length on purpose
        self.send_response_only(response.status)
        names = {name.lower() for name in headers}
        for name, value in (("Server", self.version_string()), ("Date", self.date_time_string())):
            if name.lower() not in names:
                self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if response.chunks is None:
            self.wfile.write(body)
            return
        for chunk in filter(None, response.chunks):  # an empty chunk would end the body
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")
