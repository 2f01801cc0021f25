"""Files that are replaced while 64 callers send requests and a stream is open: no request fails, nothing leaks."""

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


def recording_factory(variant: ClientVariant) -> Callable[..., Any]:
    """A transport factory that records in POOLS each transport it creates."""

    def factory(context: Any, proxy: Any) -> Any:
        POOLS.append(context)
        limits = variant.library.Limits(max_connections=None)
        return variant.PlainTransport(context, proxy=proxy, limits=limits)

    return factory


class Clock:
    """Advanced by one thread and read by all others, without a lock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


def run_under_load(
    variant: ClientVariant,
    server: APIServer,
    config: ClientConfig,
    clock: Clock,
    rotate: Callable[[int], None],
) -> tuple[list[BaseException], list[str]]:
    """Call `rotate` while callers send requests. Returns their failures, and the lines of the stream."""
    failures: list[BaseException] = []
    lines: list[str] = []
    POOLS.clear()
    watch = server.watch("/watch")
    done = threading.Event()

    def wait_for_requests(count: int) -> None:
        total = len(server.requests) + count
        while len(server.requests) < total and not failures:
            time.sleep(0.002)

    def rotate_files() -> None:
        try:
            watch.wait_for_watchers()
            wait_for_requests(CALLERS)
            for number in range(ROTATIONS):
                rotate(number)
                clock.now += 400.0
                watch.send({"n": number})
                wait_for_requests(2 * CALLERS)  # about two by each caller
        finally:
            watch.end()
            done.set()

    rotator = threading.Thread(target=rotate_files)
    if variant.is_async:
        anyio.run(_run_tasks, variant, config, clock, rotator, done, failures, lines, backend=variant.runtime)
    else:
        _run_threads(variant, config, clock, rotator, done, failures, lines)
    rotator.join()
    return failures, lines


def _run_threads(
    variant: ClientVariant,
    config: ClientConfig,
    clock: Clock,
    rotator: threading.Thread,
    done: threading.Event,
    failures: list[BaseException],
    lines: list[str],
) -> None:
    with variant.Client(config, clock=clock, transport_factory=recording_factory(variant)) as client:

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


async def _run_tasks(
    variant: ClientVariant,
    config: ClientConfig,
    clock: Clock,
    rotator: threading.Thread,
    done: threading.Event,
    failures: list[BaseException],
    lines: list[str],
) -> None:
    async with variant.Client(config, clock=clock, transport_factory=recording_factory(variant)) as client:

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
        failures, lines = run_under_load(
            variant, server, config, clock, lambda number: pairs[number].write(*files)
        )

    assert failures == []
    assert lines == EXPECTED_LINES
    watching = [request for request in server.requests if request.path == "/watch"]
    assert [request.user for request in watching] == ["first"]
    users = [request.user for request in server.requests if request.path != "/watch"]
    assert set(users) == {"first"} | {f"user-{number}" for number in range(ROTATIONS)}
    # One pool for each certificate: no delayed caller has created one for an old certificate.
    assert len(POOLS) == ROTATIONS + 1
    users_by_connection: dict[int, set[Any]] = {}
    for request in server.requests:
        users_by_connection.setdefault(request.connection, set()).add(request.user)
    assert all(len(users) == 1 for users in users_by_connection.values())


def test_half_written_pairs_under_load_k54(variant: ClientVariant, server: APIServer, tmp_path: Path) -> None:
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("first").write(*files)
    others = [server.authority.client("other") for _ in range(ROTATIONS)]
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    def rotate(number: int) -> None:
        # The certificate or the key, never both of one pair.
        files[number % 2].write_bytes((others[number].certificate, others[number].key)[number % 2])

    with no_residue():
        failures, lines = run_under_load(variant, server, config, Clock(), rotate)

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
        failures, lines = run_under_load(variant, server, config, Clock(), rotate)

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
        failures, lines = run_under_load(
            variant, server, server.config(token_file=str(path)), Clock(), rotate
        )

    assert failures == []
    assert lines == EXPECTED_LINES
    users = [request.user for request in server.requests]

    assert set(users) == {"alice"} | {f"user-{number}" for number in range(ROTATIONS)}
