"""One client in a process of its own, which does as it is told: an order per line of stdin, an answer each.

    python -m benchmarks.worker MODULE FACE            orders, until stdin ends
    python -m benchmarks.worker MODULE FACE KUBECONFIG one request, then "done" and the end

benchmarks/go/client speaks the same. Little is imported here: what a process costs should be its client's.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.clients.opened import AsyncOpened, Opened

NAMESPACES = 4
Order = dict[str, Any]


class WrongAnswer(Exception):
    """The client has answered, and not with the namespaces there are."""


def failure(error: BaseException) -> str:
    """What it was, without its text: that may hold a path or a token."""
    response = getattr(error, "response", None)
    status = next(
        (
            each
            for each in (
                getattr(error, "status", None),
                getattr(error, "code", None),
                getattr(error, "status_code", None),
                getattr(response, "status_code", None),
                getattr(getattr(error, "status", None), "code", None),
            )
            if isinstance(each, int)
        ),
        None,
    )
    name = type(error).__name__
    return name if status is None else f"{name} {status}"


def checked(count: int) -> None:
    if count != NAMESPACES:
        raise WrongAnswer


def microseconds(since: float) -> int:
    return int((time.perf_counter() - since) * 1e6)


def resident_bytes() -> int:
    """What this process holds in memory now; the most it ever held, where the system tells no more."""
    try:
        with open("/proc/self/smaps_rollup") as file:
            return 1024 * next(int(line.split()[1]) for line in file if line.startswith("Rss:"))
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def many_files() -> None:
    """A thousand connections, and a thousand plugins with their pipes."""
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Threads:
    """A client that blocks: concurrent callers are threads."""

    def __init__(self, module: Any, face: str) -> None:
        self.face: Callable[[str], Opened] = getattr(module, face)
        self.load_config: Callable[[str], object] | None = getattr(module, "load", None)
        self.client: Opened | None = None
        self.fleet_of: list[Opened] = []

    def run(self, order: Order) -> Order:
        method: Callable[..., Order] = getattr(self, order.pop("do"))
        return method(**order)

    def open(self, kubeconfig: str) -> Order:
        start = time.perf_counter()
        self.client = self.face(kubeconfig)
        return {"us": microseconds(start)}

    def ask(self) -> Order:
        assert self.client
        start = time.perf_counter()
        checked(self.client.ask())
        return {"us": microseconds(start)}

    def warm(self, callers: int, seconds: float) -> Order:
        """Each caller asks again as soon as it has its answer."""
        assert self.client
        ask = self.client.ask
        found: list[list[int]] = [[] for _ in range(callers)]
        failures: Counter[str] = Counter()
        begin = threading.Barrier(callers + 1)

        def caller(mine: list[int]) -> None:
            begin.wait()
            end = time.perf_counter() + seconds
            while (start := time.perf_counter()) < end:
                try:
                    checked(ask())
                    mine.append(microseconds(start))
                except Exception as error:
                    failures[failure(error)] += 1

        threads = [threading.Thread(target=caller, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        begin.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        elapsed = microseconds(start)
        return {"us": elapsed, "latencies": [took for mine in found for took in mine], "failures": failures}

    def crowd(self, callers: int) -> Order:
        """Everybody at once, once each."""
        assert self.client
        ask = self.client.ask
        outcomes: Counter[str] = Counter()
        begin = threading.Barrier(callers + 1)

        def caller() -> None:
            begin.wait()
            try:
                checked(ask())
                outcomes["ok"] += 1
            except Exception as error:
                outcomes[failure(error)] += 1

        threads = [threading.Thread(target=caller) for _ in range(callers)]
        for thread in threads:
            thread.start()
        begin.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        return {"us": microseconds(start), "ok": outcomes.pop("ok", 0), "failures": outcomes}

    def steady(
        self, seconds: float, pause: float, beside: list[str] | None = None, every: float = 1.0
    ) -> Order:
        """One caller for a while: when it asked, how long that took, and whether it failed."""
        assert self.client
        samples: list[tuple[int, int, int]] = []
        failures: Counter[str] = Counter()
        over = threading.Event()
        other = threading.Thread(target=start_again, args=(beside, every, over))
        if beside:
            other.start()
        begin = time.perf_counter()
        while (start := time.perf_counter()) - begin < seconds:
            failed = 0
            try:
                checked(self.client.ask())
            except Exception as error:
                failures[failure(error)] += 1
                failed = 1
            samples.append((int((start - begin) * 1e6), microseconds(start), failed))
            time.sleep(pause)
        over.set()
        if beside:
            other.join()
        return {"samples": samples, "failures": failures}

    def load(self, kubeconfig: str) -> Order:
        assert self.load_config
        start = time.perf_counter()
        self.load_config(kubeconfig)
        return {"us": microseconds(start)}

    def fleet(self, kubeconfigs: list[str]) -> Order:
        """A client per cluster, each of which has asked once and keeps its connection."""
        before, start = resident_bytes(), time.perf_counter()
        for kubeconfig in kubeconfigs:
            client = self.face(kubeconfig)
            checked(client.ask())
            self.fleet_of.append(client)
        return {"bytes": resident_bytes() - before, "us": microseconds(start)}

    def close(self) -> Order:
        assert self.client
        self.client.close()
        return {}


def start_again(command: list[str], every: float, over: threading.Event) -> None:
    """What starting a process costs whoever shares this one with it."""
    import subprocess

    while not over.wait(every):
        subprocess.run(command, capture_output=True, check=True)


class Tasks:
    """A client for event loops: concurrent callers are tasks, on one loop for all orders."""

    def __init__(self, module: Any, face: str) -> None:
        import asyncio

        self.asyncio = asyncio
        self.loop = asyncio.Runner()
        self.face: Callable[[str], Any] = getattr(module, face)
        self.load_config: Callable[[str], Any] | None = getattr(module, "load", None)
        self.client: AsyncOpened | None = None
        self.fleet_of: list[AsyncOpened] = []

    def run(self, order: Order) -> Order:
        method: Callable[..., Any] = getattr(self, order.pop("do"))
        answer: Order = self.loop.run(method(**order))
        return answer

    async def open(self, kubeconfig: str) -> Order:
        start = time.perf_counter()
        self.client = await self.face(kubeconfig)
        return {"us": microseconds(start)}

    async def ask(self) -> Order:
        assert self.client
        start = time.perf_counter()
        checked(await self.client.ask())
        return {"us": microseconds(start)}

    async def warm(self, callers: int, seconds: float) -> Order:
        assert self.client
        ask = self.client.ask
        found: list[int] = []
        failures: Counter[str] = Counter()
        begin = time.perf_counter()
        end = begin + seconds

        async def caller() -> None:
            while (start := time.perf_counter()) < end:
                try:
                    checked(await ask())
                    found.append(microseconds(start))
                except Exception as error:
                    failures[failure(error)] += 1

        await self.asyncio.gather(*(caller() for _ in range(callers)))
        return {"us": microseconds(begin), "latencies": found, "failures": failures}

    async def crowd(self, callers: int) -> Order:
        assert self.client
        ask = self.client.ask
        outcomes: Counter[str] = Counter()

        async def caller() -> None:
            try:
                checked(await ask())
                outcomes["ok"] += 1
            except Exception as error:
                outcomes[failure(error)] += 1

        start = time.perf_counter()
        await self.asyncio.gather(*(caller() for _ in range(callers)))
        return {"us": microseconds(start), "ok": outcomes.pop("ok", 0), "failures": outcomes}

    async def steady(self, seconds: float, pause: float) -> Order:
        assert self.client
        samples: list[tuple[int, int, int]] = []
        failures: Counter[str] = Counter()
        begin = time.perf_counter()
        while (start := time.perf_counter()) - begin < seconds:
            failed = 0
            try:
                checked(await self.client.ask())
            except Exception as error:
                failures[failure(error)] += 1
                failed = 1
            samples.append((int((start - begin) * 1e6), microseconds(start), failed))
            await self.asyncio.sleep(pause)
        return {"samples": samples, "failures": failures}

    async def stall(self, kubeconfig: str, beat: float) -> Order:
        """The longest that the loop did nothing else while a client was opened and asked once."""
        longest = 0

        async def heart() -> None:
            nonlocal longest
            while True:
                start = time.perf_counter()
                await self.asyncio.sleep(beat)
                longest = max(longest, microseconds(start) - int(beat * 1e6))

        beating = self.asyncio.create_task(heart())
        await self.asyncio.sleep(2 * beat)
        start = time.perf_counter()
        client = await self.face(kubeconfig)
        checked(await client.ask())
        elapsed = microseconds(start)
        await self.asyncio.sleep(2 * beat)
        beating.cancel()
        await client.close()
        return {"longest": longest, "us": elapsed}

    async def load(self, kubeconfig: str) -> Order:
        assert self.load_config
        start = time.perf_counter()
        loaded = self.load_config(kubeconfig)
        if inspect.isawaitable(loaded):
            await loaded
        return {"us": microseconds(start)}

    async def fleet(self, kubeconfigs: list[str]) -> Order:
        before, start = resident_bytes(), time.perf_counter()
        for kubeconfig in kubeconfigs:
            client = await self.face(kubeconfig)
            checked(await client.ask())
            self.fleet_of.append(client)
        return {"bytes": resident_bytes() - before, "us": microseconds(start)}

    async def close(self) -> Order:
        assert self.client
        await self.client.close()
        return {}


def main() -> None:
    module, face, *once = sys.argv[1:]
    start = time.perf_counter()
    client = importlib.import_module(f"benchmarks.clients.{module}")
    worker: Threads | Tasks
    worker = Threads(client, face) if face.startswith("sync") else Tasks(client, face)
    if once:
        worker.run({"do": "open", "kubeconfig": once[0]})
        worker.run({"do": "ask"})
        print("done", flush=True)
        return
    many_files()
    say({"us": microseconds(start)})
    for line in sys.stdin:
        try:
            say(worker.run(json.loads(line)))
        except Exception as error:
            say({"error": failure(error)})


def say(answer: Order) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
