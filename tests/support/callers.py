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
# The backend and the number of its tasks.
LOOPS = (("asyncio", 327), ("asyncio", 327), ("trio", 326))

_SCRIPT = """{shebang}
import os, sys, time
here = os.path.abspath(__file__)
runs = os.open(here + ".runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, b"x")
os.close(runs)
while not os.path.exists(here + ".released"):
    time.sleep(0.005)
with open(here + ".output", encoding="utf-8") as file:
    output = file.read()
sys.stdout.write(output)
sys.exit(0 if output else 7)
"""


class BlockingPlugin:
    """A plugin that prints its credential when it is released."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "plugin"
        self.path.write_text(_SCRIPT.format(shebang=build_shebang(sys.executable)))
        self.path.chmod(0o700)
        self.set_token("t1")

    def set_token(self, token: str | None, expires: str | None = None) -> None:
        """The token to print. With None the plugin prints nothing and exits with status 7."""
        status = {"token": token, "expirationTimestamp": expires}
        document = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        Path(f"{self.path}.output").write_text(json.dumps(document) if token else "")

    def block(self) -> None:
        Path(f"{self.path}.released").unlink(missing_ok=True)

    def release(self) -> None:
        Path(f"{self.path}.released").touch()

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
        # Requests are answered in memory, and loading the CAs of the system would take time.
        return ClientConfig(server="https://cluster.test", insecure_skip_tls_verify=True, exec=plugin)


class Cluster:
    """Responds in memory: 200 for its tokens, 401 for all others."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.seen: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        self.seen.append(token)
        return httpx.Response(200 if token in self.tokens else 401, request=request)


class ConcurrentCallers:
    """Clients with the same config, in threads and event loops. `outcomes` has one entry for each caller."""

    def __init__(self, config: ClientConfig, cluster: Cluster, clock: FakeClock) -> None:
        self._mock = httpx.MockTransport(cluster)
        self._config = config
        self._clock = clock
        self.outcomes: list[object] = []

    def run(self, *, when_all_wait: Callable[[], None], cancelled: int = 0) -> None:
        """All callers send a request at once; then call `when_all_wait`.

        The first `cancelled` tasks of each event loop are cancelled before.
        """
        barrier = threading.Barrier(THREADS + len(LOOPS))
        loops = [
            threading.Thread(target=self._loop, args=(kind, tasks, barrier, cancelled))
            for kind, tasks in LOOPS
        ]
        threads = [threading.Thread(target=self._thread, args=(barrier,)) for _ in range(THREADS)]
        self._all_called = threading.Barrier(len(LOOPS) + 1)
        for thread in [*loops, *threads]:
            thread.start()
        self._all_called.wait()
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
            called += 1  # the task continues up to its first wait in the same step
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
            await _wait_until(lambda: called == count)
            for scope in scopes:
                scope.cancel()
            await anyio.to_thread.run_sync(self._all_called.wait)


async def _wait_until(claim: Callable[[], bool]) -> None:
    while not claim():  # noqa: ASYNC110 -- a counter has no event
        await anyio.sleep(0.001)


def _request() -> httpx.Request:
    return httpx.Request("GET", "https://cluster.test/version")
