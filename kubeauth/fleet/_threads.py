"""The verbs that differ by colour, for callers that may block. `_loops` has the same for event loops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from kubeauth._client import Client
from kubeauth._config.client_config import ClientConfig
from kubeauth._transport.deadline import Deadline
from kubeauth._transport.sync_backend import new_lock, run_blocking

__all__ = ["Limits", "client_for", "new_lock", "run_blocking"]

Extensions = dict[str, Any]


def client_for(config: ClientConfig, seconds: float | None, most_redirects: int) -> Client:
    """For one request, whose steps may take so long each."""
    # Not over DirectTransport, which does not tell what it connects: it could not be cut.
    return Client(config, timeout=seconds, follow_redirects=True, max_redirects=most_redirects)


class Limits:
    """Ends what takes too long: one thread for all, since a socket that waits cannot look at a clock."""

    def __init__(self, too_late: Callable[[], Exception]) -> None:
        self._too_late = too_late
        # Guards the two below, and tells of every change.
        self._changed = threading.Condition()
        self._due: dict[Deadline, float] = {}
        self._is_over = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def of(self, seconds: float | None) -> Generator[Extensions]:
        """For one request, sent with these extensions. Raises what is said of those too late."""
        deadline = Deadline(None)
        with self._changed:
            if self._is_over:
                raise self._too_late()
            self._due[deadline] = float("inf") if seconds is None else time.monotonic() + seconds
            self._start_locked()
            self._changed.notify()
        try:
            yield {"trace": _noticing(deadline)}
        except (httpx.RequestError, OSError):
            if not deadline.has_expired:
                raise
        finally:
            with self._changed:
                del self._due[deadline]
        # What was cut fails in many ways, or ends as if it were whole.
        if deadline.has_expired:
            raise self._too_late()

    def close(self) -> None:
        """Ends everything now, and whatever is still to come."""
        with self._changed:
            self._is_over = True
            for deadline in self._due:
                deadline.abort()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _start_locked(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._watch, name="kubeauth-fleet-limits", daemon=True)
            with suppress(RuntimeError):  # the process has too many: then it is httpx's timeout alone
                thread.start()
                self._thread = thread

    def _watch(self) -> None:
        with self._changed:
            while not self._is_over:
                now = time.monotonic()
                for deadline, due in self._due.items():
                    if due <= now and not deadline.has_expired:
                        deadline.abort()
                waiting = [due for deadline, due in self._due.items() if not deadline.has_expired]
                next_due = min(waiting, default=float("inf"))
                self._changed.wait(None if next_due == float("inf") else next_due - now)


def _noticing(deadline: Deadline) -> Callable[[str, Any], None]:
    """What httpcore calls for all that it does: each connection can be cut, but not in its handshake.

    One that is cut just before that begins would be lost by ssl. While it lasts, httpx's own limit counts.
    """
    opened: Any = None

    def notice(event: str, info: Any) -> None:
        nonlocal opened
        if event.endswith("connect_tcp.complete"):
            opened = info["return_value"]
        if not event.endswith("start_tls.started"):
            deadline.on_trace(event, info)
        elif not deadline.release_connections():
            opened.close()  # nobody else will
            raise TimeoutError

    return notice
