"""Files replaced under load: 64 callers and an open stream, no failures, and nothing left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubeauth import ClientConfig
from kubeauth.testing import APIServer, Authority
from tests.support.clients import ClientVariant
from tests.support.residue import no_residue

pytestmark = pytest.mark.load

CALLERS = 64
ROTATIONS = 5


POOLS: list[object] = []


def counting(variant: ClientVariant) -> Callable[..., Any]:
    """An `transport_factory=` that tells how many pools of connections were made."""

    def inner(context: Any, proxy: Any) -> Any:
        pool = variant.PlainTransport(
            context, proxy=proxy, limits=variant.library.Limits(max_connections=None)
        )
        POOLS.append(context)
        return pool

    return inner


class Clock:
    """Real enough for threads: moves on by as much as it takes to look at every file again."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


def under_load(
    variant: ClientVariant,
    server: APIServer,
    config: ClientConfig,
    clock: Clock,
    rotate: Callable[[int], None],
) -> tuple[list[BaseException], list[str]]:
    """Callers ask all the time while `rotate` is called; returns failures, and the lines of the stream."""
    failures: list[BaseException] = []
    lines: list[str] = []
    POOLS.clear()
    watch = server.watch("/watch")
    done = threading.Event()

    def wait_for(more: int) -> None:
        enough = len(server.requests) + more
        while len(server.requests) < enough and not failures:
            time.sleep(0.002)

    def rotations() -> None:
        try:
            watch.wait_for_watchers()
            wait_for(CALLERS)
            for number in range(ROTATIONS):
                rotate(number)
                clock.now += 400.0
                watch.send({"n": number})
                wait_for(2 * CALLERS)  # every caller has asked about twice since
        finally:
            watch.end()
            done.set()

    rotator = threading.Thread(target=rotations)
    if variant.is_async:
        anyio.run(_tasks, variant, config, clock, rotator, done, failures, lines, backend=variant.runtime)
    else:
        _threads(variant, config, clock, rotator, done, failures, lines)
    rotator.join()
    return failures, lines


def _threads(variant: ClientVariant, config: ClientConfig, clock: Clock, rotator: threading.Thread, done: threading.Event,
             failures: list[BaseException], lines: list[str]) -> None:  # fmt: skip
    with variant.Client(config, clock=clock, transport_factory=counting(variant)) as client:

        def call() -> None:
            while not done.is_set():
                try:
                    client.get("/version").raise_for_status()
                except BaseException as error:
                    failures.append(error)

        callers = [threading.Thread(target=call) for _ in range(CALLERS)]
        with client.stream("GET", "/watch") as stream:
            for thread in (*callers, rotator):
                thread.start()
            lines.extend(stream.iter_lines())
        for caller in callers:
            caller.join()


async def _tasks(variant: ClientVariant, config: ClientConfig, clock: Clock, rotator: threading.Thread, done: threading.Event,
                 failures: list[BaseException], lines: list[str]) -> None:  # fmt: skip
    async with variant.Client(config, clock=clock, transport_factory=counting(variant)) as client:

        async def call() -> None:
            while not done.is_set():
                try:
                    (await client.get("/version")).raise_for_status()
                except Exception as error:
                    failures.append(error)

        async with client.stream("GET", "/watch") as stream, anyio.create_task_group() as group:
            for _ in range(CALLERS):
                group.start_soon(call)
            rotator.start()
            async for line in stream.aiter_lines():
                lines.append(line)


EXPECTED_LINES = [f'{{"n": {number}}}' for number in range(ROTATIONS)]


def test_a_client_certificate_replaced_under_load_k54(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    pairs = [server.authority.client(f"user-{number}") for number in range(ROTATIONS)]
    server.authority.client("first").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    clock = Clock()
    with no_residue():
        failures, lines = under_load(
            variant, server, config, clock, lambda number: pairs[number].write(*files)
        )
    assert failures == []
    assert lines == EXPECTED_LINES
    watching = [request for request in server.requests if request.path == "/watch"]
    assert [request.user for request in watching] == ["first"]
    users = [request.user for request in server.requests if request.path != "/watch"]
    assert set(users) == {"first"} | {f"user-{number}" for number in range(ROTATIONS)}
    # One pool for each certificate: nobody who came late went back to an old one.
    assert len(POOLS) == ROTATIONS + 1
    by_connection: dict[int, set[Any]] = {}
    for request in server.requests:
        by_connection.setdefault(request.connection, set()).add(request.user)
    assert all(len(who) == 1 for who in by_connection.values())


def test_half_written_pairs_under_load_k54(variant: ClientVariant, server: APIServer, tmp_path: Path) -> None:
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("first").write(*files)
    others = [server.authority.client("other") for _ in range(ROTATIONS)]
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    def rotate(number: int) -> None:
        # Always the one half, never the other.
        files[number % 2].write_bytes((others[number].certificate, others[number].key)[number % 2])

    with no_residue():
        failures, lines = under_load(variant, server, config, Clock(), rotate)
    assert failures == []
    assert lines == EXPECTED_LINES
    assert {request.user for request in server.requests} == {"first"}


def test_a_ca_replaced_under_load_k53(variant: ClientVariant, server: APIServer, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(server.authority.pem)
    extra = [Authority(f"extra {number}").pem for number in range(ROTATIONS)]
    config = server.config(token="alices-token", ca_data=None, ca_file=str(path))

    def rotate(number: int) -> None:
        new = tmp_path / "ca.new"
        new.write_bytes(extra[number] + server.authority.pem)
        new.replace(path)

    with no_residue():
        failures, lines = under_load(variant, server, config, Clock(), rotate)
    assert failures == []
    assert lines == EXPECTED_LINES
    assert len(POOLS) == ROTATIONS + 1


def test_a_token_file_replaced_under_load_k62(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("alices-token")
    server.tokens |= {f"token-{number}": f"user-{number}" for number in range(ROTATIONS)}

    def rotate(number: int) -> None:
        new = tmp_path / "token.new"
        new.write_text(f"token-{number}")
        new.replace(path)

    with no_residue():
        failures, lines = under_load(variant, server, server.config(token_file=str(path)), Clock(), rotate)
    assert failures == []
    assert lines == EXPECTED_LINES
    users = [request.user for request in server.requests]
    assert set(users) == {"alice"} | {f"user-{number}" for number in range(ROTATIONS)}
