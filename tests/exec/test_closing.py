"""Who leaves while a plugin runs: the last client that needs it, or callers who do not want to wait."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from anyio import to_thread

import kubeauth
from kubeauth import errors
from kubeauth.testing import APIServer, FakeClock
from tests.support.clients import VARIANTS, ClientVariant, Driver
from tests.support.misbehaving import Misbehaving
from tests.support.residue import is_alive, no_residue, wait_until

pytestmark = [
    pytest.mark.every_variant,
    pytest.mark.skipif(os.name != "posix", reason="these plugins are for POSIX"),
]

ASYNC = pytest.mark.parametrize(
    "variant", [ClientVariant(httpx, "asyncio"), ClientVariant(httpx2, "trio")], ids=str
)
HANGS = "signal.signal(signal.SIGTERM, signal.SIG_IGN); fork(); time.sleep(600)"
WAITS = "while not os.path.exists(here + '.go'): time.sleep(0.01)\n"


# The plugin is left before there is anything to send, whatever it would be sent by.
BEFORE_IT_IS_SENT = pytest.mark.parametrize("variant", VARIANTS, ids=str)


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Misbehaving]:
    plugin = Misbehaving(tmp_path)
    with no_residue():
        yield plugin
    wait_until(lambda: not any(map(is_alive, plugin.processes)))


@pytest.fixture
def http() -> Iterator[APIServer]:
    with APIServer(tls=False, tokens={"alices-token": "alice"}) as server:
        yield server


@contextmanager
def asking(client: Driver) -> Iterator[Future[Any]]:
    """A request that is under way."""
    if client._portal is not None:
        yield client._portal.start_task_soon(client.client.get, "/version")
    else:
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(client.client.get, "/version")


def go(plugin: Misbehaving) -> None:
    Path(f"{plugin.path}.go").touch()


class TestClosing:
    @pytest.mark.slow
    @BEFORE_IT_IS_SENT
    def test_the_last_client_ends_the_run(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(HANGS)
        config = plugin.config(http, timeout=600.0)
        with variant.client(config, clock=clock) as client:
            with asking(client) as asked:
                wait_until(lambda: len(plugin.processes) == 2)
                client.close()
                with pytest.raises(
                    errors.PluginFailed, match="the last client that used it was closed"
                ) as caught:
                    asked.result()
        assert caught.value.exit_code == -1
        # That was nobody's fault: the next one need not wait.
        plugin.gives(token="alices-token")
        with variant.client(config, clock=clock) as client:
            assert client.get("/version").status_code == 200
        assert plugin.runs == 2

    def test_another_client_that_is_configured_alike_keeps_it_alive(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(f"{WAITS}give(token='alices-token')")
        config = plugin.config(http)
        with variant.client(config, clock=clock) as other:
            with variant.client(config, clock=clock) as client, asking(client) as asked:
                wait_until(lambda: plugin.runs == 1)
                client.close()
                assert is_alive(plugin.processes[0])
                with asking(other) as waits:
                    go(plugin)
                    assert waits.result().status_code == 200
                # Who asked has closed its client meanwhile: it gets no connections that nobody would close.
                with pytest.raises(RuntimeError, match="closed while this request was in progress"):
                    asked.result()
        assert plugin.runs == 1
        assert len(http.requests) == 1

    def test_a_request_that_is_to_be_repeated_after_its_client_was_closed(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        config = plugin.config(http)
        with variant.client(config, clock=clock) as other, variant.client(config, clock=clock) as client:
            assert other.get("/version").status_code == 200
            http.tokens = {"another-token": "alice"}
            plugin.does(f"{WAITS}give(token='another-token')")
            with asking(client) as asked:
                wait_until(lambda: plugin.runs == 2)
                client.close()
                go(plugin)
                with pytest.raises(RuntimeError, match="closed while this request was in progress"):
                    asked.result()
            assert other.get("/version").status_code == 200
        assert plugin.runs == 2
        assert [request.user for request in http.requests][-1] == "alice"
        assert len(http.requests) == 3

    def test_a_transport_that_is_used_again_after_it_was_closed_needs_its_run(
        self, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(f"{WAITS}give(token='alices-token')")
        config = plugin.config(http)
        other = kubeauth.KubeTransport(config, clock=clock)
        with kubeauth.KubeTransport(config, clock=clock) as transport, ThreadPoolExecutor(1) as pool:
            transport.close()
            asked = pool.submit(transport.handle_request, httpx.Request("GET", f"{http.url}/version"))
            wait_until(lambda: plugin.runs == 1)
            other.close()
            go(plugin)
            response = asked.result()
            assert response.status_code == 200
            response.close()
        assert plugin.runs == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("how", ["asyncio", "anyio", "trio"])
    def test_cancelling_it_closes_the_connections_all_the_same(
        self, how: str, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(HANGS)
        config = kubeauth.ClientConfig(server="https://cluster.test", exec=plugin.exec(timeout=600.0))
        closed: list[object] = []

        class Inner(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                return httpx.Response(200, request=request)

            async def aclose(self) -> None:
                await anyio.sleep(0.01)
                closed.append(self)

        async def main() -> None:
            transport = kubeauth.AsyncKubeTransport(config, transport_factory=lambda *_: Inner(), clock=clock)
            await transport.handle_async_request(httpx.Request("GET", "https://elsewhere.test"))
            async with anyio.create_task_group() as group:

                async def ask() -> None:
                    with suppress(errors.PluginFailed):
                        await transport.handle_async_request(httpx.Request("GET", "https://cluster.test"))

                group.start_soon(ask)
                await to_thread.run_sync(wait_until, lambda: len(plugin.processes) == 2)
                if how == "asyncio":  # its own cancelling knows of no shield
                    with suppress(TimeoutError):
                        await asyncio.wait_for(transport.aclose(), 0.1)
                else:
                    with anyio.move_on_after(0.1):
                        await transport.aclose()

        anyio.run(main, backend="trio" if how == "trio" else "asyncio")
        assert len(closed) == 2

    @BEFORE_IT_IS_SENT
    def test_a_run_that_is_only_just_beginning(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        """There may be no program yet that could be ended."""
        plugin.does(HANGS)
        for number in range(8):
            config = plugin.config(http, timeout=600.0, args=(str(number),))
            with variant.client(config, clock=clock) as client, asking(client) as asked:
                source = client.client._kube_transport._source
                wait_until(lambda s=source: s._call is not None)  # type: ignore[misc]
                client.close()
                with pytest.raises(errors.PluginFailed, match="was closed"):
                    asked.result()

    @BEFORE_IT_IS_SENT
    def test_who_comes_back_in_time_gets_a_run_of_their_own(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(f"{WAITS}give(token='alices-token')")
        config = plugin.config(http, timeout=600.0)
        with variant.client(config, clock=clock) as client, asking(client) as asked:
            wait_until(lambda: plugin.runs == 1)
            closing = threading.Thread(target=client.close)
            closing.start()
            # Whether it comes before the other has left and shares its run, or gets one of its own: it does
            # not suffer for the one who left.
            with variant.client(config, clock=clock) as other, asking(other) as waits:
                closing.join()
                go(plugin)
                assert waits.result().status_code == 200
                with pytest.raises((RuntimeError, errors.PluginFailed), match="closed"):
                    asked.result()


@ASYNC
class TestCancelling:
    def in_a_loop(
        self, client: Driver, plugin: Misbehaving, *, cancel: list[int], then: Callable[[], None]
    ) -> list[Any]:
        """Three callers, of which the first runs the plugin; some are cancelled while it runs."""
        results: list[Any] = [None, None, None]
        scopes: list[anyio.CancelScope] = []

        async def call(number: int) -> None:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                try:
                    results[number] = await client.client.get("/version")
                except Exception as error:
                    results[number] = error

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(call, number)
                    await to_thread.run_sync(wait_until, lambda: plugin.runs == 1)
                await anyio.sleep(0.05)
                for number in cancel:
                    scopes[number].cancel()
                await anyio.sleep(0.05)
                then()

        assert client._portal is not None
        client._portal.call(main)
        return [getattr(result, "status_code", result) for result in results]

    @pytest.mark.parametrize(
        ("cancel", "left"),
        [
            ([0], [None, 200, 200]),
            ([1], [200, None, 200]),
            ([1, 2], [200, None, None]),
            ([0, 1], [None, None, 200]),
            ([0, 1, 2], [None, None, None]),
        ],
        ids=str,
    )
    def test_nobody_else_notices(
        self,
        cancel: list[int],
        left: list[Any],
        variant: ClientVariant,
        http: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
    ) -> None:
        plugin.does(f"{WAITS}give(token='alices-token')")
        with variant.client(plugin.config(http), clock=clock) as client:
            assert self.in_a_loop(client, plugin, cancel=cancel, then=lambda: go(plugin)) == left
            assert client.get("/version").status_code == 200
        assert plugin.runs == 1

    def test_a_run_that_then_fails(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(f"{WAITS}sys.exit('no session')")
        with variant.client(plugin.config(http), clock=clock) as client:
            results = self.in_a_loop(client, plugin, cancel=[0], then=lambda: go(plugin))
            assert results[0] is None
            assert [type(each) for each in results[1:]] == [errors.PluginFailed] * 2
            assert results[1] is not results[2]
            with pytest.raises(errors.PluginFailed, match="no session"):
                client.get("/version")
            assert plugin.runs == 1
            plugin.gives(token="alices-token")
            clock.advance(1.3)
            assert client.get("/version").status_code == 200

    @pytest.mark.slow
    def test_all_of_them_and_then_the_client_is_closed(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(HANGS)
        with variant.client(plugin.config(http, timeout=600.0), clock=clock) as client:
            wanted = self.in_a_loop(client, plugin, cancel=[0, 1, 2], then=lambda: None)
            assert wanted == [None, None, None]
            assert any(map(is_alive, plugin.processes))

    def test_a_thread_that_waits_for_the_run_of_a_cancelled_task(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(f"{WAITS}give(token='alices-token')")
        config = plugin.config(http)
        with (
            variant.client(config, clock=clock) as client,
            ClientVariant(httpx, "sync").client(config, clock=clock) as other,
        ):
            with asking(client) as asked:
                wait_until(lambda: plugin.runs == 1)
                with asking(other) as waits:
                    asked.cancel()
                    wait_until(asked.done)
                    go(plugin)
                    assert waits.result().status_code == 200
        assert plugin.runs == 1
