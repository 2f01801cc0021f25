"""Event loops: they are not blocked, and cancelled tasks release their leases and close their transports."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest

from kubeauth._config.files import read_token_file
from kubeauth._transport import base
from kubeauth.testing import Answer, APIServer, FakeClock
from tests.support.clients import DIRECT, ClientVariant

pytestmark = pytest.mark.every_variant

ASYNC = [ClientVariant(library, runtime) for library in (httpx, httpx2) for runtime in ("asyncio", "trio")]
ASYNC += [variant for variant in DIRECT if variant.is_async]


def run(variant: ClientVariant, main: Any) -> Any:
    return anyio.run(main, backend=variant.runtime)


@pytest.fixture(params=ASYNC, ids=str)
def async_variant(request: pytest.FixtureRequest) -> ClientVariant:
    found: ClientVariant = request.param
    return found


def test_files_are_read_and_ssl_contexts_built_in_worker_threads(
    async_variant: ClientVariant,
    server: APIServer,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kubeauth._credentials import files as credential_files
    from kubeauth._transport import tls

    threads: dict[str, set[str]] = {}

    def record_threads(module: Any, name: str) -> None:
        original = getattr(module, name)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, recorded)

    (tmp_path / "token").write_bytes(b"alices-token")
    (tmp_path / "ca.pem").write_bytes(server.authority.pem)
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(
        ca_data=None, ca_file=str(tmp_path / "ca.pem"), token_file=str(tmp_path / "token"),
        client_cert_file=str(files[0]), client_key_file=str(files[1]),
    )  # fmt: skip

    async def main() -> None:
        async with async_variant.Client(config, clock=clock) as client:
            await client.get("/version")
            record_threads(credential_files, "read_token_file")
            record_threads(credential_files, "read_file")
            record_threads(tls, "read_file")
            record_threads(base, "build_cluster_context")
            server.authority.client("dave").write(*files)
            clock.advance(400.0)

            await client.get("/version")

    run(async_variant, main)

    assert [request.common_name for request in server.requests] == ["carol", "dave"]
    assert set(threads) == {"read_token_file", "read_file", "build_cluster_context"}
    assert all("MainThread" not in names for names in threads.values())


@pytest.mark.parametrize("tls_server_name", [None, "localhost"])
def test_requests_succeed_while_the_application_uses_every_worker_thread(
    async_variant: ClientVariant,
    server: APIServer,
    tmp_path: Path,
    clock: FakeClock,
    tls_server_name: str | None,
) -> None:
    path = tmp_path / "token"
    path.write_text("alices-token")
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(
        token_file=str(path),
        client_cert_file=str(files[0]),
        client_key_file=str(files[1]),
        tls_server_name=tls_server_name,
    )
    release, occupied = threading.Event(), threading.Semaphore(0)

    def occupy_thread() -> None:
        occupied.release()
        release.wait()

    async def main() -> None:
        limiter = anyio.to_thread.current_default_thread_limiter()
        async with (
            async_variant.Client(config, clock=clock) as client,
            anyio.create_task_group() as group,
        ):
            for _ in range(int(limiter.total_tokens)):
                group.start_soon(anyio.to_thread.run_sync, occupy_thread)
            for _ in range(int(limiter.total_tokens)):
                await anyio.to_thread.run_sync(occupied.acquire, limiter=anyio.CapacityLimiter(1))
            server.authority.client("dave").write(*files)
            clock.advance(50.0)

            assert (await client.get("/version")).status_code == 200
            release.set()

    run(async_variant, main)


def test_a_slow_token_file_blocks_only_the_request_that_reads_it(
    async_variant: ClientVariant,
    server: APIServer,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a network disk that hangs: one request waits for the file, and can be cancelled."""
    from kubeauth._credentials import files as credential_files

    path = tmp_path / "token"
    path.write_text("alices-token")
    reading, release = threading.Event(), threading.Event()

    def read_slowly(path: str) -> Any:
        reading.set()
        release.wait(60)
        return read_token_file(path)

    async def main() -> None:
        async with async_variant.Client(server.config(token_file=str(path)), clock=clock) as client:
            monkeypatch.setattr(credential_files, "read_token_file", read_slowly)
            clock.advance(50.0)
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/one")
                await anyio.to_thread.run_sync(reading.wait)
                for _ in range(10):
                    assert (await client.get("/version")).status_code == 200
                group.cancel_scope.cancel()
            release.set()
            assert (await client.get("/version")).status_code == 200

    run(async_variant, main)

    assert [request.path for request in server.requests] == ["/version"] * 11


def test_a_cancelled_request_releases_its_lease(
    async_variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    arrived, release = threading.Event(), threading.Event()

    def respond_slowly(_request: Any) -> Answer:
        arrived.set()
        release.wait(60)
        return Answer()

    server.on("GET", "/slow", respond_slowly)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    async def main() -> None:
        async with async_variant.Client(config, clock=clock) as client:
            pools = client._transport._pools
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/slow")
                await anyio.to_thread.run_sync(arrived.wait)
                old = pools.current
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                await client.get("/version")
                assert pools.current is not old
                assert not old._is_closed

                group.cancel_scope.cancel()

            assert old._is_closed
            release.set()

    run(async_variant, main)


def test_a_cancelled_task_closes_the_retired_transport_completely(
    async_variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """Closing has a checkpoint, where the cancellation of the task must not interrupt it."""
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    watch = server.watch("/watch")
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    closed: list[object] = []

    class RecordingTransport(async_variant.PlainTransport):  # type: ignore[name-defined,misc]
        async def aclose(self) -> None:
            await anyio.lowlevel.checkpoint()
            await super().aclose()
            closed.append(self)

    async def main() -> None:
        async with async_variant.Client(
            config,
            clock=clock,
            transport_factory=lambda context, proxy: RecordingTransport(context, proxy=proxy),
        ) as client:
            old = client._transport._pools.current.transport
            with anyio.CancelScope() as scope:
                async with client.stream("GET", "/watch"):
                    server.authority.client("dave").write(*files)
                    clock.advance(1.0)
                    await client.get("/version")
                    assert closed == []

                    scope.cancel()
                    await anyio.lowlevel.checkpoint()

            assert closed == [old]
            watch.end()

    run(async_variant, main)


@pytest.mark.parametrize("moment", ["while reading the body", "before reading the body"])
def test_a_cancelled_stream_releases_its_lease(
    async_variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock, moment: str
) -> None:
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    watch = server.watch("/watch")
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    async def main() -> None:
        async with async_variant.Client(config, clock=clock) as client:
            old = client._transport._pools.current
            with anyio.CancelScope() as scope:
                async with client.stream("GET", "/watch") as response:
                    server.authority.client("dave").write(*files)
                    clock.advance(1.0)
                    await client.get("/version")
                    assert not old._is_closed

                    scope.cancel()
                    if moment == "while reading the body":
                        async for _ in response.aiter_lines():
                            pytest.fail("a line was read after the cancellation")
                    await anyio.lowlevel.checkpoint()

            assert old._is_closed
            watch.end()

    run(async_variant, main)


def test_one_client_works_in_two_consecutive_event_loops(
    async_variant: ClientVariant, server: APIServer
) -> None:
    """Not documented, but scripts call asyncio.run twice; httpx allows it without keep-alive connections."""
    client = async_variant.Client(
        server.config(token="alices-token"), limits=async_variant.library.Limits(max_keepalive_connections=0)
    )

    async def main() -> int:
        response = await client.get("/version")
        return int(response.status_code)

    assert run(async_variant, main) == 200
    assert run(async_variant, main) == 200
