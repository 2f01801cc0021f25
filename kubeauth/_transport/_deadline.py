"""An end to a request, whatever the other side does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self


class Deadline:
    """Cuts the connection when the time is up.

    A timeout of httpx begins anew with each byte that arrives, and with each redirect.
    """

    def __init__(self, ends: float) -> None:
        self.has_passed = False
        self._connection: socket.socket | None = None
        self._timer = threading.Timer(max(ends - time.monotonic(), 0), self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        with suppress(RuntimeError):  # too many threads: then it is httpx's timeout alone
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
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
