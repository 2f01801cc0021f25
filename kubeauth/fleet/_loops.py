"""The verbs that differ by colour, for event loops. `_threads` has the same for callers that may block."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio

from kubeauth._client import AsyncClient
from kubeauth._config.client_config import ClientConfig
from kubeauth._transport.async_backend import new_lock, run_blocking
from kubeauth.transports import AsyncDirectTransport

__all__ = ["Limits", "client_for", "new_lock", "run_blocking"]

Extensions = dict[str, Any]


def client_for(config: ClientConfig, seconds: float | None, most_redirects: int) -> AsyncClient:
    """For one request, whose steps may take so long each."""
    # httpcore forgets a connection that is given up in its handshake: nobody would close it.
    return AsyncClient(
        config,
        transport_factory=AsyncDirectTransport,
        timeout=seconds,
        follow_redirects=True,
        max_redirects=most_redirects,
    )


class Limits:
    """Ends what takes too long."""

    def __init__(self, too_late: Callable[[], Exception]) -> None:
        self._too_late = too_late

    @contextmanager
    def of(self, seconds: float | None) -> Generator[Extensions]:
        """For one request, sent with these extensions. Raises what is said of those too late."""
        with anyio.move_on_after(seconds) as scope:
            yield {}
        if scope.cancelled_caught:
            raise self._too_late()
