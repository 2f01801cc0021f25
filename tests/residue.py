"""What a process leaves behind: descriptors, threads, child processes, files in the temporary directory."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def threads() -> int:
    """How many there are, without those that trio keeps for a while in case they are of use again."""
    return sum(not thread.name.startswith("Trio thread ") for thread in threading.enumerate())


def temporary_files() -> set[str]:
    return set(os.listdir(tempfile.gettempdir()))


@contextmanager
def temporary_directory_of_ones_own() -> Iterator[None]:
    """So that what other programs do in the common one is not taken for ours."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory() as directory:
        tempfile.tempdir = os.environ["TMPDIR"] = directory
        try:
            yield
        finally:
            tempfile.tempdir = before[0]
            if before[1] is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before[1]


def _processes() -> Iterator[tuple[int, str, int]]:
    """Number, state and parent of every process."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            yield int(entry.name), state, int(parent)


def children() -> set[int]:
    """The processes that this one has started and not reaped; zombies too."""
    return {number for number, _, parent in _processes() if parent == os.getpid()}


def is_alive(number: int) -> bool:
    """Whether that process runs. One that has ended and waits for its parent does not."""
    return any(number == each and state not in "ZX" for each, state, _ in _processes())


def wait_until(claim: Callable[[], bool]) -> None:
    """For what another thread does a moment later."""
    for _ in range(200):
        if claim():
            return
        time.sleep(0.02)
    assert claim()


@contextmanager
def no_residue() -> Iterator[None]:
    """Descriptors, threads, children and temporary files are afterwards what they were before.

    Other threads need a moment to notice that a connection is gone: they get it, and no more than that.
    """
    _set_aside()
    with temporary_directory_of_ones_own():
        gc.collect()
        before = _left()
        yield
        for _ in range(200):
            after = _left()
            if not any(_more(now, then) for now, then in zip(after, before, strict=True)):
                return
            time.sleep(0.05)
            gc.collect()
        assert after == before


@cache
def _set_aside() -> None:
    """Whatever is there at first stays: without all the modules, looking for garbage takes no time."""
    gc.collect()
    gc.freeze()


def _left() -> list[int | set[int] | set[str]]:
    return [descriptors(), threads(), children(), temporary_files()]


def _more(now: Any, then: Any) -> bool:
    return not now <= then
