"""Deadline: a time limit for a whole request. A timeout of httpx restarts with each byte that arrives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self


class Deadline:
    """Shuts the connections down when the time is up. For one request at a time, of sync clients.

    `with deadline: client.get(url, extensions={"trace": deadline.on_trace})`
    """

    def __init__(self, seconds: float | None) -> None:
        """None: no limit."""
        self.has_expired = False
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        # Retained between requests: the next one may reuse any of these connections.
        self._connections: tuple[socket.socket, ...] = ()

    def __enter__(self) -> Self:
        self.has_expired = False
        if self._seconds is not None:
            self._timer = threading.Timer(max(self._seconds, 0), self.abort)
            self._timer.daemon = True
            with suppress(RuntimeError):  # too many threads: only httpx's own timeout applies
                self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def on_trace(self, _event: str, info: Mapping[str, Any]) -> None:
        """Remember each connection that httpcore opens: the event's return value has a socket."""
        get_extra_info = getattr(info.get("return_value"), "get_extra_info", None)
        if get_extra_info is not None:
            still_open = [each for each in self._connections if each.fileno() != -1]
            connected = get_extra_info("socket")
            self._connections = (*still_open, connected) if connected is not None else tuple(still_open)
            if self.has_expired:
                self.abort()

    def release_connections(self) -> bool:
        """Do not abort connections until the next one is opened. False if the time is up already.

        For a TLS handshake, which has its own timeout: ssl loses a socket that is shut down before it.
        """
        self._connections = ()
        return not self.has_expired

    def abort(self) -> None:
        """Shut all connections down now."""
        self.has_expired = True
        for connection in self._connections:
            with suppress(OSError):
                # Not closed: the descriptor could be reused while another thread reads from it.
                connection.shutdown(socket.SHUT_RDWR)
