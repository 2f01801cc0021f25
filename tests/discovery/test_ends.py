"""How it ends when it is not left alone: cancelled, interrupted, out of time. And what is left then: nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from kubeauth import Secret, errors
from kubeauth.discovery import Progress, adiscover, discover
from kubeauth.discovery._arguments import Arguments
from kubeauth.discovery._fetch import Call, NoReply, Reply
from kubeauth.discovery._flow import Discovery, Fetch, Sleep
from kubeauth.testing import Answer, FakeClock
from tests.discovery.clusters import TOKEN, Cluster
from tests.discovery.test_hostile import silent, within_body, within_headers
from tests.support.raw_server import RawServer, ServerConnection
from tests.support.residue import no_residue


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "converse",
    [ServerConnection.wait_closed, silent, within_headers, within_body],
    ids=lambda each: each.__name__,
)
def test_it_may_be_cancelled_wherever_it_is(
    cluster: Cluster, backend: str, converse: Callable[[ServerConnection], None]
) -> None:
    """In a handshake, before an answer, in its headers, in its body."""
    arrived = threading.Event()

    def heard(connection: ServerConnection) -> None:
        arrived.set()
        converse(connection)

    with RawServer(
        heard,
        pair=None if converse is ServerConnection.wait_closed else cluster.authority.server("127.0.0.1"),
    ) as server:
        by_token = cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"}

        async def main() -> bool:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(partial(adiscover, **by_token))
                    await anyio.to_thread.run_sync(arrived.wait)
                    await anyio.sleep(0.05)
                    scope.cancel()
            return scope.cancelled_caught

        with no_residue():
            assert anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_may_be_cancelled_while_it_waits(cluster: Cluster, backend: str) -> None:
    cluster.signature = None

    async def main() -> bool:
        with anyio.CancelScope() as scope:

            def progress(each: Progress) -> None:
                if each.tries:  # a try came to nothing: it is about to wait
                    scope.cancel()

            await adiscover(**cluster.by_token, interval=60, progress=progress)
        return scope.cancelled_caught

    with no_residue():
        assert anyio.run(main, backend=backend)
    assert len(cluster.requests) == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_other_tasks_go_on_meanwhile(cluster: Cluster, backend: str) -> None:
    """A server that takes its time holds up nobody else."""
    turns: list[int] = []
    release = threading.Event()
    ours = cluster.serve

    def slow(request: Any) -> Answer:
        release.wait(30)
        return ours(request)

    cluster.respond = slow

    async def count() -> None:
        for turn in range(20):
            turns.append(turn)
            await anyio.sleep(0.001)
        release.set()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(count)
            await adiscover(**cluster.by_token)

    anyio.run(main, backend=backend)
    assert len(turns) == 20


@pytest.mark.skipif(sys.platform == "win32", reason="a signal is sent to this process")
@pytest.mark.parametrize("converse", [silent, within_headers, within_body], ids=lambda each: each.__name__)
def test_ctrl_c_ends_it_while_it_reads(
    cluster: Cluster, converse: Callable[[ServerConnection], None]
) -> None:
    def interrupts(connection: ServerConnection) -> None:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        converse(connection)
        timer.join()

    with RawServer(interrupts, pair=cluster.authority.server("127.0.0.1")) as server:
        with no_residue():
            with pytest.raises(KeyboardInterrupt):
                discover(**cluster.by_token | {"endpoint": f"127.0.0.1:{server.port}"})


@pytest.mark.skipif(sys.platform == "win32", reason="a signal is sent to this process")
def test_ctrl_c_ends_it_while_it_waits(cluster: Cluster) -> None:
    cluster.signature = None

    def interrupts(progress: Progress) -> None:
        if progress.tries:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    with no_residue():
        with pytest.raises(KeyboardInterrupt):
            discover(**cluster.by_token, interval=60, progress=interrupts)
    assert len(cluster.requests) == 1


# Time, by a clock that moves when it is told to: no server, and no waiting.


def steps_of(clock: FakeClock, told: list[Progress] | None = None, **options: Any) -> Any:
    given: dict[str, Any] = {
        "endpoint": "h:6443",
        "token": Secret(TOKEN),
        "unsafe_skip_ca_verification": True,
        "timeout": 300.0,
        "interval": 5.0,
    }
    asked = Arguments(**given | options).checked()
    return Discovery(asked, clock, None if told is None else told.append).steps()


def driven(
    steps: Any, clock: FakeClock, reply: Callable[[Call], Reply | NoReply], takes: float = 0.0
) -> list[Any]:
    """All that it does, where each answer takes so long, or until it is given up."""
    done: list[Any] = []
    for step in steps:
        done.append(step)
        if isinstance(step, Fetch):
            step.reply = reply(step.call)
            clock.advance(min(takes, step.call.limit))
        else:
            assert isinstance(step, Sleep)
            clock.advance(step.seconds)
    return done


@pytest.mark.parametrize(
    ("timeout", "interval", "tries"),
    [(300, 5, 60), (300, 300, 1), (300, 1000, 1), (10, 3, 4), (0, 5, 1), (0.5, 0.125, 4)],
)
def test_how_often_it_is_asked_a26_a39(clock: FakeClock, timeout: float, interval: float, tries: int) -> None:
    with pytest.raises(errors.ClusterNotReady) as raised:
        driven(steps_of(clock, timeout=timeout, interval=interval), clock, lambda _: Reply(404))
    assert (raised.value.attempts, raised.value.status_code) == (tries, 404)


@pytest.mark.parametrize(("timeout", "limit"), [(300, 10), (3, 3), (0, 10), (0.5, 0.5)])
def test_how_long_one_try_may_take_a26_a49(clock: FakeClock, timeout: float, limit: float) -> None:
    step = next(steps_of(clock, timeout=timeout))
    assert step.call.limit == pytest.approx(limit)


@pytest.mark.parametrize("takes", [0.0, 1.0, 10.0, 1000.0])
def test_all_of_it_ends_when_the_time_is_over_a49(clock: FakeClock, takes: float) -> None:
    """kubeadm takes up to twice as long, and twenty seconds more."""
    start = clock.monotonic()
    with pytest.raises(errors.ClusterNotReady):
        driven(steps_of(clock, timeout=33.0), clock, lambda _: NoReply("too slow", is_late=True), takes)
    assert clock.monotonic() - start <= 33.0


def test_the_second_fetch_has_what_the_first_has_left_a49(cluster: Cluster, clock: FakeClock) -> None:
    body = Secret(json.dumps(cluster.serve(_request()).body).encode())
    steps = steps_of(clock, timeout=12.0, unsafe_skip_ca_verification=False, ca_cert_hashes=[cluster.pin])
    first = next(steps)
    assert (first.call.limit, first.call.config.insecure_skip_tls_verify) == (10.0, True)
    clock.advance(9.0)
    first.reply = Reply(200, body)
    next(steps).run()  # reading it
    second = next(steps)
    assert second.call.limit == pytest.approx(3.0)
    assert (second.call.config.insecure_skip_tls_verify, second.call.config.ca_data) == (
        False,
        cluster.authority.pem,
    )
    clock.advance(3.0)
    second.reply = NoReply("it did not answer", is_late=True)
    with pytest.raises(errors.ClusterNotReady, match="it did not answer"):
        next(steps)


def _request() -> Any:
    from kubeauth.testing._http import RawRequest
    from tests.discovery.clusters import PATH

    return RawRequest("GET", PATH, (), b"", None, None, 1)


def test_a_try_that_the_end_cuts_short_does_not_hide_why_a39(clock: FakeClock) -> None:
    late = NoReply("it did not answer within 1 seconds", is_late=True)
    replies: Iterator[Reply | NoReply] = iter([Reply(404), Reply(503), late])
    takes = iter([0.0, 0.0, 1.0])

    def reply(call: Call) -> Reply | NoReply:
        clock.advance(next(takes))
        return next(replies)

    with pytest.raises(errors.ClusterNotReady, match="it answered 503") as raised:
        driven(steps_of(clock, timeout=11.0, interval=5.0), clock, reply)
    assert (raised.value.attempts, raised.value.status_code) == (3, 503)


@pytest.mark.parametrize("to", ["https://[::1", "http://h", "https://u:p@h"])
def test_a_redirect_that_the_library_lets_pass_a66(clock: FakeClock, to: str) -> None:
    steps = Discovery(Arguments(url="https://h/x").checked(), clock, None).steps()
    step = next(steps)
    assert isinstance(step, Fetch)
    step.reply = Reply(302, location=to)
    with pytest.raises(errors.ClusterNotTrusted, match="not https"):
        next(steps)


def test_a_redirect_that_would_take_long_to_read_a66(clock: FakeClock) -> None:
    """It takes a time that grows as the square of its length: this one, minutes."""
    steps = Discovery(Arguments(url="https://h/x").checked(), clock, None).steps()
    step = next(steps)
    assert isinstance(step, Fetch)
    step.reply = Reply(302, location="//" + "\u0315\u0300" * 200_000)
    with pytest.raises(errors.ClusterNotTrusted, match="not https"):
        next(steps)


def test_what_whoever_waits_is_told(clock: FakeClock) -> None:
    told: list[Progress] = []
    with pytest.raises(errors.ClusterNotReady):
        driven(steps_of(clock, told, timeout=11.0), clock, lambda _: NoReply("refused"))
    assert told == [
        Progress("endpoint", 0, 11.0),
        Progress("endpoint", 1, 11.0, "refused"),
        Progress("endpoint", 2, 6.0, "refused"),
    ]
