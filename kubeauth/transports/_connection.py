"""A socket and who uses it: what connections of both colours have in common."""

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

_PORTS = {"http": 80, "https": 443}
# What is read at once. TLS gives 16 KiB at most.
SIZE = 65536


class Library(Protocol):
    """The module httpx, or httpx2: what it raises."""

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


def origin_of(request: RequestLike, library: Library) -> Origin:
    """Where a request goes. A websocket begins as any other request."""
    url = request.url
    scheme = {"ws": "http", "wss": "https"}.get(url.scheme, url.scheme)
    if scheme not in _PORTS:
        raise library.UnsupportedProtocol(f"the URL of a request must be http or https, not {url.scheme!r}")
    host = url.raw_host.decode("ascii")
    return scheme, host, url.port or _PORTS[scheme], request.extensions.get("sni_hostname") or host


def refuse_a_limit(max_connections: int | None) -> None:
    """ValueError for a limit that would not be kept."""
    if max_connections is not None:
        raise ValueError(
            "a DirectTransport opens as many connections as there are requests at a time: max_connections "
            "must be None. HTTPTransport of httpx has such a limit."
        )


class Channel:
    """An open connection, and what can be known of it without waiting.

    It may be ended by others than those who use it. But a descriptor that is closed is the next file's, and
    whoever still reads from it would read that: so it is closed by who reads or writes, if somebody does.
    Both sides say what they do first and look at what the other has said after: one of them sees it.
    """

    def __init__(self, connected: socket.socket, origin: Origin, library: Library) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.has_hung_up = False
        """Whether it takes no more."""
        self._socket = connected
        self._library = library
        self._unread = b""
        self._process = os.getpid()
        self._reading = self._writing = self._ended = False

    def end(self) -> None:
        """Closes it. Whoever reads or writes is told, and closes it."""
        self._ended = True
        if self._process != os.getpid():
            # A child that was forked has a copy of it, in use or not. The connection is the parent's.
            self._socket.close()
        elif self._reading or self._writing:
            with suppress(OSError):
                shut_down(self._socket, socket.SHUT_RDWR)
        self._close_if_ended()

    def unread(self, data: bytes) -> None:
        """Puts back what was read too much: the next to read gets it first."""
        self._unread = data

    @property
    def is_readable(self) -> bool:
        """Whether there is something to read. If nobody has asked for anything, that is its end."""
        try:
            if hasattr(select, "poll"):
                poll = select.poll()
                poll.register(self._socket, select.POLLIN)
                return bool(poll.poll(0))
            return bool(select.select([self._socket], [], [], 0)[0])
        except (OSError, ValueError):
            return True  # somebody has closed it just now

    def get_extra_info(self, info: str) -> object:
        """As of the network streams of httpcore."""
        if info == "socket":
            return self._socket
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        if info == "client_addr":
            return self._socket.getsockname()
        if info == "server_addr":
            return self._socket.getpeername()
        return self.is_readable if info == "is_readable" else None

    def _taken(self, most: int) -> bytes:
        """Of what was put back."""
        data, self._unread = self._unread[:most], self._unread[most:]
        return data

    def _check_open(self) -> None:
        if self._ended:
            raise ConnectionAbortedError("the connection was closed")

    def _close_if_ended(self) -> None:
        if self._ended and not (self._reading or self._writing):
            self._socket.close()
