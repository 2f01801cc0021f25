"""A server that sends given bytes, for what a correct HTTP server would not send."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from kubeauth import Secret
from kubeauth._credentials.client_cert import load_client_cert
from kubeauth._credentials.credential import ClientCertificate
from kubeauth.testing import KeyPair
from kubeauth.testing._http import do_handshake

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class ServerConnection:
    """The server's side of a connection."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.requests: list[bytes] = []

    def read_request(self, end: bytes = b"\r\n\r\n") -> bytes:
        """Read the next request, up to `end`. Return b"" if the client has closed the connection."""
        received = b""
        while not received.endswith(end):
            more = self.stream.recv(65536)
            if not more:
                return b""
            received += more
        self.requests.append(received)
        return received

    def send(self, data: bytes) -> None:
        self.stream.sendall(data)

    def wait_closed(self) -> None:
        """Wait until the client closes the connection."""
        with suppress(OSError):
            while self.stream.recv(65536):
                pass


Handler = Callable[[ServerConnection], None]


def always(response: bytes) -> Handler:
    """Send the same response to every request."""

    def handle(connection: ServerConnection) -> None:
        while connection.read_request():
            connection.send(response)

    return handle


def once(response: bytes) -> Handler:
    """Respond to one request, and close the connection."""

    def handle(connection: ServerConnection) -> None:
        if connection.read_request():
            connection.send(response)

    return handle


class RawServer:
    """Runs one handler for each connection, in that order; the last of them for all further connections."""

    def __init__(self, *handlers: Handler, pair: KeyPair | None = None) -> None:
        self._handlers = handlers
        self._context: ssl.SSLContext | None = None
        if pair is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            load_client_cert(self._context, ClientCertificate(pair.certificate, Secret(pair.key)))
        self.connections: list[ServerConnection] = []
        """All connections so far, also closed ones."""
        self.closed = threading.Semaphore(0)
        """Released whenever the server has closed a connection."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'http' if pair is None else 'https'}://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, name="RawServer", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self.connections:
            with suppress(OSError):
                connection.stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    @property
    def requests(self) -> list[bytes]:
        return [request for connection in self.connections for request in connection.requests]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._socket.accept()
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                number = min(len(self.connections), len(self._handlers) - 1)
                connection = ServerConnection(stream)
                self.connections.append(connection)
                thread = threading.Thread(
                    target=self._serve, args=(connection, self._handlers[number]), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: ServerConnection, handle: Handler) -> None:
        with suppress(OSError):
            if self._context is not None:
                connection.stream = self._context.wrap_socket(
                    connection.stream, server_side=True, do_handshake_on_connect=False
                )
                do_handshake(connection.stream)
            handle(connection)
        connection.stream.close()
        self.closed.release()
