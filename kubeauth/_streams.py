"""The standard streams at the end of a process."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def flush_stderr() -> None:
    """For the end of a process. If stderr cannot be written, what is left for it is discarded.

    stderr is buffered: bytes that a full disk or a closed pipe refused stay in the buffer. CPython flushes it
    once more when it exits, and if that fails the exit status is 120, whatever the program has chosen.
    """
    if sys.stderr is None or sys.stderr.closed:
        return
    try:
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """What is in the buffer of this stream, and what is written to it from here on, goes to no file."""
    with suppress(OSError):  # an object that was put in its place may have no descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)
