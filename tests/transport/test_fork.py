"""A client created before a fork works in the child, and still works in the parent."""

from __future__ import annotations

import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx
import httpx2
import pytest

import kubeauth
import kubeauth.httpx2
import kubeauth.transports
from kubeauth import Secret
from kubeauth._runtime import no_fork
from kubeauth.testing import Answer, APIServer, FakeClock
from tests.support.clients import ClientVariant
from tests.support.idle_threads import wait_for_idle_threads
from tests.support.misbehaving import Misbehaving
from tests.support.residue import wait_until

SYNC = [ClientVariant(httpx, "sync"), ClientVariant(httpx2, "sync"), ClientVariant(httpx, "sync", True)]
ASYNC = [
    ClientVariant(httpx, "asyncio"),
    ClientVariant(httpx2, "trio"),
    ClientVariant(httpx2, "asyncio", True),
    ClientVariant(httpx, "trio", True),
]
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="requires os.fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def run_in_child(function: Callable[[], None], *, wait_for_threads: bool = True) -> int:
    """Call `function` in a forked child, and return its exit status: 0 unless it raised.

    `wait_for_threads`: fork when all other threads are blocked. The threads of the server are in this process too,
    and a lock of OpenSSL that one of them holds at the fork would never be released in the child.
    """
    if wait_for_threads:
        wait_for_idle_threads()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that hangs must not outlive the test
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_a_client_created_before_a_fork_works_in_the_child(variant: ClientVariant, server: APIServer) -> None:
    config = server.config(token="alices-token", identity=server.authority.client("carol"))
    with variant.client(config) as client:
        assert client.get("/version").status_code == 200

        def send_requests() -> None:
            for _ in range(3):
                assert client.get("/version").status_code == 200

        assert run_in_child(send_requests) == 0
        assert client.get("/version").status_code == 200

    # The child opened its own connection, and that of the parent is still open.
    assert [request.connection for request in server.requests] == [1, 2, 2, 2, 1]
    assert {(request.user, request.common_name) for request in server.requests} == {("alice", "carol")}


