"""gunicorn with four workers, as a subprocess."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from kubeauth.testing import Answer, APIServer, Received

WORKERS = 4
ROOT = Path(__file__).parents[2]
# Long enough for a busy machine.
LONG = 60.0


class Gunicorn:
    """A running gunicorn: its output, and a client for its application."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self.output: list[str] = []
        self.served: set[int] = set()
        """The ids of all processes that have responded."""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = re.split(r"[ ]+", self.wait_for("Listening at: ").partition("Listening at: ")[2])[0]
        self.client = httpx.Client(base_url=self.url, timeout=LONG, trust_env=False)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line)
            self._lines.put(line.rstrip())

    def wait_for(self, text: str) -> str:
        """Return the next line with this text. Raise queue.Empty if there is none."""
        while True:
            line = self._lines.get(timeout=LONG)
            if text in line:
                return line

    def json(self, path: str) -> dict[str, Any]:
        """Use a new connection, so that any worker may accept it."""
        response = self.client.get(path, headers={"Connection": "close"})
        body: dict[str, Any] = response.raise_for_status().json()
        return body

    def request(self, path: str) -> dict[str, Any]:
        """Send a request to the application in tests.support.prefork_app."""
        body = self.json(path)
        self.served.add(body["process"])
        return body

    def request_all(self, path: str = "/together") -> set[int]:
        """Send a request to all workers at the same time. Return their process ids."""
        with ThreadPoolExecutor(WORKERS) as pool:
            bodies = list(pool.map(self.request, [path] * WORKERS))
        assert {body.get("status") for body in bodies} == {200}
        return {body["process"] for body in bodies}

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self.client.close()
        self._process.terminate()
        try:
            self._process.wait(LONG)
        finally:
            self._process.kill()
            self._reader.join()


class BarrierEndpoint:
    """A path that responds when as many requests wait as there are workers: a sync worker sends one at a time."""

    def __init__(self, server: APIServer, path: str = "/together") -> None:
        self._barrier = threading.Barrier(WORKERS)
        server.on("GET", path, self._answer)

    def _answer(self, _request: Received) -> Answer:
        self._barrier.wait(LONG)
        return Answer(body={"items": []})


@contextmanager
def gunicorn(app: str, *options: str, directory: Path = ROOT, **environ: str) -> Iterator[Gunicorn]:
    """Serve `app`, of a module in `directory`, on a free port."""
    limits = ["--timeout", str(int(LONG)), "--graceful-timeout", str(int(LONG)), "--no-control-socket"]
    command = [sys.executable, "-m", "gunicorn", "--bind", "127.0.0.1:0", "--workers", str(WORKERS)]
    with subprocess.Popen(
        [*command, *limits, *options, app],
        cwd=directory,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            server = Gunicorn(process)
        except BaseException:
            process.kill()
            raise
        try:
            yield server
        finally:
            server.close()
