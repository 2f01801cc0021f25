"""The other end of benchmarks.worker: a process that is told what to do, and may die of it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Self

LIMIT = 60.0


class Failed(Exception):
    """It gave no figure; why, in a word or two."""


class Worker:
    """Ends with the `with` block, whatever it is doing then, and takes its plugins with it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        # Its own session: so that what it has started can be ended with it.
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._over: str | None = None
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._answer(LIMIT)
        except Failed:
            self.end()
            raise

    def order(self, do: str, *, limit: float = LIMIT, **arguments: Any) -> dict[str, Any]:
        """What it answers. Failed if that is an error, if it takes longer than `limit`, or if it is dead."""
        if self._over is not None:
            raise Failed(self._over)
        assert self._process.stdin
        with contextlib.suppress(OSError):  # dead: it will not answer either
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        return self._answer(limit)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            with contextlib.suppress(OSError):
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _read(self) -> None:
        assert self._process.stdout
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put("")

    def _answer(self, limit: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            # It may answer yet, and nobody would know to what.
            self._over = f"no answer in {limit:.0f} s"
            self.end()
            raise Failed(self._over) from None
        if not line:
            code = self._process.wait()
            self._over = f"crashed, {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise Failed(self._over)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer
