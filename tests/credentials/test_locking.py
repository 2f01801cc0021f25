"""Concurrent callers: what one of them does while another is in the middle of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from kubeauth._credentials.cache import SourceCache
from kubeauth._credentials.credential import Unauthorized
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth.testing import FakeClock
from tests.support.idle_threads import wait_for_idle_threads
from tests.support.observers import NullObserver
from tests.support.scripted import ScriptedPlugin
from tests.support.waiters import wait_for_waiting_tasks


class Pause:
    """Holds the first caller that gets there, until the second waits for a lock or, without one, has returned."""

    def __init__(self) -> None:
        self.count = 0
        self._is_reached = threading.Event()
        self._may_continue = threading.Event()

    def wait(self) -> None:
        """Called where the first caller is to be held. Later callers are only counted."""
        self.count += 1
        if self.count == 1:
            self._is_reached.set()
            assert self._may_continue.wait(60)

    def run_both(self, call: Callable[[], Any]) -> list[Any]:
        """Call in one thread until it is held, then in another. Return both results."""
        with ThreadPoolExecutor(2) as pool:
            try:
                first = pool.submit(call)
                assert self._is_reached.wait(60)
                second = pool.submit(call)
                wait_for_idle_threads()
            finally:
                self._may_continue.set()
            return [first.result(60), second.result(60)]


def test_two_clients_that_are_created_at_once_share_a_source() -> None:
    clock, pause, cache = FakeClock(), Pause(), SourceCache()

    def make() -> RefreshableSource:
        pause.wait()
        plugin: Any = ScriptedPlugin(clock)
        return RefreshableSource(plugin, clock, NullObserver())

    first, second = pause.run_both(lambda: cache.source(b"hash", clock, make))

    assert first is second
    assert pause.count == 1


def test_two_401s_at_once_run_the_provider_once() -> None:
    clock, pause = FakeClock(), Pause()
    plugin: Any = ScriptedPlugin(clock)
    is_loaded = False

    def jitter() -> float:
        # Called between the decision that a 401 may run the provider, and the run.
        if is_loaded and plugin.runs == 1:
            pause.wait()
        return 0.5

    source = RefreshableSource(plugin, clock, NullObserver(), jitter=jitter)
    rejected = Unauthorized(source.get(), "https://h")
    is_loaded = True

    first, second = pause.run_both(lambda: source.get(rejected))

    assert first is second
    assert first is not rejected.credential
    assert plugin.runs == 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_of_all_tasks_of_an_event_loop_one_waits_in_a_thread(backend: str) -> None:
    clock = FakeClock()
    plugin: Any = ScriptedPlugin(clock)
    plugin.may_go.clear()
    source = RefreshableSource(plugin, clock, NullObserver())
    received: list[str | None] = []

    async def get() -> None:
        received.append((await source.aget()).authorization)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            try:
                for _ in range(20):
                    group.start_soon(get)
                await wait_for_waiting_tasks(source, 20)
                assert source._call is not None
                assert len(source._call._waiters) == 1
            finally:
                plugin.may_go.set()

    anyio.run(main, backend=backend)

    assert received == ["Bearer t1"] * 20
    assert plugin.runs == 1
