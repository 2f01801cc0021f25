"""What an API server is asked, by the real client on a real server."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from trio.testing import MockClock

import kubeauth.httpx2
from kubeauth import AsyncClient, ClientConfig, ExecConfig
from kubeauth.errors import ConfigError
from kubeauth.gmsa import Decision, Policy, Unavailable, Verdict
from kubeauth.gmsa._authorize import creation
from kubeauth.gmsa._cluster import Cluster
from kubeauth.gmsa._driver import asettled
from kubeauth.gmsa._expand import expansion, new_hostname
from kubeauth.gmsa._places import Pod, pod_of
from kubeauth.gmsa._steps import Review, User
from kubeauth.gmsa._throttle import Throttle
from kubeauth.testing import Answer, APIServer, FakeClock
from tests.gmsa.api import REVIEWS, ROBOT, SPECS, KnownSpecs
from tests.gmsa.pods import CONTENTS, CREDSPEC, Document, container, pod
from tests.support.cases import each_case

CLIENTS = pytest.mark.parametrize(
    "client", [AsyncClient, kubeauth.httpx2.AsyncClient], ids=["httpx", "httpx2"]
)
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
ASKING = Review(User(ROBOT, ("system:serviceaccounts",)), "shop", "web-spec")


@pytest.fixture
def known() -> Iterator[KnownSpecs]:
    with APIServer(tokens={"t": "webhook"}) as server:
        yield KnownSpecs(server)


def asked(
    config: ClientConfig,
    question: Callable[[Cluster], Awaitable[Any]],
    backend: str = "asyncio",
    client: Callable[[ClientConfig], Any] = AsyncClient,
) -> Any:
    async def work() -> Any:
        async with client(config) as opened:
            return await question(Cluster(opened))

    return anyio.run(work, backend=backend)


@CLIENTS
@BACKENDS
def test_a_spec_is_fetched_and_a_user_asked_about_b53_b58(
    known: KnownSpecs, backend: str, client: Callable[[ClientConfig], Any]
) -> None:
    async def both(cluster: Cluster) -> tuple[Any, Verdict]:
        return await cluster.lookup("web-spec"), await cluster.review(ASKING)

    spec, verdict = asked(known.server.config(token="t"), both, backend, client)
    assert (spec["credspec"], verdict) == (CREDSPEC, Verdict(True))
    assert known.asked == [("GET", f"{SPECS}/web-spec"), ("POST", REVIEWS)]
    sent = json.loads(known.server.requests[1].body)
    assert (sent["kind"], sent["spec"]["user"]) == ("LocalSubjectAccessReview", ROBOT)


def test_what_does_not_exist_is_told_from_what_cannot_be_had_b54_b55(known: KnownSpecs) -> None:
    config = known.server.config(token="t")
    assert asked(config, lambda cluster: cluster.lookup("missing")) is None
    # The server has no such path: the custom resource definition is not installed.
    other = asked(config, lambda cluster: cluster.lookup("never-heard-of"))
    assert isinstance(other, Unavailable)
    assert "custom resource definition" in other.reason
    known.server.on("GET", f"{SPECS}/web-spec", Answer(503, {"kind": "Status", "message": "etcd is away"}))
    assert asked(config, lambda cluster: cluster.lookup("web-spec")) == Unavailable(
        "the API server answered with 503: etcd is away"
    )


@CLIENTS
@BACKENDS
def test_a_server_that_is_away_is_no_yes_b54_b59(
    known: KnownSpecs, backend: str, client: Callable[[ClientConfig], Any], caplog: pytest.LogCaptureFixture
) -> None:
    for path, method in ((f"{SPECS}/web-spec", "GET"), (REVIEWS, "POST")):
        known.server.on(method, path, Answer(hang_up=True))
    config = known.server.config(token="t")

    found = asked(config, lambda cluster: cluster.lookup("web-spec"), backend, client)
    verdict = asked(config, lambda cluster: cluster.review(ASKING), backend, client)
    assert isinstance(found, Unavailable)
    assert not verdict.allowed
    for reason in (found.reason, verdict.reason):
        assert reason.startswith("the API server cannot be asked (")
        assert "the log of the webhook says more" in reason
    assert [record.levelno for record in caplog.records if record.name == "kubeauth.gmsa"] == [
        logging.WARNING
    ] * 2


def test_a_credential_that_cannot_be_had_is_no_yes_and_names_no_file_b59(
    known: KnownSpecs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "no-plugin"
    stanza = ExecConfig(
        command=str(file), api_version="client.authentication.k8s.io/v1", interactive_mode="Never"
    )
    config = known.server.config(exec=stanza)

    async def both(cluster: Cluster) -> tuple[Any, Verdict]:
        return await cluster.lookup("web-spec"), await cluster.review(ASKING)

    found, verdict = asked(config, both)
    assert (isinstance(found, Unavailable), verdict.allowed) == (True, False)
    assert str(file) not in found.reason + verdict.reason
    assert str(file) in caplog.text


def test_a_mistake_in_a_client_is_not_taken_for_a_server_that_is_away() -> None:
    class Broken:
        async def get(self, url: str, **_: Any) -> Any:
            raise ZeroDivisionError(url)

        post = get

    with pytest.raises(ZeroDivisionError):
        anyio.run(Cluster(Broken()).lookup, "web-spec")
    with pytest.raises(ZeroDivisionError):
        anyio.run(Cluster(Broken()).review, ASKING)


def test_what_is_asked_twice_for_a_pod_is_asked_once_and_again_for_the_next_b57_b60(
    known: KnownSpecs,
) -> None:
    many = pod("web-spec", CONTENTS, containers=[container(f"c{n}", "web-spec", CONTENTS) for n in range(5)])
    bare = pod("web-spec", containers=[container(f"c{n}", "web-spec") for n in range(5)])

    async def decided(cluster: Cluster, document: Document, mutate: bool) -> Decision:
        read = pod_of(document, Policy())
        assert isinstance(read, Pod)
        steps = expansion(read, Policy(), new_hostname) if mutate else creation(read, "shop", None, Policy())
        return await asettled(steps, cluster.lookup, cluster.review)

    config = known.server.config(token="t")

    async def twice(cluster: Cluster) -> None:
        assert len((await decided(cluster, bare, True)).patch) == 6
        assert known.asked == [("GET", f"{SPECS}/web-spec")]
        assert (await decided(cluster, many, False)).allowed
        assert known.asked[1:] == [("POST", REVIEWS), ("GET", f"{SPECS}/web-spec")]
        # Who loses a right loses it at once.
        known.granted.clear()
        refused = await decided(cluster, many, False)
        assert (refused.code, "no binding of 100% use" in refused.message) == (403, True)
        assert known.asked[3:] == [("POST", REVIEWS)]

    asked(config, twice)


def test_a_burst_goes_at_once_and_the_rest_in_turn_b57() -> None:
    clock, slept = FakeClock(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        clock.advance(seconds)

    async def work() -> None:
        throttle = Throttle(4, 3, clock=clock, sleep=sleep)
        for _ in range(5):
            await throttle.turn()
        assert slept == [0.25, 0.25]
        clock.advance(10)  # nobody saves up more than a burst
        for _ in range(4):
            await throttle.turn()
        assert slept == [0.25, 0.25, 0.25]

    anyio.run(work)


# A second; five of which have a turn.
@pytest.mark.parametrize("arrivals", [2, 5, 20, pytest.param(50, marks=pytest.mark.slow)])
def test_however_many_come_turns_are_as_many_as_there_are_b57(arrivals: int) -> None:
    """Also if most of them give up before it is theirs. The time is trio's own."""
    qps, burst, patience, length = 5, 10, 7.0, 100.0
    turns: list[float] = []

    class Time(FakeClock):
        def monotonic(self) -> float:
            return trio.current_time()

    async def one(throttle: Throttle) -> None:
        with anyio.move_on_after(patience):
            await throttle.turn()
            turns.append(trio.current_time())

    async def work() -> None:
        throttle = Throttle(qps, burst, clock=Time())
        begun = trio.current_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(int(length * arrivals)):
                tasks.start_soon(one, throttle)
                await anyio.sleep(1 / arrivals)
        turns[:] = [each - begun for each in turns]

    anyio.run(work, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})
    for second in range(10, 95, 5):
        had = sum(second <= each < second + 5 for each in turns)
        assert abs(had - min(arrivals, qps) * 5) <= 1, second
    for each in turns:  # and in no second more than it may be
        assert sum(each <= other < each + 1 for other in turns) <= qps + burst + 1


def test_who_gives_up_waiting_frees_a_place_b57() -> None:
    clock, slept = FakeClock(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        raise TimeoutError

    async def work() -> None:
        throttle = Throttle(1, 1, clock=clock, sleep=sleep)
        await throttle.turn()
        for _ in range(100):
            with pytest.raises(TimeoutError):
                await throttle.turn()
        assert set(slept) == {1.0}

    anyio.run(work)


def test_a_cluster_asks_in_turn_b57(known: KnownSpecs) -> None:
    turns = []

    class Counting(Throttle):
        async def turn(self) -> None:
            turns.append(len(known.server.requests))

    async def work() -> None:
        async with AsyncClient(known.server.config(token="t")) as client:
            cluster = Cluster(client, Counting(5, 10))
            await cluster.lookup("web-spec")
            await cluster.review(ASKING)

    anyio.run(work)
    assert turns == [0, 1]


@each_case(("qps", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_a_throttle_must_let_something_through(qps: float, burst: int) -> None:
    with pytest.raises(ConfigError, match="qps must be more than 0"):
        Throttle(qps, burst)
