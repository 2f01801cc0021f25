"""Sockets that block. `_loops` has the same for event loops."""

from __future__ import annotations

import socket
import ssl

from kubeauth.transports._connection import Channel, Library
from kubeauth.transports._pool import Origin


class Connection(Channel):
    """To be read from and written to by whoever may wait. Also what `network_stream` of a response is.

    So its methods have the signatures of httpcore's.
    """

    _timeout: float | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What comes next; nothing if the other side has closed."""
        if self._unread:
            return self._taken(max_bytes)
        self._reading = True
        try:
            self._prepare(timeout)
            data = self._socket.recv(max_bytes)
            if not data:
                self._check_open()  # the end may be of our own making
        except TimeoutError as error:
            raise self._library.ReadTimeout(str(error)) from error
        except (OSError, ValueError) as error:  # the latter of a TLS connection that is no longer one
            raise self._library.ReadError(str(error)) from error
        else:
            return data
        finally:
            self._reading = False
            self._close_if_ended()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of it."""
        self._writing = True
        try:
            self._prepare(timeout)
            left = memoryview(buffer)
            while left:
                # Not sendall: its limit would be for all of it, however well it goes.
                left = left[self._socket.send(left) :]
        except TimeoutError as error:
            raise self._library.WriteTimeout(str(error)) from error
        except (OSError, ValueError) as error:
            self.has_hung_up = True
            raise self._library.WriteError(str(error)) from error
        finally:
            self._writing = False
            self._close_if_ended()

    def close(self) -> None:
        self.end()

    def _prepare(self, timeout: float | None) -> None:
        self._check_open()
        if timeout != self._timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout


def connect(
    origin: Origin, context: ssl.SSLContext | None, within: float | None, library: Library
) -> Connection:
    """A new connection, with TLS if there is a context for it."""
    _, host, port, server_name = origin
    try:
        connected = socket.create_connection((host, port), within)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                connected = context.wrap_socket(connected, server_hostname=server_name)
            connected.settimeout(None)
        except BaseException:
            connected.close()
            raise
    except TimeoutError as error:
        raise library.ConnectTimeout(str(error)) from error
    except (OSError, ValueError) as error:  # the latter for a name that cannot be one
        raise library.ConnectError(str(error)) from error
    return Connection(connected, origin, library)
