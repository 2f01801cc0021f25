"""How many requests a second, by the transport below the client: one caller, and 64 at a time.

    python -m benchmarks.transports [ROUNDS]

Interleaved rounds in one run, on kept-alive TLS connections to a server on loopback, in a process of its own.
Ratios are to plain httpx in the same round. "Processor" is what a request takes of the client's own time,
which others on the machine disturb less than the rest. "Bare" is a library without httpx around it: what
there is to win. Where httpx-aiohttp and pyreqwest are installed they take part.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import httpx2
import urllib3
from rich.console import Console
from rich.progress import track
from rich.table import Table

import kubeauth
import kubeauth.httpx2
import kubeauth.transports
import kubeauth.transports.httpx2
from kubeauth import ClientConfig, Secret

CALLS = {1: 300, 64: 320}
PATH = "/version"
HEADERS = {"Authorization": "Bearer t"}

# Does so many requests, so many of them at a time.
Work = Callable[[int, int], None]


@contextmanager
def server() -> Iterator[tuple[ClientConfig, list[str]]]:
    """Its config, and at the end what it says of itself."""
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.tls_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port, authority = process.stdout.readline().split()
        url = f"https://127.0.0.1:{port}"
        yield ClientConfig(server=url, ca_data=bytes.fromhex(authority), token=Secret("t")), said
        process.stdin.close()
        said += process.stdout.readline().split()


class Bare:
    """http.client, with a connection for each thread; what urllib3 is built on."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._context = kubeauth.ssl_context(config)
        self._own = threading.local()

    def get(self, path: str) -> bytes:
        if not hasattr(self._own, "connection"):
            place = urlsplit(self._config.server).netloc
            self._own.connection = http.client.HTTPSConnection(place, context=self._context)
        self._own.connection.request("GET", path, headers=HEADERS)
        return bytes(self._own.connection.getresponse().read())


class BareUrllib3:
    def __init__(self, config: ClientConfig) -> None:
        self._url = config.server
        self._pool = urllib3.PoolManager(ssl_context=kubeauth.ssl_context(config), maxsize=100)

    def get(self, path: str) -> bytes:
        return self._pool.request("GET", self._url + path, headers=HEADERS).data


class BareAiohttp:
    def __init__(self, config: ClientConfig) -> None:
        connector = aiohttp.TCPConnector(ssl=kubeauth.ssl_context(config), limit=0)
        self._session = aiohttp.ClientSession(config.server, connector=connector)

    async def get(self, path: str) -> bytes:
        async with self._session.get(path, headers=HEADERS) as response:
            return await response.read()

    async def aclose(self) -> None:
        await self._session.close()


def plain(library: Any, client: Any, config: ClientConfig, transport: Any = None) -> Any:
    # As kubeauth has them: httpx looks at each idle connection for each request, so their number matters.
    limits = library.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=90.0)
    below = {"verify": kubeauth.ssl_context(config), "limits": limits}
    if transport is not None:
        below = {"transport": transport}
    return client(base_url=config.server, headers=HEADERS, timeout=None, **below)


def sync_clients(config: ClientConfig) -> dict[str, Any]:
    found = {
        "httpx": plain(httpx, httpx.Client, config),
        "httpx2": plain(httpx2, httpx2.Client, config),
        "kubeauth": kubeauth.Client(config),
        "kubeauth.httpx2": kubeauth.httpx2.Client(config),
        "kubeauth, direct": kubeauth.Client(config, transport_factory=kubeauth.transports.DirectTransport),
        "kubeauth.httpx2, direct": kubeauth.httpx2.Client(
            config, transport_factory=kubeauth.transports.httpx2.DirectTransport
        ),
        "urllib3, bare": BareUrllib3(config),
        "http.client, bare": Bare(config),
    }
    if find_spec("pyreqwest") is not None:
        found["httpx, pyreqwest"] = plain(httpx, httpx.Client, config, pyreqwest("Sync", config))
    return found


