"""What a process leaves behind: descriptors, threads, files in the temporary directory."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def temporary_files() -> set[str]:
    return set(os.listdir(tempfile.gettempdir()))


def threads() -> int:
    # Trio keeps idle threads for ten seconds, in case they are wanted again.
    return sum(not thread.name.startswith("Trio thread") for thread in threading.enumerate())


def wait_until(claim: Callable[[], bool]) -> None:
    """For what another thread does a moment later."""
    for _ in range(200):
        if claim():
            return
        time.sleep(0.02)
    assert claim()


@contextmanager
def no_residue() -> Iterator[None]:
    """Descriptors, threads and temporary files are afterwards what they were before.

    Other threads need a moment to notice that a connection is gone: they get it, and no more than that.
    """
    gc.collect()
    before = descriptors(), threads(), temporary_files()
    yield
    for _ in range(200):
        gc.collect()
        after = descriptors(), threads(), temporary_files()
        if after[0] <= before[0] and after[1] <= before[1] and after[2] <= before[2]:
            return
        time.sleep(0.05)
    assert after == before
