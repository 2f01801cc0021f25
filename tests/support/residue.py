"""What a process leaves behind: descriptors, threads, child processes, files in the temporary directory."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.environment import use_temporary_directory


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
    with tempfile.TemporaryDirectory() as directory, use_temporary_directory(Path(directory)):
        yield


def _state_and_parent(entry: Path) -> tuple[str, int]:
    """Of a process in /proc; one that is gone is dead."""
    try:
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "X", 0
    return state, int(parent)


def children() -> set[int]:
    """The processes that this one has started and not reaped; zombies too."""
    entries = Path("/proc").glob("[0-9]*")
    return {int(entry.name) for entry in entries if _state_and_parent(entry)[1] == os.getpid()}


def is_alive(number: int) -> bool:
    """Whether that process runs. One that has ended and waits for its parent does not."""
    return _state_and_parent(Path(f"/proc/{number}"))[0] not in "ZX"


def wait_until(claim: Callable[[], bool]) -> None:
    """For what another thread does a moment later."""
    for _ in range(3000):  # it mostly comes at once; a machine may be busy
        if claim():
            return
        time.sleep(0.02)
    assert claim()


@contextmanager
def no_residue() -> Iterator[None]:
    """Descriptors, threads, children and temporary files are afterwards what they were before.

    Other threads need a moment to notice that a connection is gone: they get it. What is left after a minute is
    left behind.
    """
    with temporary_directory_of_ones_own():
        set_aside()
        before = _left()
        yield
        for _ in range(1000):
            after = _left()
            if not any(_more(now, then) for now, then in zip(after, before, strict=True)):
                return
            time.sleep(0.05)
            gc.collect()
        named = sorted(thread.name for thread in threading.enumerate())
        raise AssertionError(f"left behind: {after}, and there was {before}; threads: {named}; {_open()}")


def _open() -> list[str]:
    """What the descriptors are."""
    links = []
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(links)


def set_aside() -> None:
    """What is there now stays: without all the modules, looking for garbage takes no time from here on."""
    gc.collect()
    gc.freeze()


def _left() -> list[int | set[int] | set[str]]:
    return [descriptors(), threads(), children(), temporary_files()]


def _more(now: Any, then: Any) -> bool:
    return not now <= then