async def async_clients(config: ClientConfig) -> dict[str, Any]:
    found = {
        "httpx": plain(httpx, httpx.AsyncClient, config),
        "httpx2": plain(httpx2, httpx2.AsyncClient, config),
        "kubeauth": kubeauth.AsyncClient(config),
        "kubeauth.httpx2": kubeauth.httpx2.AsyncClient(config),
        "kubeauth, direct": kubeauth.AsyncClient(
            config, transport_factory=kubeauth.transports.AsyncDirectTransport
        ),
        "kubeauth.httpx2, direct": kubeauth.httpx2.AsyncClient(
            config, transport_factory=kubeauth.transports.httpx2.AsyncDirectTransport
        ),
        "aiohttp, bare": BareAiohttp(config),
    }
    if find_spec("httpx_aiohttp") is not None:
        theirs = import_module("httpx_aiohttp").AiohttpTransport

        def create(context: ssl.SSLContext, proxy: object) -> Any:
            return theirs(verify=context, limits=httpx.Limits(max_connections=1000))

        found["kubeauth, httpx-aiohttp"] = kubeauth.AsyncClient(config, transport_factory=create)
    if find_spec("pyreqwest") is not None:
        found["httpx, pyreqwest"] = plain(httpx, httpx.AsyncClient, config, pyreqwest("", config))
    return found


def pyreqwest(colour: str, config: ClientConfig) -> Any:
    """It takes no SSLContext, so there is no kubeauth above it."""
    builder = getattr(import_module("pyreqwest.client"), f"{colour}ClientBuilder")()
    client = builder.add_root_certificate_pem(config.ca_data).build()
    return getattr(import_module("pyreqwest.compatibility.httpx"), f"{colour}HttpxTransport")(client)


def in_threads(client: Any, pool: ThreadPoolExecutor) -> Work:
    def some(count: int) -> None:
        for _ in range(count):
            client.get(PATH)

    def work(count: int, at_a_time: int) -> None:
        if at_a_time == 1:
            some(count)
        else:
            list(pool.map(some, [count // at_a_time] * at_a_time))

    return work


def in_tasks(client: Any, runner: asyncio.Runner) -> Work:
    async def some(count: int) -> None:
        for _ in range(count):
            await client.get(PATH)

    async def work(count: int, at_a_time: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_a_time):
                group.create_task(some(count // at_a_time))

    return lambda count, at_a_time: runner.run(work(count, at_a_time))


def measure(
    contenders: dict[str, Work], at_a_time: int, rounds: int, label: str
) -> dict[str, tuple[list[float], list[float]]]:
    """Requests a second, and microseconds of processor for each, per round and contender, in turn."""
    calls = CALLS[at_a_time]
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in contenders}
    names = list(contenders)
    for work in contenders.values():
        work(at_a_time, at_a_time)
    for number in track(range(rounds), label, console=Console(stderr=True), transient=True):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            gc.disable()
            begun, processor = time.perf_counter(), time.process_time()
            contenders[name](calls, at_a_time)
            found[name][0].append(calls / (time.perf_counter() - begun))
            found[name][1].append((time.process_time() - processor) / calls * 1e6)
            gc.enable()
    return found


def table_of(title: str, found: dict[str, tuple[list[float], list[float]]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", "requests/s", "to httpx", "spread", "processor", "to httpx"):
        table.add_column(column, justify="right" if column else "left")
    for name, (speed, processor) in found.items():
        ratios = [mine / theirs for mine, theirs in zip(speed, found["httpx"][0], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        saved = statistics.median(found["httpx"][1]) / statistics.median(processor)
        table.add_row(
            name,
            f"{statistics.median(speed):,.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{low:.2f} - {high:.2f}",
            f"{statistics.median(processor):,.0f} us",
            f"{saved:.2f}",
        )
    return table


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    tables: list[Table] = []
    with server() as (config, said), asyncio.Runner() as runner, ThreadPoolExecutor(64) as pool:
        blocking, waiting = sync_clients(config), runner.run(async_clients(config))
        for colour, clients in (("sync", blocking), ("asyncio", waiting)):
            contenders = {
                name: in_threads(client, pool) if colour == "sync" else in_tasks(client, runner)
                for name, client in clients.items()
            }
            for at_a_time in CALLS:
                title = f"{colour}, {at_a_time} at a time"
                tables.append(table_of(title, measure(contenders, at_a_time, rounds, title)))
        for client in waiting.values():
            runner.run(client.aclose())
    console = Console(width=110)
    for table in tables:
        console.print(table)
    console.print(
        f"{rounds} interleaved rounds; spread: the middle half. The server took {said[1]} us of processor "
        f"time for each of {said[0]} requests."
    )


if __name__ == "__main__":
    main()
