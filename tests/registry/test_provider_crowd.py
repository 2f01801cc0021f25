"""Many at once, in threads and in event loops: how often a provider is run, and who gets what (4.11, 4.12, 4.20)."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubeauth.errors import ProviderError
from kubeauth.registry import _provider
from kubeauth.registry._providers import CredentialProviders, Lookup
from kubeauth.registry._service_account import Pod, ServiceAccount
from kubeauth.testing import ProviderScript
from tests.registry.providers import (
    IMAGE,
    TOKENS,
    HeldProvider,
    Watching,
    config_of,
    entry_of,
    providers_of,
    says,
    script_of,
)
from tests.support.residue import no_residue, wait_until

POD = Pod("ns", "pod", "uid", "robot")
THREADS, TASKS = 10, 40
LOOPS = ("asyncio", "trio")


class Tokens:
    """Gives every caller the same token, or another."""

    def __init__(self, *, random: bool) -> None:
        self._next = itertools.count() if random else itertools.repeat("")

    def service_account(self, _pod: Pod) -> ServiceAccount:
        return ServiceAccount("ns", "robot", "uid")

    def token(self, _pod: Pod, _account: ServiceAccount, _audience: str) -> str:
        return str(next(self._next))


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HeldProvider]:
    held = HeldProvider(tmp_path)
    with no_residue():
        yield held
        held.let_go()


class Crowd:
    """Callers in threads, in a loop of asyncio and in one of trio. All come at once, behind a barrier."""

    def __init__(self, providers: CredentialProviders, image: str = IMAGE, pod: Pod | None = None) -> None:
        self.found: list[Lookup] = []
        self._providers = providers
        self._image = image
        self._pod = pod
        self._called: list[object] = []  # one for each, as they come: a number might miss some

    def rush(self, when_all_wait: Callable[[], None], *, threads: int = THREADS, tasks: int = TASKS) -> None:
        barrier = threading.Barrier(threads + len(LOOPS))
        workers = [threading.Thread(target=self._thread, args=(barrier,)) for _ in range(threads)]
        workers += [threading.Thread(target=self._loop, args=(kind, tasks, barrier)) for kind in LOOPS]
        for worker in workers:
            worker.start()
        wait_until(lambda: len(self._called) == threads + len(LOOPS) * tasks)
        when_all_wait()
        for worker in workers:
            worker.join()

    def _thread(self, barrier: threading.Barrier) -> None:
        barrier.wait()
        self._called.append(None)
        self.found.append(self._providers.lookup(self._image, pod=self._pod))

    def _loop(self, kind: str, tasks: int, barrier: threading.Barrier) -> None:
        async def call() -> None:
            self._called.append(None)  # and in the same step as far as it gets
            self.found.append(await self._providers.alookup(self._image, pod=self._pod))

        async def main() -> None:
            await anyio.to_thread.run_sync(barrier.wait)
            async with anyio.create_task_group() as group:
                for _ in range(tasks):
                    group.start_soon(call)

        anyio.run(main, backend=kind)


def flown(providers: CredentialProviders, held: HeldProvider, **options: Any) -> tuple[threading.Thread, Any]:
    """Somebody who has asked first, and the flight that all others wait for."""
    first = threading.Thread(target=lambda: providers.lookup(IMAGE, **options))
    first.start()
    wait_until(lambda: len(held.processes) == 1)
    (flight,) = providers._providers[0]._calls.values()
    return first, flight


@pytest.mark.parametrize("mode", ["no SA", "SA, same (empty) token"])
def test_singleflight_provide(mode: str, held: HeldProvider) -> None:
    """PT SingleflightProvide: nothing is kept, so it is the run that they share."""
    held.says("password", duration="0s")
    options: dict[str, Any] = {}
    pod = None
    if mode != "no SA":
        options = {"service_account": Tokens(random=False), "tokenAttributes": TOKENS}
        pod = POD
    watching = Watching()
    with providers_of(held, observer=watching, **options) as providers:
        first, flight = flown(providers, held, pod=pod)
        crowd = Crowd(providers, pod=pod)

        def when_all_wait() -> None:
            # Each thread by itself, and one for each loop.
            wait_until(lambda: len(flight._waiters) == THREADS + len(LOOPS))
            held.let_go()

        crowd.rush(when_all_wait)
        first.join()
    assert [len(found.credentials) for found in crowd.found] == [1] * (THREADS + len(LOOPS) * TASKS)
    assert len(held.processes) == 1
    assert watching.ran == [("provider", False)]  # 6.2


def test_singleflight_provide_random_tokens(held: HeldProvider) -> None:
    """PT SingleflightProvide: SA, random tokens; though all would share what is kept (4.20)."""
    with providers_of(held, service_account=Tokens(random=True), tokenAttributes=TOKENS) as providers:
        crowd = Crowd(providers, pod=POD)

        def when_all_wait() -> None:
            wait_until(lambda: len(held.processes) == 5)
            held.let_go()

        crowd.rush(when_all_wait, threads=1, tasks=2)
    assert [len(found.credentials) for found in crowd.found] == [1] * 5
    assert len(held.processes) == 5


def test_who_comes_too_late_for_the_run_finds_what_it_gave(held: HeldProvider) -> None:
    """4.12."""
    with providers_of(held) as providers:
        held.let_go()
        crowd = Crowd(providers)
        crowd.rush(lambda: None)
    assert len(crowd.found) == THREADS + len(LOOPS) * TASKS
    assert len(held.processes) == 1


def test_other_images_of_the_registry_have_runs_of_their_own(held: HeldProvider) -> None:
    """4.11: nobody knows yet that the answer is for them, too."""
    with providers_of(held) as providers, ThreadPoolExecutor(3) as pool:
        found = [pool.submit(providers.credentials, f"test.registry.io/{name}") for name in "abc"]
        wait_until(lambda: len(held.processes) == 3)
        held.let_go()
        assert [len(each.result()) for each in found] == [1, 1, 1]
        assert len(providers.credentials("test.registry.io/d")) == 1
    assert len(held.processes) == 3


@pytest.mark.parametrize("kind", LOOPS)
def test_who_waits_for_one_image_does_not_hold_up_who_waits_for_another(kind: str, tmp_path: Path) -> None:
    path = script_of(
        tmp_path / "provider",
        f"""
