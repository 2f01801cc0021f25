"""What came of every request, and what nobody expected at all."""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.soak import verdict
from tests.soak.verdict import OURS, Asked, Facts

_REMEMBERED = 30
_GENERATOR = re.compile(r"ResourceWarning: Async generator '(httpx|httpcore)2?\.")


class Tally:
    """Counts, and remembers the first of what is ours, in words. Called from any thread."""

    def __init__(self, facts: Facts, slow: float) -> None:
        self.requests = 0
        self.cancelled = 0
        self.failed: Counter[str] = Counter()
        self.kinds: Counter[tuple[str, str]] = Counter()
        """By whose fault, and what the caller saw."""
        self.ours: list[str] = []
        self.ours_count = 0
        self.slowest = 0.0
        self.slowest_calm = 0.0
        """Of those that no restart fell into."""
        self.generators = 0
        """Of httpx, left in the middle by an error or by who gave up: trio warns of them, and httpx has many."""
        self.unclosed = 0
        """Sockets that were left to the garbage collector, as httpx does with one that is given up in its handshake."""
        self.warnings: Counter[str] = Counter()
        self._facts, self._slow = facts, slow
        self._lock = threading.Lock()

    def answered(self, asked: Asked) -> None:
        """As it should be."""
        self._took(asked)

    def given_up(self, asked: Asked) -> None:
        """The caller had enough of waiting."""
        with self._lock:
            self.cancelled += 1
        self._took(asked)

    def refused(self, status: int, words: str, asked: Asked) -> None:
        """An answer that was not wanted."""
        whose = verdict.of_answer(status, asked, self._facts)
        self._failed(whose, f"{status}", f"{asked.what} on {asked.user}: {status} {words[:200]}")
        self._took(asked)

    def raised(self, error: BaseException, asked: Asked) -> None:
        """An exception."""
        whose = verdict.of_error(error, asked, self._facts)
        name = f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"
        words = " <- ".join(_chained(error))
        self._failed(whose, name, f"{asked.what} on {asked.user}: {words}")
        self._took(asked)

    def unexpected(self, words: str) -> None:
        """Something of ours that was not even a request."""
        with self._lock:
            self.ours_count += 1
            if len(self.ours) < _REMEMBERED:
                self.ours.append(words)

    def warned(self, words: str) -> None:
        """By Python."""
        if _GENERATOR.search(words):
            self.generators += 1
        elif "ResourceWarning: unclosed " in words:
            self.unclosed += 1
        else:
            self.unexpected(words)

    def _failed(self, whose: str, kind: str, words: str) -> None:
        with self._lock:
            self.failed[whose] += 1
            self.kinds[whose, kind] += 1
        if whose == OURS:
            self.unexpected(words)

    def _took(self, asked: Asked) -> None:
        seconds = asked.ended - asked.begun
        calm = not self._facts.was_down(asked.begun, asked.ended)
        with self._lock:
            self.requests += 1
            self.slowest = max(self.slowest, seconds)
            if calm:
                self.slowest_calm = max(self.slowest_calm, seconds)
        if calm and seconds > self._slow and not asked.what.startswith("WATCH"):
            self.unexpected(f"{asked.what} took {seconds:.1f} s")


def _chained(error: BaseException | None) -> Iterator[str]:
    for _ in range(4):
        if error is None:
            return
        yield f"{type(error).__name__}: {str(error)[:160]}"
        error = error.__cause__ or error.__context__


class _Handler(logging.Handler):
    def __init__(self, tally: Tally) -> None:
        super().__init__(logging.WARNING)
        self._tally = tally

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self._tally.unexpected(f"logged by {record.name}: {self.format(record)[:600]}")
        else:
            self._tally.warnings[record.name] += 1


@contextmanager
def nothing_escapes(tally: Tally) -> Iterator[None]:
    """What is logged as an error, ends a thread, cannot be raised, or is warned of, is ours."""
    handler = _Handler(tally)
    before = threading.excepthook, sys.unraisablehook, warnings.showwarning
    started = time.monotonic()

    def in_thread(arguments: threading.ExceptHookArgs) -> None:
        words = " <- ".join(_chained(arguments.exc_value))
        tally.unexpected(f"a thread ended after {time.monotonic() - started:.0f} s: {words}")

    def unraisable(arguments: Any) -> None:
        tally.unexpected(f"not raised: {arguments.exc_value!r} in {arguments.object!r}"[:300])

    def warned(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        tally.warned(f"{category.__name__}: {message}"[:300])

    logging.getLogger().addHandler(handler)
    threading.excepthook, sys.unraisablehook = in_thread, unraisable
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.simplefilter("always", ResourceWarning)
            warnings.showwarning = warned
            yield
    finally:
        threading.excepthook, sys.unraisablehook, warnings.showwarning = before
        logging.getLogger().removeHandler(handler)
