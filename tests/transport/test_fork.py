"""A client made before a fork works in the child, and the parent's goes on."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
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
from tests.support.misbehaving import Misbehaving

SYNC = [ClientVariant(httpx, "sync"), ClientVariant(httpx2, "sync"), ClientVariant(httpx, "sync", True)]
ASYNC = [
    ClientVariant(httpx, "asyncio"),
    ClientVariant(httpx2, "trio"),
    ClientVariant(httpx2, "asyncio", True),
    ClientVariant(httpx, "trio", True),
]
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def in_a_child(work: Callable[[], None]) -> int:
    """Runs `work` in a forked child; its exit status, 0 if it went well."""
    # The server's threads are in this process too. A thread that is inside OpenSSL at the fork takes a lock
    # of OpenSSL's with it that nobody in the child can open, so they get a moment to finish.
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that hangs must not outlive the test
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_a_client_made_before_a_fork_works_in_the_child(variant: ClientVariant, server: APIServer) -> None:
    config = server.config(token="alices-token", identity=server.authority.client("carol"))
    with variant.client(config) as client:
        assert client.get("/version").status_code == 200

        def ask() -> None:
            for _ in range(3):
                assert client.get("/version").status_code == 200

        assert in_a_child(ask) == 0
        assert client.get("/version").status_code == 200
    # The child opened a connection of its own; the parent's was still good afterwards.
    assert [request.connection for request in server.requests] == [1, 2, 2, 2, 1]
    assert {(request.user, request.common_name) for request in server.requests} == {("alice", "carol")}


@pytest.mark.parametrize("variant", ASYNC, ids=str)
@pytest.mark.parametrize("was_used", [False, True])
def test_an_async_client_works_in_an_event_loop_of_the_childs_own(
    was_used: bool, variant: ClientVariant, server: APIServer
) -> None:
    """Whether its parent has used it before, or has only made it."""
    config = server.config(token="alices-token", identity=server.authority.client("carol"))
    with variant.client(config) as client:
        if was_used:
            assert client.get("/version").status_code == 200

        async def ask() -> None:
            for _ in range(3):
                assert (await client.client.get("/version")).status_code == 200
            await client.client.aclose()

        assert in_a_child(lambda: anyio.run(ask, backend=variant.runtime)) == 0
        assert client.get("/version").status_code == 200
    # The child opened a connection of its own; the parent's, if there was one, is still good.
    connections = [request.connection for request in server.requests]
    assert connections == ([1, 2, 2, 2, 1] if was_used else [1, 1, 1, 2])


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_a_child_forked_in_the_middle_of_a_run_makes_its_own(
    variant: ClientVariant, server: APIServer, tmp_path: Path
) -> None:
    """It does not wait for its parent's, which lands in the parent alone."""
    plugin = Misbehaving(tmp_path)
    plugin.does(
        "if len(open(here + '.runs').readlines()) == 1:\n"
        "    while not os.path.exists(here + '.go'): time.sleep(0.01)\n"
        "give(token='alices-token')"
    )
    found: list[int] = []
    with variant.client(plugin.config(server, timeout=None)) as client:
        asks = threading.Thread(target=lambda: found.append(client.get("/version").status_code))
        asks.start()
        while not plugin.runs:
            time.sleep(0.01)
        assert in_a_child(lambda: client.get("/version").raise_for_status()) == 0
        assert (found, plugin.runs) == ([], 2)
        Path(f"{plugin.path}.go").touch()
        asks.join()
        assert client.get("/version").status_code == 200
    assert (found, plugin.runs) == ([200], 2)


