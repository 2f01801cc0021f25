"""The demo's load: threads on one Client, tasks on one AsyncClient, and a watch on each that stays open."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import kubeauth
from kubeauth.cli._demo_figures import Figures, Finished

# Of a request. A client has none unless it is asked to.
_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Who asks for what, and how often."""

    threads: int
    tasks: int
    every: float
    """Seconds from one request of a caller to its next."""
    path: str
    watched: str | None = None


class Stream:
    """A watch, as its reader sees it."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.events = 0
        self.is_open = False
        self.problem: str | None = None
        self._last: int | None = None

    def received(self, line: str) -> None:
        """Events are numbered, so that one that is missing is noticed."""
        number = int(json.loads(line)["object"]["metadata"]["resourceVersion"])
        if self._last is not None and number != self._last + 1:
            self.problem = "a watch missed an event"
        self.events += 1
        self._last = number


class Load:
    """One Client, one AsyncClient, and all who use them."""

    def __init__(self, config: kubeauth.ClientConfig, plan: Plan, figures: Figures) -> None:
        self.plan = plan
        self.streams = [Stream("Client"), Stream("AsyncClient")] if plan.watched else []
        self._config = config
        self._figures = figures
        self._stop = threading.Event()
        self._client = kubeauth.Client(config, timeout=_TIMEOUT)
        self._threads: list[threading.Thread] = []

    @property
    def status(self) -> kubeauth.Status:
        """How the credential is doing."""
        return self._client.status()

    @property
    def credential(self) -> object:
        """What the clients have now: to be compared, never to be shown."""
        return self._client._kube_transport._source.current

    def ask(self) -> float:
        """One request in this thread: how long it took."""
        begun = time.monotonic()
        self._get(begun)
        return time.monotonic() - begun

    def start(self) -> None:
        """Everybody begins, one after the other."""
        self._threads = [threading.Thread(target=self._run_loop, name="demo-loop", daemon=True)]
        for number in range(self.plan.threads):
            delay = self.plan.every * number / self.plan.threads
            self._threads.append(threading.Thread(target=self._call, args=(delay,), daemon=True))
        if self.plan.watched:
            arguments = self.plan.watched, self.streams[0]
            self._threads.append(threading.Thread(target=self._watch, args=arguments, daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Nobody asks anything new."""
        self._stop.set()

    def join(self) -> None:
        """Returns when the last request is over. The watches must have been ended, after `stop`."""
        for thread in self._threads:
            thread.join()
        for stream in self.streams:
            if stream.problem is not None:
                self._figures.failed(stream.problem)

    def close(self) -> None:
        """Ends a run of the plugin, too, if there is one."""
        self._client.close()

    def _call(self, delay: float) -> None:
        self._stop.wait(delay)
        while not self._stop.is_set():
            begun = time.monotonic()
            self._get(begun)
            self._stop.wait(begun + self.plan.every - time.monotonic())

    def _is_over(self) -> bool:
        expires = self.status.expires
        return expires is not None and expires < datetime.now(UTC)

    def _get(self, begun: float) -> None:
        waits = self._is_over()
        try:
            failure = _failure(self._client.get(self.plan.path).status_code)
        except Exception as error:
            failure = _reason(error)
        self._figures.finished.append(Finished(begun, time.monotonic(), failure, waits))

    def _watch(self, path: str, stream: Stream) -> None:
        try:
            with self._client.stream("GET", path, timeout=None) as response:
                stream.problem = _failure(response.status_code)
                stream.is_open = not stream.problem
                for line in response.iter_lines() if stream.is_open else ():
                    stream.received(line)
        except Exception as error:
            stream.problem = _reason(error)
        self._ended(stream)

    def _ended(self, stream: Stream) -> None:
        stream.is_open = False
        if not self._stop.is_set():
            stream.problem = stream.problem or "a watch ended before its time"

    def _run_loop(self) -> None:
        asyncio.run(self._tasks())

    async def _tasks(self) -> None:
        async with (
            kubeauth.AsyncClient(self._config, timeout=_TIMEOUT) as client,
            asyncio.TaskGroup() as group,
        ):
            for number in range(self.plan.tasks):
                group.create_task(self._acall(client, self.plan.every * number / self.plan.tasks))
            if self.plan.watched:
                group.create_task(self._awatch(client, self.plan.watched, self.streams[1]))

    async def _acall(self, client: kubeauth.AsyncClient, delay: float) -> None:
        await asyncio.sleep(delay)
        while not self._stop.is_set():
            begun, waits = time.monotonic(), self._is_over()
            try:
                failure = _failure((await client.get(self.plan.path)).status_code)
            except Exception as error:
                failure = _reason(error)
            self._figures.finished.append(Finished(begun, time.monotonic(), failure, waits))
            await asyncio.sleep(max(begun + self.plan.every - time.monotonic(), 0.0))

    async def _awatch(self, client: kubeauth.AsyncClient, path: str, stream: Stream) -> None:
        try:
            async with client.stream("GET", path, timeout=None) as response:
                stream.problem = _failure(response.status_code)
                stream.is_open = not stream.problem
                if stream.is_open:
                    async for line in response.aiter_lines():
                        stream.received(line)
        except Exception as error:
            stream.problem = _reason(error)
        self._ended(stream)


def _failure(status: int) -> str | None:
    return None if status == 200 else f"the server answered {status}"


def _reason(error: Exception) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:300]
