"""The 401 response that is discarded when a request is retried (C19)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubeauth import load_config
from kubeauth.testing import Answer, APIServer, FakeClock, Received
from tests.support.callers import BlockingPlugin
from tests.support.clients import ClientVariant
from tests.support.residue import no_residue, wait_until
from tests.support.shell_plugin import ShellPlugin

pytestmark = pytest.mark.every_variant


@pytest.fixture
def plugin(tmp_path: Path) -> ShellPlugin:
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="old")
    return plugin


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Accepts every request, except as configured by `reject_old_token`."""
    with APIServer(tls=False) as it:
        yield it


def reject_old_token(server: APIServer, rejection: Answer | Callable[[], Answer]) -> None:
    """Send `rejection` to requests for /guarded with the token "old"."""

    def respond(request: Received) -> Answer:
        if request.header("Authorization") == "Bearer old":
            return rejection() if callable(rejection) else rejection
        return Answer(body={"accepted": True})

    server.on("GET", "/guarded", respond)


def config(server: APIServer, plugin: ShellPlugin) -> Any:
    document = server.kubeconfig({"exec": plugin.exec_config()})
    # Credentials from a kubeconfig are not sent to an http server, so the server is replaced afterwards.
    loaded = load_config({**document, "clusters": [{"name": "local", "cluster": {"server": "https://h"}}]})
    return replace(loaded, server=server.url)


def get_guarded(client: Any, plugin: ShellPlugin) -> Any:
    """GET /guarded with the cached token "old"; the next run of the plugin returns "new"."""
    assert client.get("/version").status_code == 200
    plugin.answer(token="new")
    return client.get("/guarded")


def test_a_short_401_body_is_read_and_its_connection_reused(
    variant: ClientVariant, server: APIServer, plugin: ShellPlugin, clock: FakeClock
) -> None:
    reject_old_token(server, Answer(401, {"reason": "Unauthorized"}))
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        assert get_guarded(client, plugin).json() == {"accepted": True}
    assert {request.connection for request in server.requests} == {1}


def test_the_connection_of_a_long_401_body_is_closed(
    variant: ClientVariant, server: APIServer, plugin: ShellPlugin, clock: FakeClock
) -> None:
    def endless() -> Answer:
        return Answer(401, chunks=(b"x" * 65536 for _ in itertools.count()))

    reject_old_token(server, endless)
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        assert get_guarded(client, plugin).json() == {"accepted": True}
        wait_until(lambda: server.open_connections == 1)

    assert [request.connection for request in server.requests] == [1, 1, 2]


def test_a_truncated_401_body_is_ignored(
    variant: ClientVariant, server: APIServer, plugin: ShellPlugin, clock: FakeClock
) -> None:
    reject_old_token(server, Answer(401, b"short", headers={"Content-Length": "100", "Connection": "close"}))
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        assert get_guarded(client, plugin).json() == {"accepted": True}


def test_a_401_response_is_closed_if_the_caller_is_cancelled(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    if not variant.is_async:
        pytest.skip("threads cannot be cancelled")
    reject_old_token(server, Answer(401, {"reason": "Unauthorized"}))
    plugin = BlockingPlugin(tmp_path)
    plugin.set_token("old")
    plugin.release()

    async def main() -> None:
        async with variant.Client(replace(plugin.config(), server=server.url), clock=clock) as client:
            await client.get("/version")
            plugin.set_token("new")
            plugin.block()

            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.get, "/guarded")
                    while plugin.runs < 2:  # noqa: ASYNC110 -- the plugin is another process
                        await anyio.sleep(0.01)
                    scope.cancel()

            # The body of the 401 was not read, so its connection cannot be reused.
            while server.open_connections:  # noqa: ASYNC110 -- the server is in another thread
                await anyio.sleep(0.01)
            plugin.release()
            # The run of the plugin was not cancelled: the next request uses its result.
            assert (await client.get("/guarded")).json() == {"accepted": True}

    with no_residue():
        anyio.run(main, backend=variant.runtime)

    assert plugin.runs == 2


def test_a_503_does_not_reset_the_rate_limit_of_plugin_runs(
    variant: ClientVariant, server: APIServer, plugin: ShellPlugin, clock: FakeClock
) -> None:
    """Otherwise a server that sends 401 and 503 alternately would cause a run for each request."""
    responses = itertools.cycle([Answer(401), Answer(503)])
    server.on("GET", "/guarded", lambda _request: next(responses))
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        for number in range(6):
            plugin.answer(token=f"t{number}")
            client.get("/guarded")

    assert len(plugin.runs) == 2