@pytest.mark.slow
@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_many_children_at_once_under_load(variant: ClientVariant) -> None:
    """Forked while other threads are in the middle of requests, so that every lock of ours may be taken.

    Without TLS: the locks of OpenSSL would be taken too, and no program can do anything about those.
    """
    stop = threading.Event()
    failed: list[BaseException] = []
    with (
        APIServer(tls=False, tokens={"t": "alice"}) as server,
        variant.client(server.config(token="t")) as client,
    ):

        def ask() -> None:
            while not stop.is_set():
                try:
                    assert client.get("/version").status_code == 200
                except BaseException as error:
                    failed.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            results = [in_a_child(lambda: client.get("/version").raise_for_status()) for _ in range(10)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert results == [0] * 10
    assert failed == []


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_an_open_stream_of_the_parent_survives(variant: ClientVariant, server: APIServer) -> None:
    watch = server.watch("/watch")
    with (
        variant.client(server.config(token="alices-token")) as client,
        client.stream("GET", "/watch") as stream,
    ):
        watch.wait_for_watchers()

        def ask() -> None:
            client.get("/version").raise_for_status()
            client.close()

        assert in_a_child(ask) == 0
        watch.send({"n": 1})
        watch.end()
        assert stream.rest() == ['{"n": 1}']


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_another_origin_too(variant: ClientVariant, server: APIServer) -> None:
    with APIServer(tls=False) as other, variant.client(server.config(token="alices-token")) as client:
        client.get(f"{other.url}/version")
        assert in_a_child(lambda: client.get(f"{other.url}/version").raise_for_status()) == 0
        client.get(f"{other.url}/version")
    assert [request.connection for request in other.requests] == [1, 2, 1]


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_files_are_still_watched_in_the_child(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "token"
    path.write_text("alices-token")
    server.tokens["new-token"] = "new"
    with variant.client(server.config(token_file=str(path)), clock=clock) as client:
        client.get("/version")
        # The lock of the source is held by nobody who could give it back.
        client.client._kube_transport._source._reload_lock.acquire()

        def ask() -> None:
            path.write_text("new-token")
            clock.advance(50.0)
            client.get("/version").raise_for_status()

        assert in_a_child(ask) == 0
    assert [request.user for request in server.requests] == ["alice", "new"]


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_a_child_may_close_what_it_never_used(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """Also with a stream on a retired pool that it has inherited."""
    watch = server.watch("/watch")
    files = tmp_path / "c.pem", tmp_path / "k.pem"
    server.authority.client("carol").write(*files)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    with variant.client(config, clock=clock) as client:
        assert in_a_child(client.close) == 0
        with client.stream("GET", "/watch") as stream:
            watch.wait_for_watchers()
            server.authority.client("dave").write(*files)
            clock.advance(1.0)
            client.get("/version")

            def leave() -> None:
                stream.response.close()
                client.close()
                client.close()

            assert in_a_child(leave) == 0
            watch.send({"n": 1})
            watch.end()
            assert stream.rest() == ['{"n": 1}']


@pytest.mark.parametrize("variant", SYNC, ids=str)
def test_every_lock_is_a_new_one(
    variant: ClientVariant, server: APIServer, tmp_path: Path, clock: FakeClock
) -> None:
    """Held at the fork, they are held by nobody in the child."""
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
                assert in_a_child(rotate_and_close) == 0
            finally:
                for lock in locks:
                    lock.release()
            watch.end()
    assert [request.user for request in server.requests] == ["carol", "dave", "dave", "erin"]


def test_a_client_that_is_gone_is_not_remembered() -> None:
    from kubeauth._runtime import _registered

    before = set(_registered)  # none of them can go meanwhile, whatever another test has left in a thread
    client = kubeauth.Client(kubeauth.ClientConfig(server="https://h", token=Secret("t")))
    assert set(_registered) > before
    del client
    gc.collect()
    assert set(_registered) == before


def test_a_fork_waits_for_what_is_being_imported() -> None:
    """The child would wait for ever for a module that a thread of its parent had begun to import."""
    begun = threading.Event()
    done: list[bool] = []

    def import_something() -> None:
        with no_fork:
            begun.set()
            time.sleep(0.3)
            done.append(True)

    thread = threading.Thread(target=import_something)
    thread.start()
    assert begun.wait(60)

    def look() -> None:
        assert done
        with no_fork:  # in the child it is free
            pass

    assert in_a_child(look) == 0
    thread.join()


def test_a_direct_transport_alone_survives_a_fork(server: APIServer) -> None:
    """Without a KubeTransport around it, which would have made a new one. A response half read, one not at all."""
    config = server.config(token="alices-token")
    server.on("GET", "/long", Answer(body=b"kubernetes" * 50_000))
    transport = kubeauth.transports.DirectTransport(kubeauth.ssl_context(config))
    headers = {"Authorization": "Bearer alices-token"}
    with httpx.Client(transport=transport, base_url=server.url, headers=headers, timeout=60.0) as client:
        client.get("/version")
        with client.stream("GET", "/long") as open_response:
            parts = open_response.iter_raw()
            begin = next(parts)

            def ask() -> None:
                assert client.get("/version").status_code == 200
                open_response.close()
                client.close()

            assert in_a_child(ask) == 0
            assert begin + b"".join(parts) == b"kubernetes" * 50_000
        client.get("/version")
    assert [request.connection for request in server.requests] == [1, 1, 2, 1]
