"""What becomes of the response that a repeated request takes the place of (C19)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubeauth import load_config
from kubeauth.testing import Answer, APIServer, FakeClock, PluginScript, Received
from tests.support.callers import HeldPlugin
from tests.support.clients import ClientVariant
from tests.support.residue import no_residue, wait_until

pytestmark = pytest.mark.every_variant


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    plugin = PluginScript(tmp_path)
    plugin.answer(token="old")
    return plugin


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Answers everybody as it is told to at /guarded."""
    with APIServer(tls=False) as it:
        yield it


def guarded(server: APIServer, refusal: Answer | Any) -> None:
    def answer(request: Received) -> Answer:
        if request.header("Authorization") == "Bearer old":
            return refusal() if callable(refusal) else refusal
        return Answer(body={"welcome": True})

    server.on("GET", "/guarded", answer)


def config(server: APIServer, plugin: PluginScript) -> Any:
    document = server.kubeconfig({"exec": plugin.exec_config()})
    # A kubeconfig gives no credentials to an http server; a config made by hand does.
    loaded = load_config({**document, "clusters": [{"name": "local", "cluster": {"server": "https://h"}}]})
    return replace(loaded, server=server.url)


def ask_twice(client: Any, plugin: PluginScript) -> Any:
    assert client.get("/version").status_code == 200
    plugin.answer(token="new")
    return client.get("/guarded")


def test_a_short_one_is_read_so_that_its_connection_serves_again(
    variant: ClientVariant, server: APIServer, plugin: PluginScript, clock: FakeClock
) -> None:
    guarded(server, Answer(401, {"reason": "Unauthorized"}))
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        assert ask_twice(client, plugin).json() == {"welcome": True}
    assert {request.connection for request in server.requests} == {1}


def test_a_long_one_is_given_up_with_its_connection(
    variant: ClientVariant, server: APIServer, plugin: PluginScript, clock: FakeClock
) -> None:
    sent = itertools.count()

    def endless() -> Answer:
        return Answer(401, chunks=(b"x" * 65536 for _ in sent))

    guarded(server, endless)
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        assert ask_twice(client, plugin).json() == {"welcome": True}
        wait_until(lambda: server.open_connections == 1)
    assert [request.connection for request in server.requests] == [1, 1, 2]


def test_one_that_breaks_off_is_no_matter(
    variant: ClientVariant, server: APIServer, plugin: PluginScript, clock: FakeClock
) -> None:
    guarded(server, Answer(401, b"short", headers={"Content-Length": "100", "Connection": "close"}))
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        assert ask_twice(client, plugin).json() == {"welcome": True}


def test_it_is_closed_when_the_caller_does_not_wait_for_the_plugin(
    variant: ClientVariant, server: APIServer, clock: FakeClock, tmp_path: Path
) -> None:
    if not variant.is_async:
        pytest.skip("nobody cancels a thread")
    guarded(server, Answer(401, {"reason": "Unauthorized"}))
    plugin = HeldPlugin(tmp_path)
    plugin.says("old")
    plugin.let_go()

    async def main() -> None:
        async with variant.Client(replace(plugin.config(), server=server.url), clock=clock) as client:
            await client.get("/version")
            plugin.says("new")
            plugin.hold()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.get, "/guarded")
                    while plugin.runs < 2:  # noqa: ASYNC110 -- it is another process
                        await anyio.sleep(0.01)
                    scope.cancel()
            # The 401 was not read, so its connection is of no more use.
            while server.open_connections:  # noqa: ASYNC110 -- it is in another thread
                await anyio.sleep(0.01)
            plugin.let_go()
            # Who comes next finds what was asked for.
            assert (await client.get("/guarded")).json() == {"welcome": True}

    with no_residue():
        anyio.run(main, backend=variant.runtime)
    assert plugin.runs == 2


def test_a_server_that_is_out_of_order_has_not_accepted_anything(
    variant: ClientVariant, server: APIServer, plugin: PluginScript, clock: FakeClock
) -> None:
    """Else one that answers 401 and 503 in turn would make the plugin run for each request."""
    answers = itertools.cycle([Answer(401), Answer(503)])
    server.on("GET", "/guarded", lambda _request: next(answers))
    with no_residue(), variant.client(config(server, plugin), clock=clock) as client:
        for number in range(6):
            plugin.answer(token=f"t{number}")
            client.get("/guarded")
    assert len(plugin.runs) == 2
