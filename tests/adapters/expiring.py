"""A plugin whose first credential expires by a FakeClock, and a server that accepts that one all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from kubeauth.testing import APIServer, FakeClock
from tests.support.shell_plugin import ShellPlugin

_HOUR = 3600.0


class Client(Protocol):
    def namespaces(self) -> list[str]: ...


def check_refresh_after_expiry(
    open_client: Callable[[FakeClock], AbstractContextManager[Client]],
    server: APIServer,
    plugin: ShellPlugin,
    *,
    certificates: bool = True,
) -> None:
    """One client sends the first credential until it expires, then the second, and no request fails.

    The plugin runs once for each of them. The server accepts both throughout, so a 401 is never the reason.
    """
    clock = FakeClock(time.time())  # the plugin uses the real date

    def issue(user: str, expires_in: float) -> None:
        server.tokens[f"token-{user}"] = user
        pair = server.authority.client(user) if certificates else None
        plugin.answer(
            token=f"token-{user}",
            certificate=pair.certificate if pair else None,
            key=pair.key if pair else None,
            expires_in=expires_in,
        )

    def check_requests(user: str) -> None:
        assert {request.user for request in server.requests} == {user}
        assert {request.common_name for request in server.requests} == {user if certificates else None}
        server.requests.clear()

    issue("first", expires_in=_HOUR)
    with open_client(clock) as client:
        for _ in range(3):
            client.namespaces()
        clock.advance(_HOUR / 2)
        client.namespaces()
        check_requests("first")
        assert len(plugin.runs) == 1
        issue("second", expires_in=3 * _HOUR)
        clock.advance(_HOUR)
        for _ in range(3):
            client.namespaces()
        check_requests("second")
        assert len(plugin.runs) == 2
