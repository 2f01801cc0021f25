"""What a request costs through kubeauth, beside the same request on plain httpx.

    make bench      or      python -m benchmarks.cost [ROUNDS]

Two measurements, each interleaved in one run. In memory: an inner transport that answers at once, so that
what is left is what kubeauth adds, in microseconds, per 1,000 calls. On loopback: a kept-alive TLS
connection to a server in another process, ratio per round. "plain again" is plain httpx a second time: how
much of a difference is noise.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
from rich.console import Console
from rich.progress import track
from rich.table import Table

import kubeauth
import kubeauth.httpx2
from kubeauth import ClientConfig, Secret

IN_MEMORY_CALLS = 1_000
LOOPBACK_CALLS = 300
LIBRARIES: list[tuple[Any, Any]] = [(httpx, kubeauth), (httpx2, kubeauth.httpx2)]

SERVER = """
import sys
from kubeauth.testing import APIServer
with APIServer(tokens={"t": "alice"}) as server:
    print(server.url, server.authority.pem.hex(), flush=True)
    sys.stdin.read()
"""

# Seconds for `count` requests.
Timed = Callable[[int], float]


def timed(client: Any, runner: asyncio.Runner | None) -> Timed:
    """A function that times so many requests of a client of either colour."""

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


def rounds_of(contenders: dict[str, Timed], calls: int, rounds: int, label: str) -> dict[str, list[float]]:
    """Microseconds per request, per round and contender, in turning order."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for each in contenders.values():
        each(calls)
    gc.collect()
    gc.disable()
    for number in track(range(rounds), label, console=Console(stderr=True), transient=True):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(contenders[name](calls) / calls * 1e6)
    gc.enable()
    return found


def in_memory(library: Any, ours: Any, runner: asyncio.Runner | None) -> dict[str, Timed]:
    is_async = runner is not None
    base = library.AsyncBaseTransport if is_async else library.BaseTransport

    class Memory(base):  # type: ignore[misc,valid-type]
        def handle_request(self, request: Any) -> Any:
            return library.Response(200, stream=library.ByteStream(b"{}"))

        async def handle_async_request(self, request: Any) -> Any:
            return library.Response(200, stream=library.ByteStream(b"{}"))

    plain = library.AsyncClient if is_async else library.Client
    mine = ours.AsyncClient if is_async else ours.Client
    config = ClientConfig(server="https://h:6443", token=Secret("t"))
    headers = {"Authorization": "Bearer t"}

    def make() -> Any:
        return plain(transport=Memory(), base_url=config.server, headers=headers)

    return {
        "plain": timed(make(), runner),
        "kubeauth": timed(mine(config, inner=lambda _context, _proxy: Memory()), runner),
        "plain again": timed(make(), runner),
    }


@contextmanager
def server() -> Iterator[ClientConfig]:
    """In a process of its own: it must not share the interpreter with the clients."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url, authority = process.stdout.readline().split()
        yield ClientConfig(server=url, ca_data=bytes.fromhex(authority), token=Secret("t"))
        process.stdin.close()


def on_loopback(
    library: Any, ours: Any, runner: asyncio.Runner | None, config: ClientConfig
) -> dict[str, Timed]:
    plain = library.AsyncClient if runner else library.Client
    mine = ours.AsyncClient if runner else ours.Client
    headers = {"Authorization": "Bearer t"}

    def make() -> Any:
        return plain(base_url=config.server, verify=kubeauth.ssl_context(config), headers=headers)

    return {
        "plain": timed(make(), runner),
        "kubeauth": timed(mine(config), runner),
        "plain again": timed(make(), runner),
    }


def spread(values: list[float], digits: int) -> str:
    """The middle half."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.{digits}f} - {high:.{digits}f}"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    table = Table(
        title=f"per request; {rounds} interleaved rounds; spread: the middle half", title_justify="left"
    )
    for column in (
        "",
        "plain",
        "kubeauth adds",
        "spread",
        "ratio on loopback",
        "spread",
        "plain again",
        "spread",
    ):
        table.add_column(column, justify="right" if column else "left")
    with server() as config, asyncio.Runner() as loop:
        for library, ours in LIBRARIES:
            for colour, runner in (("sync", None), ("asyncio", loop)):
                name = f"{library.__name__} {colour}"
                memory = rounds_of(
                    in_memory(library, ours, runner), IN_MEMORY_CALLS, rounds, f"{name}, in memory"
                )
                added = [
                    mine - theirs for mine, theirs in zip(memory["kubeauth"], memory["plain"], strict=True)
                ]
                wire = rounds_of(
                    on_loopback(library, ours, runner, config), LOOPBACK_CALLS, rounds, f"{name}, loopback"
                )
                ratios, noise = (
                    [mine / theirs for mine, theirs in zip(wire[who], wire["plain"], strict=True)]
                    for who in ("kubeauth", "plain again")
                )
                table.add_row(
                    name,
                    f"{statistics.median(wire['plain']):.0f} us",
                    f"{statistics.median(added):.1f} us",
                    spread(added, 1),
                    f"{statistics.median(ratios):.3f}",
                    spread(ratios, 3),
                    f"{statistics.median(noise):.3f}",
                    spread(noise, 3),
                )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
