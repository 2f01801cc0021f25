"""A time limit for a whole request: a timeout of httpx begins anew with each byte that arrives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self


class Deadline:
    """Cuts the connections when the time is up. For one request after the other, by callers that may block.

    `with deadline: client.get(url, extensions={"trace": deadline.notice})`
    """

    def __init__(self, seconds: float | None) -> None:
        """None: no limit."""
        self.has_expired = False
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        # They stay from one request to the next: that may go over the same, or back to an earlier one.
        self._connections: tuple[socket.socket, ...] = ()

    def __enter__(self) -> Self:
        self.has_expired = False
        if self._seconds is not None:
            self._timer = threading.Timer(max(self._seconds, 0), self.abort)
            self._timer.daemon = True
            with suppress(RuntimeError):  # too many threads: then it is httpx's timeout alone
                self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def on_trace(self, _event: str, info: Mapping[str, Any]) -> None:
        """Called by httpcore for all that it does: what it connects is a stream with a socket."""
        found = getattr(info.get("return_value"), "get_extra_info", None)
        if found is not None:
            still_open = [each for each in self._connections if each.fileno() != -1]
            connected = found("socket")
            self._connections = (*still_open, connected) if connected is not None else tuple(still_open)
            if self.has_expired:
                self.abort()

    def forget_connections(self) -> bool:
        """Leaves the connections alone until the next is noticed. False if it is too late for that.

        For a handshake, which has a time limit of its own: ssl loses a socket that is cut before it begins.
        """
        self._connections = ()
        return not self.has_expired

    def abort(self) -> None:
        self.has_expired = True
        for connection in self._connections:
            with suppress(OSError):
                # Not closed: the descriptor would be somebody else's while it is read from.
                connection.shutdown(socket.SHUT_RDWR)