if json.load(sys.stdin)["image"].endswith("/slow"):
    while not os.path.exists(__file__ + ".go"):
        time.sleep(0.005)
print({says()!r})
""",
    )

    async def main(providers: CredentialProviders) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(providers.acredentials, "test.registry.io/slow")
            await anyio.wait_all_tasks_blocked()
            assert len(await providers.acredentials("test.registry.io/quick")) == 1
            path.with_name("provider.go").touch()

    with CredentialProviders(config_of(tmp_path, entry_of("provider")), tmp_path) as providers:
        anyio.run(main, providers, backend=kind)


def test_there_is_an_end_to_how_many_run_at_once(held: HeldProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_provider, "MOST_AT_ONCE", 3)

    async def main(providers: CredentialProviders) -> None:
        async def ask(number: int) -> None:
            found.append(await providers.acredentials(f"test.registry.io/{number}"))

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(ask, number)
            await anyio.to_thread.run_sync(wait_until, lambda: len(held.processes) == 3)
            assert len(providers._providers[0]._calls) == 8
            held.let_go()

    found: list[object] = []
    with providers_of(held) as providers:
        anyio.run(main, providers)
    assert len(held.processes) == len(found) == 8


def test_a_failure_is_told_to_all_and_each_has_one_of_their_own(held: HeldProvider) -> None:
    held.says(None)
    with providers_of(held) as providers:
        first, flight = flown(providers, held)
        crowd = Crowd(providers)

        def when_all_wait() -> None:
            wait_until(lambda: len(flight._waiters) == THREADS + len(LOOPS))
            held.let_go()

        crowd.rush(when_all_wait)
        first.join()
    failures = [failure for found in crowd.found for failure in found.failures]
    assert len(failures) == len({id(failure) for failure in failures}) == THREADS + len(LOOPS) * TASKS
    assert {(failure.reason, failure.stderr_tail) for failure in failures} == {
        ("exit", "held, and then failed")
    }
    assert all(failure.__traceback__ is None for failure in failures)
    assert len(held.processes) == 1


@pytest.mark.parametrize("kind", LOOPS)
def test_who_is_cancelled_cancels_nobody(kind: str, held: HeldProvider) -> None:
    """Not even the one who started the run."""
    found: list[int] = []

    async def main(providers: CredentialProviders) -> None:
        scope = anyio.CancelScope()

        async def cancelled() -> None:
            with scope:
                await providers.acredentials(IMAGE)
            assert scope.cancelled_caught

        async def waits() -> None:
            found.append(len(await providers.acredentials(IMAGE)))

        async with anyio.create_task_group() as group:
            group.start_soon(cancelled)
            await anyio.to_thread.run_sync(wait_until, lambda: len(held.processes) == 1)
            group.start_soon(waits)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            held.let_go()

    with providers_of(held) as providers:
        anyio.run(main, providers, backend=kind)
    assert found == [1]
    assert len(held.processes) == 1


@pytest.mark.parametrize("kind", LOOPS)
def test_if_all_are_cancelled_what_it_gives_is_there_for_the_next(kind: str, held: HeldProvider) -> None:
    async def main(providers: CredentialProviders) -> None:
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(providers.acredentials, IMAGE)
                await anyio.to_thread.run_sync(wait_until, lambda: len(held.processes) == 1)
                group.cancel_scope.cancel()
        assert not scope.cancelled_caught
        held.let_go()
        assert len(await providers.acredentials(IMAGE)) == 1

    with providers_of(held) as providers:
        anyio.run(main, providers, backend=kind)
    assert len(held.processes) == 1


def test_provide_parallel(tmp_path: Path) -> None:
    """PT ProvideParallel: four registries, five images of each."""
    script = ProviderScript(tmp_path)
    registries = [f"{name}.registry.io" for name in ("test", "a", "b", "c")]
    script.answer({"*.registry.io": ("user", "password")})
    with providers_of(script, match=registries) as providers, ThreadPoolExecutor(20) as pool:
        images = [f"{registry}/image-{number}" for registry in registries for number in range(5)]
        assert [len(found) for found in pool.map(providers.credentials, images)] == [1] * 20
    assert len(script.runs) <= 20


def test_a_signal_handler_does_not_wait_for_what_it_has_interrupted(held: HeldProvider) -> None:
    with providers_of(held) as providers:
        provider = providers._providers[0]
        first, flight = flown(providers, held)
        flight.leader_thread = threading.get_ident()
        with pytest.raises(ProviderError, match="this thread is already waiting for provider provider"):
            provider.get(IMAGE, None)
        held.let_go()
        first.join()


@pytest.mark.load
@pytest.mark.timeout(180)
def test_two_hundred_callers_while_the_password_rotates(tmp_path: Path) -> None:
    """For some seconds, in threads and both kinds of loop: runs are few, and nobody is served yesterday's."""
    seconds, life = 10.0, 0.5
    script = ProviderScript(tmp_path)
    issued: dict[str, float] = {}

    def rotate() -> None:
        word = f"p{len(issued)}"
        script.answer({"*.registry.io": ("user", word)}, cache_duration=f"{life}s")
        issued[word] = time.monotonic()

    rotate()
    end = time.monotonic() + seconds
    lookups = {"threads": 0, "asyncio": 0, "trio": 0}
    seen: set[str] = set()
    late: list[float] = []
    watching = Watching()

    def took(kind: str, password: str) -> None:
        lookups[kind] += 1
        seen.add(password)
        # Nobody has one that was replaced longer ago than what it was kept for, and a run took.
        newer = issued.get(f"p{int(password[1:]) + 1}")
        if newer is not None:
            late.append(time.monotonic() - newer)

    with no_residue(), providers_of(script, match=["*.registry.io"], observer=watching) as providers:

        def threaded() -> None:
            for number in itertools.count():
                if time.monotonic() > end:
                    return
                took("threads", providers.credentials(f"test.registry.io/app-{number % 5}")[0].password)
                time.sleep(0.002)

        async def looped(kind: str) -> None:
            async def caller() -> None:
                for number in itertools.count():
                    if time.monotonic() > end:
                        return
                    found = await providers.acredentials(f"test.registry.io/app-{number % 5}")
                    took(kind, found[0].password)
                    await anyio.sleep(0.02)

            async with anyio.create_task_group() as group:
                for _ in range(90):
                    group.start_soon(caller)

        workers = [threading.Thread(target=threaded) for _ in range(20)]
        workers += [
            threading.Thread(target=lambda kind=kind: anyio.run(looped, kind, backend=kind)) for kind in LOOPS
        ]
        for worker in workers:
            worker.start()
        while time.monotonic() < end:
            time.sleep(0.4)
            rotate()
        for worker in workers:
            worker.join()
    runs = len(watching.ran)
    print(
        f"{sum(lookups.values()):,} lookups {lookups}, {runs} runs, {len(issued)} passwords, latest {max(late):.2f} s"
    )
    assert len(seen) > 3
    assert min(lookups.values()) > 100
    # At the end of each life, five images at the most are asked about at once.
    assert runs <= (seconds / life + 2) * 5
    assert not any(failed for _, failed in watching.ran)
