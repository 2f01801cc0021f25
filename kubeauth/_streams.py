"""Standard streams at the end of a process. A module of its own: plugins import no more than they need."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def flush_stderr() -> None:
    """Flush stderr at the end of a process; discard what cannot be written.

    stderr is buffered: bytes that a full disk or a closed pipe rejected stay in the buffer. CPython flushes
    it again at exit, and if that fails the exit status is 120, whatever the program has chosen.
    """
    if sys.stderr is None or sys.stderr.closed:
        return
    try:
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Discard what is in the buffer of a stream, and everything written to it later."""
    with suppress(OSError):  # a replaced stream may have no descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, stream.fileno())
        finally:
            os.close(null)
