"""A real gunicorn, with four workers, in a process of its own."""

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
# A machine may stall for seconds. Whoever waits this long waits in vain.
LONG = 60.0


class Gunicorn:
    """What is known of it from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self.said: list[str] = []
        self.served: set[int] = set()
        """Every process that has answered."""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = re.split(r"[ ]+", self.until("Listening at: ").partition("Listening at: ")[2])[0]
        self.client = httpx.Client(base_url=self.url, timeout=LONG, trust_env=False)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            self._lines.put(line.rstrip())

    def until(self, words: str) -> str:
        """The next line with these words. queue.Empty if it does not come."""
        while True:
            line = self._lines.get(timeout=LONG)
            if words in line:
                return line

    def json(self, path: str) -> dict[str, Any]:
        """On a connection of its own, so that any worker may take it."""
        answer = self.client.get(path, headers={"Connection": "close"})
        said: dict[str, Any] = answer.raise_for_status().json()
        return said

    def ask(self, path: str) -> dict[str, Any]:
        """Of the application in tests.support.prefork_app."""
        answer = self.json(path)
        self.served.add(answer["process"])
        return answer

    def ask_all(self, path: str = "/together") -> set[int]:
        """Has as many workers answer as there should be, at the same time. Their processes."""
        with ThreadPoolExecutor(WORKERS) as pool:
            answers = list(pool.map(self.ask, [path] * WORKERS))
        assert {answer.get("status") for answer in answers} == {200}
        return {answer["process"] for answer in answers}

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


class Together:
    """An answer that nobody gets before all workers have asked: each, if it is sync, asks one at a time."""

    def __init__(self, server: APIServer, path: str = "/together") -> None:
        self._barrier = threading.Barrier(WORKERS)
        server.on("GET", path, self._answer)

    def _answer(self, _request: Received) -> Answer:
        self._barrier.wait(LONG)
        return Answer(body={"items": []})


@contextmanager
def gunicorn(app: str, *options: str, directory: Path = ROOT, **environ: str) -> Iterator[Gunicorn]:
    """Serves `app`, of a module in `directory`, on a port that is free."""
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
            started = Gunicorn(process)
        except BaseException:
            process.kill()
            raise
        try:
            yield started
        finally:
            started.close()
