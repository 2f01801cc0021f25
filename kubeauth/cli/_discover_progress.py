"""What discovery waits for, told to whoever waits: a line that lives on a terminal, else a log of changes."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Self, TextIO

from kubeauth.cli._tables import cell

if TYPE_CHECKING:
    from kubeauth.discovery._progress import Progress

Tell = Callable[["Progress"], None]

# From this -v on, it is logged how things go: a line that lives would stand in between.
_TOLD_ALL = 4
# How often the line is drawn. What is found sooner than that needs none.
_EVERY = 0.5
_STAGES = {
    "document": "Fetching the kubeconfig",
    "endpoint": "Waiting for the API server",
    "signature": "Waiting for the signature",
    "verification": "Verifying the API server",
}


def progress(verbosity: int) -> AbstractContextManager[Tell]:
    """Whom to tell, for as long as it lasts."""
    from kubeauth.cli._doctor import _is_terminal

    if verbosity < _TOLD_ALL and _is_terminal(sys.stderr):
        return LiveLine(sys.stderr)
    return nullcontext(Changes())


def in_words(told: Progress) -> str:
    """Where it is, and why not further."""
    reason = f": {cell(told.reason)}" if told.reason else ""
    return f"{_STAGES[told.stage]}{reason}"


class Changes:
    """Logs what is new."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, told: Progress) -> None:
        words = in_words(told)
        if words != self._last:
            self._last = words
            logging.getLogger("kubeauth.cli").info("%s", words)


class LiveLine:
    """A line at the end of a terminal. It is gone when it is over, or interrupted."""

    def __init__(self, stream: TextIO, *, every: float = _EVERY) -> None:
        self._stream = stream
        self._every = every
        self._told: tuple[Progress, float] | None = None
        self._drawn = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_over, daemon=True)

    def __call__(self, told: Progress) -> None:
        self._told = told, time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(1)  # a terminal that was stopped keeps it for as long as it likes
        self._write("")

    def _draw_until_over(self) -> None:
        while not self._over.wait(self._every):
            if self._told is not None:
                self._write(_line(*self._told))

    def _write(self, text: str) -> None:
        # With blanks over what was there before: every terminal understands that.
        text = text[: max(shutil.get_terminal_size().columns - 1, 0)]
        blank, self._drawn = self._drawn - len(text), len(text)
        if not text and not blank:
            return
        with suppress(OSError, UnicodeError):
            self._stream.write(f"\r{text}{' ' * blank}" if text else f"\r{' ' * blank}\r")
            self._stream.flush()


def _line(told: Progress, at: float) -> str:
    # The time first: of a long reason, the end may not fit.
    if not (told.seconds_left or told.tries):
        return f"[one try] {in_words(told)}"  # --timeout 0: it has its ten seconds all the same
    left = max(told.seconds_left - (time.monotonic() - at), 0)
    tries = f", {told.tries} {'try' if told.tries == 1 else 'tries'}" if told.tries else ""
    return f"[{left:.0f} s left{tries}] {in_words(told)}"
