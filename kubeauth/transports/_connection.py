"""A connected socket that another thread may abort: the base of the sync and the async connections."""

from __future__ import annotations

import os
import select
import socket
import ssl
from contextlib import suppress
from typing import Protocol

from kubeauth._compat import shut_down
from kubeauth._transport.types import RequestLike
from kubeauth.transports._pool import Origin

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Bytes per read. A TLS socket returns at most 16 KiB.
READ_SIZE = 65536


class Library(Protocol):
    """The module httpx or httpx2: the exceptions that transports raise."""

    @property
    def ConnectError(self) -> type[Exception]: ...
    @property
    def ConnectTimeout(self) -> type[Exception]: ...
    @property
    def ReadError(self) -> type[Exception]: ...
    @property
    def ReadTimeout(self) -> type[Exception]: ...
    @property
    def WriteError(self) -> type[Exception]: ...
    @property
    def WriteTimeout(self) -> type[Exception]: ...
    @property
    def LocalProtocolError(self) -> type[Exception]: ...
    @property
    def RemoteProtocolError(self) -> type[Exception]: ...
    @property
    def UnsupportedProtocol(self) -> type[Exception]: ...


def get_origin(request: RequestLike, library: Library) -> Origin:
    """Return the origin that `request` is sent to. WebSocket requests start as HTTP requests."""
    url = request.url
    scheme = {"ws": "http", "wss": "https"}.get(url.scheme, url.scheme)
    if scheme not in _DEFAULT_PORTS:
        raise library.UnsupportedProtocol(
            f"Request URL has an unsupported protocol {url.scheme!r}: use http or https"
        )
    host = url.raw_host.decode("ascii")
    return scheme, host, url.port or _DEFAULT_PORTS[scheme], request.extensions.get("sni_hostname") or host


def reject_connection_limit(max_connections: int | None) -> None:
    """Raise ValueError if `max_connections` is set: DirectTransport would not enforce it."""
    if max_connections is not None:
        raise ValueError(
            "DirectTransport does not limit the number of connections: max_connections must be None. "
            "To limit them, use the HTTPTransport of httpx."
        )


class BaseConnection:
    """An open connection, with the operations that do not wait.

    Any thread may abort a connection that another thread uses. The operating system gives the number of a
    closed descriptor to the next file that is opened, and a thread that still reads from it would read that
    file: so if a read or write is in progress, the thread that does it closes the socket afterwards. Each
    side sets its own flag before it checks the other's, so at least one of them closes the socket.
    """

    def __init__(self, sock: socket.socket, origin: Origin, library: Library) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.has_write_failed = False
        """Whether a write has failed, as when the server has closed the connection."""
        self._socket = sock
        self._library = library
        self._pushed_back = b""
        self._pid = os.getpid()
        self._is_reading = self._is_writing = self._is_aborted = False

    def abort(self) -> None:
        """Close the connection at once. A read or write in progress fails, and then closes the socket."""
        self._is_aborted = True
        if self._pid != os.getpid():
            # This process is a forked child: close its copy of the descriptor, but do not shut down the
            # connection, which belongs to the parent.
            self._socket.close()
        elif self._is_reading or self._is_writing:
            with suppress(OSError):
                shut_down(self._socket, socket.SHUT_RDWR)
        self._close_if_aborted()

    def push_back(self, data: bytes) -> None:
        """Make the next read return `data`, which was read beyond the end of the response head."""
        self._pushed_back = data

    @property
    def is_readable(self) -> bool:
        """Whether a read would return at once. On an idle connection that means the server closed it."""
        try:
            if hasattr(select, "poll"):
                poll = select.poll()
                poll.register(self._socket, select.POLLIN)
                return bool(poll.poll(0))
            return bool(select.select([self._socket], [], [], 0)[0])
        except (OSError, ValueError):
            return True  # another thread has closed the socket

    def get_extra_info(self, info: str) -> object:
        """Return the same information as the network streams of httpcore."""
        if info == "socket":
            return self._socket
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        if info == "client_addr":
            return self._socket.getsockname()
        if info == "server_addr":
            return self._socket.getpeername()
        return self.is_readable if info == "is_readable" else None

    def _pop_pushed_back(self, max_bytes: int) -> bytes:
        data, self._pushed_back = self._pushed_back[:max_bytes], self._pushed_back[max_bytes:]
        return data

    def _check_open(self) -> None:
        if self._is_aborted:
            raise ConnectionAbortedError("the connection was closed")

    def _close_if_aborted(self) -> None:
        if self._is_aborted and not (self._is_reading or self._is_writing):
            self._socket.close()
