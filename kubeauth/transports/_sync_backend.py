"""Blocking sockets. `_async_backend` has the same for event loops."""

from __future__ import annotations

import socket
import ssl

from kubeauth.transports._connection import BaseConnection, Library
from kubeauth.transports._pool import Origin


class Connection(BaseConnection):
    """A connection for threads. It is also the `network_stream` of a response.

    Therefore its methods have the signatures of httpcore's NetworkStream.
    """

    _timeout: float | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the data that arrives next; empty if the server has closed the connection."""
        if self._pushed_back:
            return self._pop_pushed_back(max_bytes)
        self._is_reading = True
        try:
            self._prepare(timeout)
            data = self._socket.recv(max_bytes)
            if not data:
                self._check_open()  # abort() also ends the stream
        except TimeoutError as error:
            raise self._library.ReadTimeout(str(error)) from error
        except (OSError, ValueError) as error:  # ValueError: the socket was closed or its TLS shut down
            raise self._library.ReadError(str(error)) from error
        else:
            return data
        finally:
            self._is_reading = False
            self._close_if_aborted()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`."""
        self._is_writing = True
        try:
            self._prepare(timeout)
            remaining = memoryview(buffer)
            while remaining:
                # Not sendall(): it applies the timeout to the whole buffer, even if data keeps flowing.
                remaining = remaining[self._socket.send(remaining) :]
        except TimeoutError as error:
            raise self._library.WriteTimeout(str(error)) from error
        except (OSError, ValueError) as error:
            self.has_write_failed = True
            raise self._library.WriteError(str(error)) from error
        finally:
            self._is_writing = False
            self._close_if_aborted()

    def close(self) -> None:
        self.abort()

    def _prepare(self, timeout: float | None) -> None:
        self._check_open()
        if timeout != self._timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout


def connect(
    origin: Origin, context: ssl.SSLContext | None, connect_timeout: float | None, library: Library
) -> Connection:
    """Open a connection to `origin`, with TLS if `context` is not None."""
    _, host, port, server_name = origin
    try:
        sock = socket.create_connection((host, port), connect_timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=server_name)
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
    except TimeoutError as error:
        raise library.ConnectTimeout(str(error)) from error
    except (OSError, ValueError) as error:  # ValueError: an invalid host name
        raise library.ConnectError(str(error)) from error
    return Connection(sock, origin, library)
