"""What kubeauth adds to a request, in microseconds: over a transport that answers at once."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import httpx
import httpx2

import kubeauth
import kubeauth.httpx2
from benchmarks import figures, markdown
from benchmarks.results import Results
from benchmarks.stage import Round, Rounds, Stage
from benchmarks.telling import Told, values
from kubeauth import ClientConfig, Secret

LIBRARIES: list[tuple[Any, Any]] = [(httpx, kubeauth), (httpx2, kubeauth.httpx2)]
# Seconds for `count` requests.
Timed = Callable[[int], float]


def timed(client: Any, runner: asyncio.Runner | None) -> Timed:
    """Times so many requests of a client of either colour."""

    def synchronous(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            client.get("/version")
        return time.perf_counter() - start

    async def asynchronous(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            await client.get("/version")
        return time.perf_counter() - start

    return synchronous if runner is None else lambda count: runner.run(asynchronous(count))


def contenders(
    library: Any, ours: Any, runner: asyncio.Runner | None, with_plugin: ClientConfig
) -> dict[str, Timed]:
    is_async = runner is not None
    base = library.AsyncBaseTransport if is_async else library.BaseTransport

    class Memory(base):  # type: ignore[misc,valid-type]
        def handle_request(self, request: Any) -> Any:
            return library.Response(200, stream=library.ByteStream(b"{}"))

        async def handle_async_request(self, request: Any) -> Any:
            return library.Response(200, stream=library.ByteStream(b"{}"))

    plain = library.AsyncClient if is_async else library.Client
    mine = ours.AsyncClient if is_async else ours.Client
    static = ClientConfig(server="https://h:6443", token=Secret("t"))

    def alone() -> Timed:
        headers = {"Authorization": "Bearer t"}
        return timed(plain(transport=Memory(), base_url=static.server, headers=headers), runner)

    def with_kubeauth(config: ClientConfig) -> Timed:
        return timed(mine(config, transport_factory=lambda _context, _proxy: Memory()), runner)

    return {
        "plain": alone(),
        "static": with_kubeauth(static),
        "plugin": with_kubeauth(with_plugin),
        "again": alone(),
    }


def measure(stage: Stage) -> Rounds:
    config = kubeauth.load_config(stage.server.with_plugin(stage.new_run()))
    rounds: Rounds = {}
    with asyncio.Runner() as loop:
        for library, ours in LIBRARIES:
            for colour, runner in (("sync", None), ("async", loop)):
                name = f"{library.__name__} {colour}"
                rounds[name] = of_one(stage, name, contenders(library, ours, runner, config))
    return rounds


def of_one(stage: Stage, name: str, timers: dict[str, Timed]) -> list[Round]:
    calls = stage.sizes.added_calls
    for timer in timers.values():
        timer(calls)
    gc.collect()
    gc.disable()
    try:
        found = stage.measure(
            f"in memory, {name}",
            list(timers),
            stage.sizes.added_rounds,
            lambda who: {"us": timers[who](calls) / calls * 1e6},
        )
    finally:
        gc.enable()
    columns = {who: values(rounds, "us") for who, rounds in found.items()}
    return [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]


def tell(results: Results) -> Told:
    told = Told(
        markdown.prose("""
        Microseconds per request over a transport in memory that answers at once, so that nothing is left
        but the library: plain httpx or httpx2, and what kubeauth's client adds to it, with a static token
        and with a plugin's. `noise` is plain once more.
        """)
    )
    rows = []
    for name, mine in results.found["added"].items():
        plain = values(mine, "plain")
        added = [
            figures.spread([each[field] - each["plain"] for each in mine])
            for field in ("static", "plugin", "again")
        ]
        told_added = [f"{each.middle:.1f} us ({each.low:.1f} - {each.high:.1f})" for each in added]
        rows.append([name, f"{figures.spread(plain).middle:.0f} us", *told_added])
    head = ["", "plain", "kubeauth, static token", "kubeauth, plugin", "noise"]
    told.text += "\n" + markdown.table(head, rows)
    return told
