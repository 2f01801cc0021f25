"""Event loops: nothing blocks them, and a cancelled task takes nothing with it."""

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
from kubeauth._transport import base as _state
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


def test_files_are_read_and_contexts_built_off_the_loop(
    async_variant: ClientVariant,
    server: APIServer,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kubeauth._credentials import files as _static
    from kubeauth._transport import tls as _tls

    where: dict[str, set[str]] = {}

    def noting(module: Any, name: str) -> None:
        original = getattr(module, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            where.setdefault(name, set()).add(threading.current_thread().name)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)

    for n in ("token", "ca.pem"):
        (tmp_path / n).write_bytes(server.authority.pem if n == "ca.pem" else b"alices-token")
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(
        ca_data=None, ca_file=str(tmp_path / "ca.pem"), token_file=str(tmp_path / "token"),
        client_cert_file=str(files[0]), client_key_file=str(files[1]),
    )  # fmt: skip

    async def main() -> None:
        async with async_variant.Client(config, clock=clock) as client:
            await client.get("/version")
            noting(_static, "read_token_file")
            noting(_static, "read_file")
            noting(_tls, "read_file")
            noting(_state, "build_cluster_context")
            server.authority.client("dave").write(*files)
            clock.advance(400.0)
            await client.get("/version")

    run(async_variant, main)
    assert [request.common_name for request in server.requests] == ["carol", "dave"]
    assert set(where) == {"read_token_file", "read_file", "build_cluster_context"}
    assert all("MainThread" not in names for names in where.values())


@pytest.mark.parametrize("tls_server_name", [None, "localhost"])
def test_an_application_that_uses_every_thread_does_not_hold_us_up(
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
    release, busy = threading.Event(), threading.Semaphore(0)

    def occupy() -> None:
        busy.release()
        release.wait()

    async def main() -> None:
        limiter = anyio.to_thread.current_default_thread_limiter()
        async with (
            async_variant.Client(config, clock=clock) as client,
            anyio.create_task_group() as group,
        ):
            for _ in range(int(limiter.total_tokens)):
                group.start_soon(anyio.to_thread.run_sync, occupy)
            for _ in range(int(limiter.total_tokens)):
                await anyio.to_thread.run_sync(busy.acquire, limiter=anyio.CapacityLimiter(1))
            server.authority.client("dave").write(*files)
            clock.advance(50.0)
            assert (await client.get("/version")).status_code == 200
            release.set()

    run(async_variant, main)


def test_a_slow_read_holds_up_one_and_not_the_others(
    async_variant: ClientVariant,
    server: APIServer,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token file on a hanging network disk: one request waits for it, and can be cancelled."""
    from kubeauth._credentials import files as _static

    path = tmp_path / "token"
    path.write_text("alices-token")
    hanging, release = threading.Event(), threading.Event()
    original = read_token_file

    def slow(path: str) -> Any:
        hanging.set()
        release.wait(60)
        return original(path)

    async def main() -> None:
        async with async_variant.Client(server.config(token_file=str(path)), clock=clock) as client:
            monkeypatch.setattr(_static, "read_token_file", slow)
            clock.advance(50.0)
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/one")
                await anyio.to_thread.run_sync(hanging.wait)
                for _ in range(10):
                    assert (await client.get("/version")).status_code == 200
                group.cancel_scope.cancel()
            release.set()
            assert (await client.get("/version")).status_code == 200

    run(async_variant, main)
    assert [request.path for request in server.requests] == ["/version"] * 11


def test_a_cancelled_request_gives_its_lease_back(
    async_variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    arrived, release = threading.Event(), threading.Event()

    def slow(_request: Any) -> Answer:
        arrived.set()
        release.wait(60)
        return Answer()

    server.on("GET", "/slow", slow)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    async def main() -> None:
        async with async_variant.Client(config, clock=clock) as client:
            ledger = client._transport._pools
            async with anyio.create_task_group() as group:
                group.start_soon(client.get, "/slow")
                await anyio.to_thread.run_sync(arrived.wait)
                old = ledger.current
                server.authority.client("dave").write(*files)
                clock.advance(1.0)
                await client.get("/version")
                assert ledger.current is not old
                assert not old._is_closed
                group.cancel_scope.cancel()
            assert old._is_closed
            release.set()

    run(async_variant, main)


def test_a_cancelled_task_closes_what_it_must_to_the_end(
    async_variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """Closing takes a moment, and the task that does it is cancelled: it is done all the same."""
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    watch = server.watch("/watch")
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    closed: list[object] = []

    class Inner(async_variant.PlainTransport):  # type: ignore[name-defined,misc]
        async def aclose(self) -> None:
            await anyio.sleep(0.01)
            await super().aclose()
            closed.append(self)

    async def main() -> None:
        async with async_variant.Client(
            config, clock=clock, transport_factory=lambda context, proxy: Inner(context, proxy=proxy)
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


@pytest.mark.parametrize("moment", ["in the body", "before it"])
def test_a_cancelled_stream_gives_its_lease_back(
    async_variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock, moment: str
) -> None:
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    watch = server.watch("/watch")
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    async def main() -> None:
        async with async_variant.Client(config, clock=clock) as client:
            ledger = client._transport._pools
            old = ledger.current
            with anyio.CancelScope() as scope:
                async with client.stream("GET", "/watch") as response:
                    server.authority.client("dave").write(*files)
                    clock.advance(1.0)
                    await client.get("/version")
                    assert not old._is_closed
                    scope.cancel()
                    if moment == "in the body":
                        async for _ in response.aiter_lines():
                            pytest.fail("cancelled")
                    await anyio.lowlevel.checkpoint()
            assert old._is_closed
            watch.end()

    run(async_variant, main)


def test_one_client_in_two_loops_one_after_the_other(async_variant: ClientVariant, server: APIServer) -> None:
    """Not promised, but asyncio.run twice is what scripts do; httpx allows it as long as nothing is kept open."""
    client = async_variant.Client(
        server.config(token="alices-token"), limits=async_variant.library.Limits(max_keepalive_connections=0)
    )

    async def main() -> int:
        response = await client.get("/version")
        return int(response.status_code)

    assert run(async_variant, main) == 200
    assert run(async_variant, main) == 200
