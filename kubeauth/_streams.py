"""Flush standard streams before exit. A module of its own, so that plugins import little."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def flush_stderr() -> None:
    """Flush stderr before exit; discard what cannot be written.

    Bytes that could not be written, because the disk is full or the pipe closed, stay in the buffer. CPython
    flushes it again at exit and, if that fails, changes the exit status to 120.
    """
    if sys.stderr is None or sys.stderr.closed:
        return
    try:
        sys.stderr.flush()
    except OSError:
        discard_output(sys.stderr)


def discard_output(stream: TextIO) -> None:
    """Discard the buffer of a stream, and everything written to it later."""
    with suppress(OSError):  # a replaced stream may have no file descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)