@pytest.mark.parametrize("variant", ASYNC, ids=str)
@pytest.mark.parametrize("was_used", [False, True])
def test_an_async_client_works_in_a_new_event_loop_of_the_child(
    was_used: bool, variant: ClientVariant, server: APIServer
) -> None:
    config = server.config(token="alices-token", identity=server.authority.client("carol"))
    with variant.client(config) as client:
        if was_used:
            assert client.get("/version").status_code == 200

        async def send_requests() -> None:
            for _ in range(3):
                assert (await client.client.get("/version")).status_code == 200
            await client.client.aclose()

        assert run_in_child(lambda: anyio.run(send_requests, backend=variant.runtime)) == 0
        assert client.get("/version").status_code == 200

    # The child opened its own connection, and that of the parent, if there was one, is still open.
    connections = [request.connection for request in server.requests]
    assert connections == ([1, 2, 2, 2, 1] if was_used else [1, 1, 1, 2])


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_a_child_forked_during_a_plugin_run_runs_the_plugin_itself(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    """It does not wait for the run of its parent, whose result only the parent receives."""
    plugin = Misbehaving(tmp_path)
    plugin.does(
        "if len(open(here + '.runs').readlines()) == 1:\n"
        "    while not os.path.exists(here + '.go'): time.sleep(0.01)\n"
        "give(token='alices-token')"
    )
    statuses: list[int] = []

    with variant.client(plugin.config(server, timeout=None)) as client:
        thread = threading.Thread(target=lambda: statuses.append(client.get("/version").status_code))
        thread.start()
        wait_until(lambda: plugin.runs == 1)

        exit_status = run_in_child(lambda: client.get("/version").raise_for_status(), wait_for_threads=False)

        assert exit_status == 0
        assert (statuses, plugin.runs) == ([], 2)
        Path(f"{plugin.path}.go").touch()
        thread.join()
        assert client.get("/version").status_code == 200

    assert (statuses, plugin.runs) == ([200], 2)


@pytest.mark.slow
@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_children_forked_under_load_can_send_requests(variant: ClientVariant) -> None:
    """Other threads send requests at the time of the fork, so any lock of kubeauth may be held.

    Without TLS, because locks of OpenSSL that are held at the fork cannot be released in the child.
    """
    stop = threading.Event()
    errors: list[BaseException] = []
    with (
        APIServer(tls=False, tokens={"t": "alice"}) as server,
        variant.client(server.config(token="t")) as client,
    ):

        def send_requests() -> None:
            while not stop.is_set():
                try:
                    assert client.get("/version").status_code == 200
                except BaseException as error:
                    errors.append(error)

        threads = [threading.Thread(target=send_requests) for _ in range(4)]
        for thread in threads:
            thread.start()

        try:
            exit_statuses = [
                run_in_child(lambda: client.get("/version").raise_for_status(), wait_for_threads=False)
                for _ in range(10)
            ]
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    assert exit_statuses == [0] * 10
    assert errors == []


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_an_open_stream_of_the_parent_is_not_affected(variant: ClientVariant, server: APIServer) -> None:
    watch = server.watch("/watch")
    with (
        variant.client(server.config(token="alices-token")) as client,
        client.stream("GET", "/watch") as stream,
    ):
        watch.wait_for_watchers()

        def send_request_and_close() -> None:
            client.get("/version").raise_for_status()
            client.close()

        assert run_in_child(send_request_and_close) == 0
        watch.send({"n": 1})
        watch.end()
        assert stream.rest() == ['{"n": 1}']


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_requests_to_another_origin_use_a_new_connection_in_the_child(
    variant: ClientVariant, server: APIServer
) -> None:
    with APIServer(tls=False) as other, variant.client(server.config(token="alices-token")) as client:
        client.get(f"{other.url}/version")
        assert run_in_child(lambda: client.get(f"{other.url}/version").raise_for_status()) == 0
        client.get(f"{other.url}/version")

    assert [request.connection for request in other.requests] == [1, 2, 1]


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_files_are_reloaded_in_the_child(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "token"
    path.write_text("alices-token")
    server.tokens["new-token"] = "new"

    with variant.client(server.config(token_file=str(path)), clock=clock) as client:
        client.get("/version")
        # A lock that is held at the fork is never released by its owner in the child.
        client.client._kube_transport._source._reload_lock.acquire()

        def change_token() -> None:
            path.write_text("new-token")
            clock.advance(50.0)
            client.get("/version").raise_for_status()

        assert run_in_child(change_token) == 0

    assert [request.user for request in server.requests] == ["alice", "new"]


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_a_child_can_close_an_inherited_client(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """Unused, and with a stream on a retired pool."""
    watch = server.watch("/watch")
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    with variant.client(config, clock=clock) as client:
        assert run_in_child(client.close) == 0
        with client.stream("GET", "/watch") as stream:
            watch.wait_for_watchers()
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            client.get("/version")

            def close_all() -> None:
                stream.response.close()
                client.close()
                client.close()

            assert run_in_child(close_all) == 0
            watch.send({"n": 1})
            watch.end()
            assert stream.rest() == ['{"n": 1}']


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_locks_held_at_the_fork_are_free_in_the_child(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    watch = server.watch("/watch")
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))

    with variant.client(config, clock=clock) as client:
        transport = client.client._transport
        with client.stream("GET", "/watch"):
            watch.wait_for_watchers()
            retired = transport._pools.current
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            client.get("/version")

            def rotate_and_close() -> None:
                assert not retired.is_open
                client.get("/version").raise_for_status()
                server.authority.client("erin").write(*files)
                clock.advance(1.0)
                client.get("/version").raise_for_status()
                client.close()

            locks = [
                transport._pool_lock,
                transport._pools._lock,
                transport._pools.current._lock,
                retired._lock,
                transport._source._reload_lock,
            ]
            for lock in locks:
                lock.acquire()
            try:
                assert run_in_child(rotate_and_close) == 0
            finally:
                for lock in locks:
                    lock.release()
            watch.end()

    assert [request.user for request in server.requests] == ["carol", "dave", "dave", "erin"]


def test_a_deleted_client_is_not_registered_for_forks() -> None:
    from kubeauth._runtime import _registered

    before = set(_registered)  # strong references: clients of other tests cannot disappear meanwhile
    client = kubeauth.Client(kubeauth.ClientConfig(server="https://h", token=Secret("t")))
    assert set(_registered) > before
    del client
    gc.collect()

    assert set(_registered) == before


def test_a_fork_waits_for_a_running_import() -> None:
    """Otherwise the child would wait forever for a module that a thread of its parent was importing."""
    importing, forking = threading.Event(), threading.Event()
    is_imported = False
    forking_thread = threading.get_native_id()

    def import_module() -> None:
        nonlocal is_imported
        with no_fork:
            importing.set()
            assert forking.wait(60)
            wait_for_idle_threads(forking_thread)
            is_imported = True

    def check_child() -> None:
        assert is_imported
        assert no_fork.acquire(blocking=False)

    thread = threading.Thread(target=import_module)
    thread.start()
    assert importing.wait(60)
    forking.set()

    exit_status = run_in_child(check_child, wait_for_threads=False)
    thread.join()

    assert exit_status == 0


def test_a_direct_transport_without_kube_transport_works_in_the_child(server: APIServer) -> None:
    """KubeTransport would replace it. One response was read partially, another one not at all."""
    config = server.config(token="alices-token")
    server.on("GET", "/long", Answer(body=b"kubernetes" * 50_000))
    transport = kubeauth.transports.DirectTransport(kubeauth.ssl_context(config))
    headers = {"Authorization": "Bearer alices-token"}

    with httpx.Client(transport=transport, base_url=server.url, headers=headers, timeout=60.0) as client:
        client.get("/version")
        with client.stream("GET", "/long") as open_response:
            parts = open_response.iter_raw()
            first = next(parts)

            def send_request_and_close() -> None:
                assert client.get("/version").status_code == 200
                open_response.close()
                client.close()

            assert run_in_child(send_request_and_close) == 0
            assert first + b"".join(parts) == b"kubernetes" * 50_000
        client.get("/version")

    assert [request.connection for request in server.requests] == [1, 1, 2, 1]
