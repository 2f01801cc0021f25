"""A thousand callers at once: 20 threads, two asyncio loops and one of trio, released by one barrier."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx

import kubeauth
from kubeauth import ClientConfig, ExecConfig
from kubeauth.testing import FakeClock
from kubeauth.testing._programs import build_shebang

THREADS = 20
# Kind, and how many tasks it has.
LOOPS = (("asyncio", 327), ("asyncio", 327), ("trio", 326))

_SCRIPT = """{shebang}
import os, sys, time
here = os.path.abspath(__file__)
runs = os.open(here + ".runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, b"x")
os.close(runs)
while not os.path.exists(here + ".go"):
    time.sleep(0.005)
with open(here + ".says", encoding="utf-8") as file:
    says = file.read()
sys.stdout.write(says)
sys.exit(0 if says else 7)
"""


class HeldPlugin:
    """A plugin that answers when it is let go."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "plugin"
        self.path.write_text(_SCRIPT.format(shebang=build_shebang(sys.executable)))
        self.path.chmod(0o700)
        self.says("t1")

    def says(self, token: str | None, expires: str | None = None) -> None:
        """Nothing, and exit status 7, without a token."""
        status = {"token": token, "expirationTimestamp": expires}
        document = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        Path(f"{self.path}.says").write_text(json.dumps(document) if token else "")

    def hold(self) -> None:
        Path(f"{self.path}.go").unlink(missing_ok=True)

    def let_go(self) -> None:
        Path(f"{self.path}.go").touch()

    @property
    def runs(self) -> int:
        try:
            return os.path.getsize(f"{self.path}.runs")
        except FileNotFoundError:
            return 0

    def config(self, **fields: Any) -> ClientConfig:
        plugin = ExecConfig(
            command=str(self.path),
            api_version="client.authentication.k8s.io/v1",
            interactive_mode="Never",
            **fields,
        )
        # Nothing is verified in memory, and the system's CAs need not be read.
        return ClientConfig(server="https://cluster.test", insecure_skip_tls_verify=True, exec=plugin)


class Cluster:
    """Answers in memory: 200 to the tokens it knows, 401 to all others."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.seen: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        self.seen.append(token)
        return httpx.Response(200 if token in self.tokens else 401, request=request)


class Crowd:
    """Clients that are configured alike, in threads and in loops. `outcomes` has one entry for each caller."""

    def __init__(self, config: ClientConfig, cluster: Cluster, clock: FakeClock) -> None:
        self._mock = httpx.MockTransport(cluster)
        self._config = config
        self._clock = clock
        self.outcomes: list[object] = []

    def rush(self, *, when_all_wait: Callable[[], None], cancelled: int = 0) -> None:
        """All call at once; `when_all_wait` is called when the last has. The first of each loop's are cancelled."""
        barrier = threading.Barrier(THREADS + len(LOOPS))
        loops = [
            threading.Thread(target=self._loop, args=(kind, tasks, barrier, cancelled))
            for kind, tasks in LOOPS
        ]
        threads = [threading.Thread(target=self._thread, args=(barrier,)) for _ in range(THREADS)]
        self._left = threading.Barrier(len(LOOPS) + 1)
        for thread in [*loops, *threads]:
            thread.start()
        self._left.wait()
        when_all_wait()
        for thread in [*loops, *threads]:
            thread.join()

    def _thread(self, barrier: threading.Barrier) -> None:
        with kubeauth.KubeTransport(
            self._config, transport_factory=lambda *_: self._mock, clock=self._clock
        ) as transport:
            barrier.wait()
            try:
                outcome: object = transport.handle_request(_request()).status_code
            except Exception as error:
                outcome = error
            self.outcomes.append(outcome)

    def _loop(self, kind: str, tasks: int, barrier: threading.Barrier, cancelled: int) -> None:
        anyio.run(self._tasks, tasks, barrier, cancelled, backend=kind)

    async def _tasks(self, count: int, barrier: threading.Barrier, cancelled: int) -> None:
        transport = kubeauth.AsyncKubeTransport(
            self._config, transport_factory=lambda *_: self._mock, clock=self._clock
        )
        called = 0
        scopes = [anyio.CancelScope() for _ in range(cancelled)]

        async def call(scope: anyio.CancelScope | None) -> None:
            nonlocal called
            called += 1  # and in the same step as far as it gets
            outcome: object = "cancelled"
            with scope or anyio.CancelScope():
                try:
                    outcome = (await transport.handle_async_request(_request())).status_code
                except Exception as error:
                    outcome = error
            self.outcomes.append(outcome)

        await anyio.to_thread.run_sync(barrier.wait)
        async with transport, anyio.create_task_group() as group:
            for scope in scopes:
                group.start_soon(call, scope)
            for _ in range(count - cancelled):
                group.start_soon(call, None)
            await _until(lambda: called == count)
            for scope in scopes:
                scope.cancel()
            await anyio.to_thread.run_sync(self._left.wait)


async def _until(claim: Callable[[], bool]) -> None:
    while not claim():  # noqa: ASYNC110 -- what it waits for does not know of it
        await anyio.sleep(0.001)


def _request() -> httpx.Request:
    return httpx.Request("GET", "https://cluster.test/version")
