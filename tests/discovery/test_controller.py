"""The controller that keeps cluster-info signed, against a server whose watches end, break and forget."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx
import httpx2
import pytest

import kubeauth
from kubeauth import AsyncClient
from kubeauth._runtime import SYSTEM_CLOCK
from kubeauth.discovery import Signer, _controller, verify_detached
from kubeauth.discovery._watch import Mirror, passes, pause
from kubeauth.errors import ConfigError, CredentialError, DiscoveryError
from kubeauth.testing import Answer, APIServer, FakeClock, Received
from tests.discovery.cluster import CLUSTER_INFO, CONFIG_MAPS, SECRETS, Cluster, status
from tests.discovery.objects import secret
from tests.discovery.vectors import SIGNED
from tests.support.leaks import SENTINEL, render_error, render_locals

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
# trio warns of whoever stops reading in the middle, and httpx has no other way to; and whoever is cancelled
# while a connection of httpx is being made leaves its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")
G4 = SIGNED["G4"][2]


@pytest.fixture
def cluster(server: APIServer) -> Iterator[Cluster]:
    cluster = Cluster(server)
    yield cluster
    cluster.end_watches()


def run(work: Callable[[], Awaitable[None]], backend: str = "asyncio") -> None:
    anyio.run(work, backend=backend)


async def until(claim: Callable[[], bool]) -> None:
    """Returns as soon as it is true."""
    with anyio.fail_after(60):
        while not claim():  # noqa: ASYNC110 -- what it waits for happens in other threads
            await anyio.sleep(0.005)


async def a_moment() -> None:
    """Long enough for what should not happen."""
    await anyio.sleep(0.15)


@asynccontextmanager
async def signer(server: APIServer, **options: Any) -> AsyncIterator[Signer]:
    async with AsyncClient(server.config(token="alices-token")) as client:
        async with Signer(client, **{"retry": 0.01} | options) as running:
            yield running


@BACKENDS
def test_tokens_that_come_change_and_go_are_followed_a27_a28_a32(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    cluster.kubeconfig("payload", other="kept")
    cluster.put(SECRETS, secret())

    async def main() -> None:
        async with signer(server):
            await until(lambda: cluster.signed_by == {"abc123"})
            assert cluster.cluster_info == {
                "kubeconfig": "payload",
                "other": "kept",
                "jws-kubeconfig-abc123": G4,
            }
            cluster.put(SECRETS, secret("def456.x"))
            await until(lambda: cluster.signed_by == {"abc123", "def456"})
            cluster.kubeconfig("another", other="kept")
            await until(lambda: cluster.signed_by == {"abc123", "def456"})
            assert verify_detached("another", cluster.cluster_info["jws-kubeconfig-def456"], "def456.x")
            cluster.put(SECRETS, secret("def456.x", usage_bootstrap_signing=None))
            await until(lambda: cluster.signed_by == {"abc123"})
            cluster.delete(SECRETS, "bootstrap-token-abc123")
            await until(lambda: cluster.signed_by == set())
            await a_moment()

    run(main, backend)
    # One for each change, and none for what it wrote itself.
    assert len(cluster.writes) == 5
    assert cluster.lists == {SECRETS: 1, CONFIG_MAPS: 1}
    # What it may do is what the cluster's own may (A32).
    verbs = {(request.method, request.path.partition("?")[0]) for request in server.requests}
    assert verbs == {("GET", SECRETS), ("GET", CONFIG_MAPS), ("PUT", CLUSTER_INFO)}


@BACKENDS
def test_where_nothing_is_to_be_done_nothing_is_written_a27_a28(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    # Known from the beginning: who hears of it later than of its signature would have to remove that.
    cluster.put(SECRETS, secret())

    async def main() -> None:
        async with signer(server):
            # Without cluster-info, without a kubeconfig in it, and with all the signatures that should be.
            await until(lambda: all(cluster.watches.values()))
            await a_moment()
            cluster.put(CONFIG_MAPS, {**CONFIG_MAP, "data": {"jws-kubeconfig-zzzzzz": "stays"}})
            await a_moment()
            cluster.kubeconfig("payload", jws_kubeconfig_abc123=G4)
            await a_moment()
            cluster.put(SECRETS, secret("ffffff.x", Type="Opaque"))
            await a_moment()

    run(main, backend)
    assert cluster.writes == []


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info"}}


@BACKENDS
def test_a_watch_that_ends_is_taken_up_where_it_was(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    cluster.kubeconfig("payload")

    async def main() -> None:
        async with signer(server):
            for token_id in ("aaaaaa", "bbbbbb", "cccccc"):
                await until(lambda: all(cluster.watches.values()))
                cluster.put(SECRETS, secret(f"{token_id}.x"))
                await until(lambda token_id=token_id: token_id in cluster.signed_by)  # type: ignore[misc]
                cluster.end_watches()

    run(main, backend)
    assert cluster.lists == {SECRETS: 1, CONFIG_MAPS: 1}
    assert len(cluster.writes) == 3
    versions = cluster.watches[SECRETS]
    assert versions == sorted(versions)


@BACKENDS
def test_a_connection_that_breaks_loses_nothing(
    cluster: Cluster, server: APIServer, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kubeconfig("payload")

    async def main() -> None:
        async with signer(server):
            for token_id in ("aaaaaa", "bbbbbb", "cccccc"):
                await until(lambda: all(cluster.watches.values()))
                server.hang_up()
                cluster.put(SECRETS, secret(f"{token_id}.{SENTINEL}"))
                await until(lambda token_id=token_id: token_id in cluster.signed_by)  # type: ignore[misc]

    run(main, backend)
    assert cluster.signed_by == {"aaaaaa", "bbbbbb", "cccccc"}
    assert SENTINEL not in caplog.text


@BACKENDS
@pytest.mark.parametrize("in_the_stream", [False, True])
def test_after_410_gone_everything_is_listed_anew(
    cluster: Cluster, server: APIServer, backend: str, in_the_stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret("aaaaaa.x"))
    cluster.put(SECRETS, secret("bbbbbb.x"))
    cluster.says_gone_in_the_stream = in_the_stream

    async def main() -> None:
        async with signer(server):
            await until(lambda: cluster.signed_by == {"aaaaaa", "bbbbbb"})
            await until(lambda: all(cluster.watches.values()))
            with cluster.changed:
                # While nobody hears of it, one goes and one comes.
                cluster.forget()
                cluster.delete(SECRETS, "bootstrap-token-aaaaaa")
                cluster.put(SECRETS, secret("cccccc.x"))
                cluster.forget()
            await until(lambda: cluster.signed_by == {"bbbbbb", "cccccc"})

    run(main, backend)
    assert cluster.lists[SECRETS] == 2
    # Which is not worth a word.
    assert "410" not in caplog.text
    assert "too old" not in caplog.text


@BACKENDS
def test_a_bookmark_says_where_to_go_on(cluster: Cluster, server: APIServer, backend: str) -> None:
    cluster.kubeconfig("payload")

    async def main() -> None:
        async with signer(server):
            await until(lambda: all(cluster.watches.values()))
            cluster.bookmark(SECRETS)
            cluster.put(SECRETS, secret("aaaaaa.x"))
            await until(lambda: cluster.signed_by == {"aaaaaa"})
            cluster.bookmark(SECRETS)
            marked = str(cluster.version)
            # That it came over the wire cannot be seen from outside until the next watch.
            with anyio.fail_after(60):
                while cluster.watches[SECRETS][-1] != marked:
                    await a_moment()
                    cluster.end_watches()

    run(main, backend)
    assert cluster.lists[SECRETS] == 1
    assert len(cluster.writes) == 1


@BACKENDS
def test_events_may_come_a_few_bytes_at_a_time(cluster: Cluster, server: APIServer, backend: str) -> None:
    cluster.kubeconfig("payload")
    cluster.pieces = lambda line: (line[start : start + 7] for start in range(0, len(line), 7))

    async def main() -> None:
        async with signer(server):
            await until(lambda: all(cluster.watches.values()))
            cluster.put(SECRETS, secret())
            await until(lambda: cluster.signed_by == {"abc123"})

    run(main, backend)
    assert cluster.cluster_info["jws-kubeconfig-abc123"] == G4


@BACKENDS
def test_a_conflict_is_silent_and_what_the_other_wrote_is_signed_a30(
    cluster: Cluster, server: APIServer, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kubeconfig("old")
    cluster.put(SECRETS, secret())
    others = iter([None])

    def somebody_else() -> None:
        if next(others, "over") is None:
            cluster.kubeconfig("payload")

    cluster.before_write = somebody_else

    async def main() -> None:
        async with signer(server):
            await until(lambda: cluster.cluster_info.get("jws-kubeconfig-abc123") == G4)

    run(main, backend)
    assert (cluster.refused, len(cluster.writes)) == (1, 1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@BACKENDS
def test_a_cluster_info_that_goes_away_is_silent_a30(
    cluster: Cluster, server: APIServer, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kubeconfig("old")
    cluster.put(SECRETS, secret())
    gone = threading.Event()

    def removed() -> None:
        if not gone.is_set():
            cluster.delete(CONFIG_MAPS, "cluster-info")
            gone.set()

    cluster.before_write = removed

    async def main() -> None:
        async with signer(server):
            await until(gone.is_set)
            await a_moment()
            cluster.kubeconfig("payload")
            await until(lambda: cluster.cluster_info.get("jws-kubeconfig-abc123") == G4)

    run(main, backend)
    assert len(cluster.writes) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@BACKENDS
def test_other_errors_are_told_and_tried_again_a30(
    cluster: Cluster, server: APIServer, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret(f"abc123.{SENTINEL}"))
    answers = iter([status(500, "etcd is away"), Answer(hang_up=True), status(403, "no update for you")])
    cluster.before_write = lambda: next(answers, None)

    async def main() -> None:
        async with signer(server):
            await until(lambda: cluster.signed_by == {"abc123"})

    run(main, backend)
    assert len(cluster.writes) == 1
    assert "the server answers 500: etcd is away" in caplog.text
    assert "the server answers 403: no update for you" in caplog.text
    assert SENTINEL not in caplog.text


@BACKENDS
def test_somebody_who_does_not_agree_is_not_written_against_without_end(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    """Another signer, whose clock differs: each would undo what the other has just done."""
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret())

    async def main(retry: float, writes: int) -> None:
        async with signer(server, retry=retry):
            await until(lambda: cluster.signed_by == {"abc123"})
            cluster.kubeconfig("payload")
            await a_moment()
            await until(lambda: len(cluster.writes) >= writes)

    run(partial(main, retry=60.0, writes=1), backend)
    assert (len(cluster.writes), cluster.signed_by) == (1, set())
    # It waits, and does not forget.
    run(partial(main, retry=0.05, writes=3), backend)
    assert cluster.signed_by == {"abc123"}


@pytest.mark.slow
@BACKENDS
def test_a_server_that_refuses_is_not_asked_at_every_change(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret("aaaaaa.x"))
    refused: list[int] = []

    def no() -> Answer:
        refused.append(403)
        return status(403, "no update for you")

    cluster.before_write = no

    async def main() -> None:
        async with signer(server, retry=60.0):
            await until(lambda: bool(refused))
            for number in range(5):
                cluster.put(SECRETS, secret(f"b{number:05}.x"))
                await a_moment()

    run(main, backend)
    assert refused == [403]


@BACKENDS
def test_a_server_that_forgets_what_it_has_just_said_is_not_asked_without_end(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}\n'
        yield b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'

    lists = 0

    def lies(request: Received) -> Answer:
        nonlocal lists
        if "watch=true" in request.path:
            return Answer(chunks=chunks())
        lists += 1
        return Answer(body={"metadata": {"resourceVersion": "7"}, "items": []})

    server.on("GET", SECRETS, lies)

    async def main() -> None:
        async with signer(server, retry=60.0):
            await until(lambda: lists > 0)
            await a_moment()

    run(main, backend)
    assert lists == 1


@BACKENDS
def test_many_changes_at_once_are_one_write_and_never_two_at_a_time(
    cluster: Cluster, server: APIServer, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[_controller._Run] = []

    class Seen(_controller._Run):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            runs.append(self)

    monkeypatch.setattr(_controller, "_Run", Seen)
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret("aaaaaa.x"))
    held, go = threading.Event(), threading.Event()
    now = most = 0

    def slow() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        held.set()
        go.wait(60)
        now -= 1

    cluster.before_write = slow

    async def main() -> None:
        async with signer(server):
            await until(held.is_set)
            for number in range(100):
                cluster.put(SECRETS, secret(f"b{number:05}.x"))
            await until(lambda: len(runs[0].secrets.objects) == 101)  # it has heard of all
            go.set()
            await until(lambda: len(cluster.signed_by) == 101)

    run(main, backend)
    assert most == 1
    # The first, and one for all that came while it was held; that may not know yet what the first has written.
    assert len(cluster.writes) == 2
    assert cluster.refused <= 1


@pytest.mark.slow
@BACKENDS
def test_a_token_that_ends_loses_its_signature_though_nobody_says_so_a30(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret("aaaaaa.x"))
    cluster.put(SECRETS, secret("bbbbbb.x"))

    async def main() -> None:
        async with signer(server):
            await until(lambda: cluster.signed_by == {"aaaaaa", "bbbbbb"})
            # Not before: a busy machine may take longer to sign than it would have been good.
            end = time.time() + 1.5
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end)) + f"{end % 1:.3f}"[1:] + "Z"
            cluster.put(SECRETS, secret("aaaaaa.x", expiration=text))
            await until(lambda: cluster.signed_by == {"bbbbbb"})

    run(main, backend)
    assert len(cluster.writes) == 2


@pytest.mark.slow
@BACKENDS
def test_what_cannot_be_listed_or_watched_is_tried_again(
    cluster: Cluster, server: APIServer, backend: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret(f"abc123.{SENTINEL}"))
    listing = cluster._read
    answers = {
        SECRETS: iter([
            status(403, "no secrets for you"), Answer(body=b"x"), Answer(body={"items": SENTINEL, "metadata": {"resourceVersion": "1"}}),
            Answer(body={"items": [], "metadata": {"resourceVersion": 7}}), Answer(503, SENTINEL.encode()),
        ]),
        CONFIG_MAPS: iter([Answer(hang_up=True)]),
    }  # fmt: skip
    watches = iter(
        [status(500, "no watch for you"), Answer(chunks=[]), Answer(chunks=[f"{SENTINEL}\n".encode()])]
    )

    def moody(request: Any) -> Answer:
        path, _, query = request.path.partition("?")
        answer = next(watches, None) if "watch=" in query and path == SECRETS else None
        return answer or ("watch=" not in query and next(answers[path], None)) or listing(request)

    for path in (SECRETS, CONFIG_MAPS):
        server.on("GET", path, moody)

    async def main() -> None:
        # By a clock that stands still: what ends at once does so on a busy machine, too.
        async with signer(server, clock=clock):
            await until(lambda: cluster.signed_by == {"abc123"})
            await until(lambda: len(cluster.watches[SECRETS]) == 1)
            cluster.put(SECRETS, secret("def456.x"))
            await until(lambda: cluster.signed_by == {"abc123", "def456"})

    run(main, backend)
    for said in (
        "the server answers 403: no secrets for you", "what the server answers is not a list", "the server answers 503",
        "the server answers 500: no watch for you", "the server ended the watch at once", "what the server sends is not an event",
    ):  # fmt: skip
        assert said in caplog.text
    assert SENTINEL not in caplog.text


@BACKENDS
@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is away"}}, "the watch failed: etcd is away"),
        ({"type": "ERROR", "object": {"code": 500, "message": SENTINEL}}, "the watch failed"),
        ({"type": "ERROR"}, "the watch failed"),
        ({"type": "ADDED", "object": SENTINEL}, "is not an event"),
        ({"type": SENTINEL, "object": {"metadata": {"resourceVersion": "1"}}}, "is not an event"),
        ([SENTINEL], "is not an event"),
    ],
)  # fmt: skip
def test_an_event_that_is_none_breaks_the_watch_and_nothing_else(
    cluster: Cluster, server: APIServer, backend: str, event: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kubeconfig("payload")

    async def main() -> None:
        async with signer(server):
            await until(lambda: all(cluster.watches.values()))
            cluster.say(SECRETS, event)
            await until(lambda: said in caplog.text)
            # It is there for ever, as far as the server knows: so it forgets.
            cluster.forget()
            cluster.put(SECRETS, secret())
            await until(lambda: cluster.signed_by == {"abc123"})

    run(main, backend)
    assert SENTINEL not in caplog.text


@BACKENDS
def test_cancelling_ends_it_and_leaves_no_connection(
    cluster: Cluster, server: APIServer, backend: str
) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret())

    async def main() -> None:
        async with AsyncClient(server.config(token="alices-token")) as client:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(Signer(client).run)
                    await until(lambda: cluster.signed_by == {"abc123"})
                    await until(lambda: all(cluster.watches.values()))
                    scope.cancel()
            assert scope.cancelled_caught
            # The client is not its own: it can still be used.
            assert (await client.get("/version")).status_code == 200
        # The server finds out when it has something to say.
        cluster.end_watches()
        await until(lambda: server.open_connections == 0)

    run(main, backend)


@BACKENDS
def test_what_a_block_raises_comes_by_itself(cluster: Cluster, server: APIServer, backend: str) -> None:
    async def main() -> None:
        def has_begun(times: int) -> Callable[[], bool]:
            return lambda: all(len(watches) >= times for watches in cluster.watches.values())

        async def failing() -> None:
            async with signer(server):
                await until(has_begun(1))
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await failing()
        async with AsyncClient(server.config(token="alices-token")) as client:
            running = Signer(client)
            async with running:
                with pytest.raises(ConfigError, match="runs already"):
                    await running.__aenter__()
                await until(has_begun(2))
            with anyio.CancelScope() as scope:
                async with running:  # once more
                    await until(has_begun(3))
                    scope.cancel()
                    await anyio.sleep_forever()
            assert scope.cancelled_caught

    run(main, backend)


class Misconfigured:
    """A client whose plugin may not be run, say."""

    def __init__(self) -> None:
        self.asked = 0

    async def get(self, _url: str, /, **_options: Any) -> Any:
        self.asked += 1
        raise ConfigError("not allowed")

    async def put(self, _url: str, /, **_options: Any) -> Any:
        raise AssertionError

    def stream(self, _method: str, _url: str, /, **_options: Any) -> AbstractAsyncContextManager[Any]:
        raise AssertionError


@BACKENDS
def test_what_does_not_pass_by_itself_is_raised_by_itself(backend: str) -> None:
    async def main() -> None:
        client = Misconfigured()
        with pytest.raises(ConfigError, match="not allowed"):
            await Signer(client).run()
        with pytest.raises(ConfigError, match="not allowed"):
            async with Signer(client):
                await anyio.sleep_forever()
        with pytest.raises(LookupError, match="mine"):
            async with Signer(client):
                raise LookupError("mine")
        with pytest.raises(ConfigError, match="not allowed"):
            await Signer(client).once()

    run(main, backend)


@BACKENDS
def test_a_mistake_of_ours_is_not_tried_again(backend: str, cluster: Cluster, server: APIServer) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret())

    class Broken(AsyncClient):
        async def put(self, *_: Any, **__: Any) -> Any:
            raise ZeroDivisionError

    async def main() -> None:
        async with Broken(server.config(token="alices-token")) as client:
            with pytest.raises(ZeroDivisionError):
                await Signer(client).run()

    run(main, backend)


@BACKENDS
def test_once_signs_what_there_is_a27_a28_a30(cluster: Cluster, server: APIServer, backend: str) -> None:
    async def main() -> None:
        async with AsyncClient(server.config(token="alices-token")) as client:
            once = Signer(client).once
            assert not await once()
            cluster.kubeconfig("payload")
            assert not await once()
            for number in range(5):
                cluster.put(SECRETS, secret(f"00000{number}.x"))
            cluster.page_size = 2
            assert await once()
            assert len(cluster.signed_by) == 5
            assert not await once()
            cluster.put(SECRETS, secret())
            cluster.before_write = lambda: cluster.kubeconfig("other")
            assert not await once()
            cluster.before_write = lambda: status(404)
            assert not await once()
            cluster.before_write = lambda: status(403, "no update for you")
            with pytest.raises(DiscoveryError, match="the server answers 403: no update for you") as raised:
                await once()
            assert raised.value.status_code == 403
            assert "payload" not in render_error(raised.value)
            cluster.before_write = lambda: None
            server.on("GET", SECRETS, status(410, "expired"))
            with pytest.raises(DiscoveryError, match="the server answers 410") as raised:
                await once()

    run(main, backend)


@BACKENDS
def test_a_client_of_httpx2_will_do(cluster: Cluster, server: APIServer, backend: str) -> None:
    cluster.kubeconfig("payload")
    cluster.put(SECRETS, secret())

    async def main() -> None:
        async with kubeauth.httpx2.AsyncClient(server.config(token="alices-token")) as client:
            async with Signer(client, retry=0.01):
                await until(lambda: cluster.signed_by == {"abc123"})
                await until(lambda: all(cluster.watches.values()))
                server.hang_up()
                cluster.put(SECRETS, secret("def456.x"))
                await until(lambda: cluster.signed_by == {"abc123", "def456"})

    run(main, backend)


def test_errors_while_secrets_are_read_show_none_a92(server: APIServer) -> None:
    """A page of Secrets came, and the next does not: what was there is in no variable."""
    cluster = Cluster(server)
    cluster.kubeconfig(f"content {SENTINEL}")
    cluster.page_size = 1
    for token_id in ("aaaaaa", "bbbbbb"):
        cluster.put(SECRETS, secret(f"{token_id}.{SENTINEL}"))
    reading = cluster._read

    def half(request: Any) -> Answer:
        return status(500) if "continue=" in request.path else reading(request)

    server.on("GET", SECRETS, half)

    async def main() -> None:
        async with AsyncClient(server.config(token="alices-token")) as client:
            with pytest.raises(DiscoveryError, match="answers 500") as raised:
                await Signer(client).once()
            assert SENTINEL not in render_error(raised.value)
            server.on("GET", SECRETS, reading)
            server.on("PUT", CLUSTER_INFO, Answer(hang_up=True))
            with pytest.raises(httpx.HTTPError) as broken:
                await Signer(client).once()
            assert SENTINEL not in "".join(render_locals(broken.value.__traceback__))

    run(main)


def test_pauses_grow_and_are_not_all_equally_long() -> None:
    for failures, longest in ((1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (5000, 30.0)):
        found = {pause(1.0, failures) for _ in range(50)}
        assert all(longest / 2 <= each <= longest for each in found)
        assert len(found) > 1


def test_what_passes_by_itself() -> None:
    passing: list[Exception] = [
        httpx.ReadError("x"),
        httpx2.ConnectError("x"),
        CredentialError("x"),
        DiscoveryError("x"),
    ]
    assert all(map(passes, passing))
    assert not any(map(passes, [ConfigError("x"), ValueError("x"), OSError("x")]))


def test_a_mirror_tells_of_each_change(cluster: Cluster, server: APIServer) -> None:
    """By itself: everything at once, and then each event."""
    told: list[set[str]] = []
    cluster.put(SECRETS, secret("aaaaaa.x"))

    async def main() -> None:
        async with AsyncClient(server.config(token="alices-token")) as client:
            mirror = Mirror[object](
                client, SECRETS, "type=bootstrap.kubernetes.io/token", lambda item: item,
                clock=SYSTEM_CLOCK,
            )  # fmt: skip
            mirror._changed = lambda: told.append(set(mirror.objects))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(mirror.follow)
                await until(lambda: bool(cluster.watches[SECRETS]))
                cluster.put(SECRETS, secret("bbbbbb.x"))
                cluster.delete(SECRETS, "bootstrap-token-aaaaaa")
                await until(lambda: len(told) == 3)
                tasks.cancel_scope.cancel()

    run(main)
    names = [{name.removeprefix("bootstrap-token-")[:1] for name in each} for each in told]
    assert names == [{"a"}, {"a", "b"}, {"b"}]
