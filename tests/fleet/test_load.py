"""A thousand contexts over fifty servers: how often plugins run, and who is said to have failed."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kubeauth.fleet import Failure
from kubeauth.testing import APIServer, Authority
from tests.fleet.fleets import RUNTIMES, Fleet, NotedPlugin, ask, dead_port
from tests.support.residue import no_residue, wait_until

pytestmark = [pytest.mark.load, pytest.mark.timeout(600), pytest.mark.parametrize("runtime", RUNTIMES)]

SERVERS, CONTEXTS = 50, 1000


@pytest.fixture(scope="module")
def servers() -> Iterator[list[APIServer]]:
    authority = Authority()
    with ExitStack() as stack:
        yield [
            stack.enter_context(APIServer(authority=authority, tokens={"alices-token": "alice"}))
            for _ in range(SERVERS)
        ]


@pytest.fixture(autouse=True)
def forgotten(servers: list[APIServer]) -> None:
    for server in servers:
        server.requests.clear()


@pytest.mark.parametrize("configs", [1, SERVERS])
def test_each_plugin_that_is_configured_otherwise_is_run_once(
    runtime: str, configs: int, servers: list[APIServer], tmp_path: Path
) -> None:
    plugin, made = NotedPlugin(tmp_path), Fleet()
    for number in range(CONTEXTS):
        made.add(f"c{number}", servers[number % SERVERS], plugin.user(str(number % configs)))
    with no_residue():
        report = ask(runtime, "/version", kubeconfig=made.document, timeout=300.0)
        wait_until(lambda: not any(server.open_connections for server in servers))
    assert report.ok, report
    assert len(report) == CONTEXTS
    assert sorted(plugin.runs) == sorted(map(str, range(configs)))
    assert {len(server.requests) for server in servers} == {CONTEXTS // SERVERS}


def test_one_in_ten_is_dead_or_slow_or_does_not_know_us(
    runtime: str, servers: list[APIServer], tmp_path: Path
) -> None:
    plugin, made = NotedPlugin(tmp_path), Fleet()
    expected: dict[str, Failure | None] = {}
    with (
        dead_port() as dead,
        socket.create_server(("127.0.0.1", 0), backlog=128) as listening,  # nobody takes it up
        APIServer(authority=servers[0].authority, tokens={"another": "alice"}) as stranger,
    ):
        slow = f"https://127.0.0.1:{listening.getsockname()[1]}"
        bad: list[tuple[Failure, APIServer | str]] = [
            (Failure.UNREACHABLE, dead), (Failure.TIMEOUT, slow), (Failure.UNAUTHORIZED, stranger)
        ]  # fmt: skip
        for number in range(CONTEXTS):
            name = f"c{number}"
            failure, server = bad[number // 10 % 3] if number % 10 == 7 else (None, servers[number % SERVERS])
            made.add(name, server, plugin.user())
            expected[name] = failure
        with no_residue():
            report = ask(runtime, "/version", kubeconfig=made.document, concurrency=64, timeout=20.0)
            wait_until(lambda: not any(server.open_connections for server in [*servers, stranger]))
    assert {answer.context: answer.failure for answer in report} == expected
    assert report.failures == Counter(filter(None, expected.values()))
    assert len(plugin.runs) == 1
