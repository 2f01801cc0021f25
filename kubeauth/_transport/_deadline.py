"""A time limit for a whole request: a timeout of httpx begins anew with each byte that arrives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self


class Deadline:
    """Cuts the connection when the time is up. For one request after the other, by callers that may block.

    `with deadline: client.get(url, extensions={"trace": deadline.notice})`
    """

    def __init__(self, seconds: float | None) -> None:
        """None: no limit."""
        self.has_passed = False
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        # Stays from one request to the next: that may go over the same.
        self._connection: socket.socket | None = None

    def __enter__(self) -> Self:
        self.has_passed = False
        if self._seconds is not None:
            self._timer = threading.Timer(max(self._seconds, 0), self._cut)
            self._timer.daemon = True
            with suppress(RuntimeError):  # too many threads: then it is httpx's timeout alone
                self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def notice(self, _event: str, info: Mapping[str, Any]) -> None:
        """Called by httpcore for all that it does: what it connects is a stream with a socket."""
        found = getattr(info.get("return_value"), "get_extra_info", None)
        if found is not None:
            self._connection = found("socket")
            if self.has_passed:
                self._cut()

    def _cut(self) -> None:
        self.has_passed = True
        if self._connection is not None:
            with suppress(OSError):
                # Not closed: the descriptor would be somebody else's while it is read from.
                self._connection.shutdown(socket.SHUT_RDWR)
