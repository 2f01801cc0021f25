"""Clients that are closed, and callers that are cancelled, while a plugin runs."""

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
from tests.support.waiters import wait_for_waiters, wait_for_waiting_tasks

pytestmark = [
    pytest.mark.every_variant,
    pytest.mark.skipif(os.name != "posix", reason="these plugins are for POSIX"),
]

ASYNC = pytest.mark.parametrize(
    "variant", [ClientVariant(httpx, "asyncio"), ClientVariant(httpx2, "trio")], ids=str
)
HANGS = "signal.signal(signal.SIGTERM, signal.SIG_IGN); fork(); time.sleep(600)"
# No request is sent in these tests, so they need no variants with DirectTransport.
LIBRARY_VARIANTS = pytest.mark.parametrize("variant", VARIANTS, ids=str)


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
def pending_request(client: Driver) -> Iterator[Future[Any]]:
    """A request in progress."""
    if client._portal is not None:
        yield client._portal.start_task_soon(client.client.get, "/version")
    else:
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(client.client.get, "/version")


class TestClosing:
    @pytest.mark.slow
    @LIBRARY_VARIANTS
    def test_closing_the_last_client_stops_the_plugin(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(HANGS)
        config = plugin.config(http, timeout=600.0)
        with variant.client(config, clock=clock) as client:
            with pending_request(client) as pending:
                wait_until(lambda: len(plugin.processes) == 2)

                client.close()

                with pytest.raises(
                    errors.PluginFailed, match="the last client that used it was closed"
                ) as caught:
                    pending.result()
        assert caught.value.exit_code == -1

        # It does not count as a failure: there is no backoff.
        plugin.gives(token="alices-token")
        with variant.client(config, clock=clock) as client:
            assert client.get("/version").status_code == 200
        assert plugin.runs == 2

    def test_closing_does_not_stop_the_plugin_of_another_open_client(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.gives_after_release(token="alices-token")
        config = plugin.config(http)

        with variant.client(config, clock=clock) as other:
            source = other.client._kube_transport._source
            with variant.client(config, clock=clock) as client, pending_request(client) as pending:
                wait_until(lambda: plugin.runs == 1)

                client.close()

                assert is_alive(plugin.processes[0])

                with pending_request(other) as other_pending:
                    # Without an event loop, the request of the closed client runs the plugin itself.
                    wait_for_waiters(source, 2 if variant.is_async else 1)
                    plugin.release()
                    assert other_pending.result().status_code == 200
                # The closed client must not open a connection, which would never be closed.
                with pytest.raises(RuntimeError, match="closed while this request was in progress"):
                    pending.result()

        assert plugin.runs == 1
        assert len(http.requests) == 1

    def test_a_request_is_not_retried_after_its_client_was_closed(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        config = plugin.config(http)
        with variant.client(config, clock=clock) as other, variant.client(config, clock=clock) as client:
            assert other.get("/version").status_code == 200

            http.tokens = {"another-token": "alice"}
            plugin.gives_after_release(token="another-token")

            with pending_request(client) as pending:
                wait_until(lambda: plugin.runs == 2)

                client.close()
                plugin.release()

                with pytest.raises(RuntimeError, match="closed while this request was in progress"):
                    pending.result()
            assert other.get("/version").status_code == 200

        assert plugin.runs == 2
        assert [request.user for request in http.requests][-1] == "alice"
        assert len(http.requests) == 3

    def test_a_transport_used_after_close_keeps_its_run(
        self, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.gives_after_release(token="alices-token")
        config = plugin.config(http)
        other = kubeauth.KubeTransport(config, clock=clock)

        with kubeauth.KubeTransport(config, clock=clock) as transport, ThreadPoolExecutor(1) as pool:
            transport.close()
            pending = pool.submit(transport.handle_request, httpx.Request("GET", f"{http.url}/version"))
            wait_until(lambda: plugin.runs == 1)

            other.close()
            plugin.release()

            response = pending.result()
            assert response.status_code == 200

            response.close()

        assert plugin.runs == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("cancel_with", ["asyncio", "anyio", "trio"])
    def test_a_cancelled_aclose_closes_the_connections(
        self, cancel_with: str, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        # aclose() waits for it while it ignores SIGTERM.
        plugin.does(
            "signal.signal(signal.SIGTERM, lambda *_: note('.terminated', 1)); fork()\n"
            "while True: time.sleep(0.02)"
        )
        config = kubeauth.ClientConfig(server="https://cluster.test", exec=plugin.exec(timeout=600.0))
        closed: list[object] = []

        class RecordingTransport(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                return httpx.Response(200, request=request)

            async def aclose(self) -> None:
                await anyio.sleep(0.01)
                closed.append(self)

        async def request(transport: httpx.AsyncBaseTransport) -> None:
            with suppress(errors.PluginFailed):
                await transport.handle_async_request(httpx.Request("GET", "https://cluster.test"))

        async def until_terminated() -> None:
            await to_thread.run_sync(wait_until, Path(f"{plugin.path}.terminated").exists)

        async def main() -> None:
            transport = kubeauth.AsyncKubeTransport(
                config, transport_factory=lambda *_: RecordingTransport(), clock=clock
            )
            await transport.handle_async_request(httpx.Request("GET", "https://other.test"))
            async with anyio.create_task_group() as group:
                group.start_soon(request, transport)
                await to_thread.run_sync(wait_until, lambda: len(plugin.processes) == 2)
                if cancel_with == "asyncio":  # Task.cancel() ignores the shields of anyio
                    closing = asyncio.create_task(transport.aclose())
                    await until_terminated()
                    closing.cancel()
                    with suppress(asyncio.CancelledError):
                        await closing
                else:
                    async with anyio.create_task_group() as closing_group:
                        closing_group.start_soon(transport.aclose)
                        await until_terminated()
                        closing_group.cancel_scope.cancel()

        anyio.run(main, backend="trio" if cancel_with == "trio" else "asyncio")

        assert len(closed) == 2

    @LIBRARY_VARIANTS
    def test_closing_stops_a_run_that_has_just_started(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        """There may be no process yet that could be terminated."""
        plugin.does(HANGS)
        for number in range(8):
            config = plugin.config(http, timeout=600.0, args=(str(number),))
            with variant.client(config, clock=clock) as client, pending_request(client) as pending:
                source = client.client._kube_transport._source
                wait_until(lambda s=source: s._call is not None)  # type: ignore[misc]

                client.close()

                with pytest.raises(errors.PluginFailed, match="was closed"):
                    pending.result()

    @LIBRARY_VARIANTS
    def test_a_new_client_gets_a_credential_while_the_last_one_is_closed(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.gives_after_release(token="alices-token")
        config = plugin.config(http, timeout=600.0)
        with variant.client(config, clock=clock) as client, pending_request(client) as pending:
            wait_until(lambda: plugin.runs == 1)
            closing = threading.Thread(target=client.close)
            closing.start()
            # It joins the run if it comes before the other client was closed, and starts its own if after.
            with variant.client(config, clock=clock) as other, pending_request(other) as other_pending:
                closing.join()
                plugin.release()
                assert other_pending.result().status_code == 200
                with pytest.raises((RuntimeError, errors.PluginFailed), match="closed"):
                    pending.result()


@ASYNC
class TestCancellation:
    def request_three_times(
        self, client: Driver, plugin: Misbehaving, *, cancel: list[int], then: Callable[[], None]
    ) -> list[Any]:
        """Three callers, of which the first runs the plugin. Those in `cancel` are cancelled while it runs."""
        results: list[Any] = [None, None, None]
        scopes: list[anyio.CancelScope] = []
        source = client.client._kube_transport._source

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
                    await wait_for_waiting_tasks(source, number + 1)
                await to_thread.run_sync(wait_until, lambda: plugin.runs == 1)
                for number in cancel:
                    scopes[number].cancel()
                await wait_for_waiting_tasks(source, 3 - len(cancel))
                then()

        assert client._portal is not None
        client._portal.call(main)
        return [getattr(result, "status_code", result) for result in results]

    @pytest.mark.parametrize(
        ("cancel", "expected"),
        [
            ([0], [None, 200, 200]),
            ([1], [200, None, 200]),
            ([1, 2], [200, None, None]),
            ([0, 1], [None, None, 200]),
            ([0, 1, 2], [None, None, None]),
        ],
        ids=str,
    )
    def test_a_cancelled_caller_does_not_cancel_the_others(
        self,
        cancel: list[int],
        expected: list[Any],
        variant: ClientVariant,
        http: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
    ) -> None:
        plugin.gives_after_release(token="alices-token")
        with variant.client(plugin.config(http), clock=clock) as client:
            assert self.request_three_times(client, plugin, cancel=cancel, then=plugin.release) == expected
            assert client.get("/version").status_code == 200
        assert plugin.runs == 1

    def test_the_other_callers_get_the_error_of_a_failed_run(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.fails_after_release("no session")
        with variant.client(plugin.config(http), clock=clock) as client:
            results = self.request_three_times(client, plugin, cancel=[0], then=plugin.release)
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
    def test_closing_the_client_stops_a_run_whose_callers_were_all_cancelled(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.does(HANGS)
        with variant.client(plugin.config(http, timeout=600.0), clock=clock) as client:
            results = self.request_three_times(client, plugin, cancel=[0, 1, 2], then=lambda: None)
            assert results == [None, None, None]
            assert any(map(is_alive, plugin.processes))

    def test_a_thread_gets_the_result_of_a_cancelled_tasks_run(
        self, variant: ClientVariant, http: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.gives_after_release(token="alices-token")
        config = plugin.config(http)
        with (
            variant.client(config, clock=clock) as client,
            ClientVariant(httpx, "sync").client(config, clock=clock) as other,
        ):
            with pending_request(client) as pending:
                wait_until(lambda: plugin.runs == 1)
                with pending_request(other) as other_pending:
                    source = other.client._kube_transport._source
                    wait_for_waiters(source, 2)

                    pending.cancel()
                    wait_for_waiters(source, 1)
                    plugin.release()

                    assert other_pending.result().status_code == 200
        assert plugin.runs == 1
