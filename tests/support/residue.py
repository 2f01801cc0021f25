"""Descriptors, threads, child processes and temporary files that a test must not leave behind."""

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
    """The number of threads, without the idle ones that trio caches for a while."""
    return sum(not thread.name.startswith("Trio thread ") for thread in threading.enumerate())


def temporary_files() -> set[str]:
    return set(os.listdir(tempfile.gettempdir()))


@contextmanager
def private_temporary_directory() -> Iterator[None]:
    """A temporary directory in which no other program creates files."""
    with tempfile.TemporaryDirectory() as directory, use_temporary_directory(Path(directory)):
        yield


def _state_and_parent(entry: Path) -> tuple[str, int]:
    """Read the entry of a process in /proc; a missing one is dead."""
    try:
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "X", 0
    return state, int(parent)


def children() -> set[int]:
    """The child processes that were not reaped, with zombies."""
    entries = Path("/proc").glob("[0-9]*")
    return {int(entry.name) for entry in entries if _state_and_parent(entry)[1] == os.getpid()}


def is_alive(number: int) -> bool:
    """Whether the process runs; a zombie does not."""
    return _state_and_parent(Path(f"/proc/{number}"))[0] not in "ZX"


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until another thread or process has made the condition true, for at least a minute."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    assert condition()


@contextmanager
def no_residue() -> Iterator[None]:
    """Assert that no descriptors, threads, child processes or temporary files are left behind.

    Other threads may need a moment to notice a closed connection, so this polls for up to a minute.
    """
    with private_temporary_directory():
        freeze_objects()
        before = _measure()
        yield
        for _ in range(1000):
            after = _measure()
            if not any(_is_more(now, then) for now, then in zip(after, before, strict=True)):
                return
            time.sleep(0.05)
            gc.collect()
        names = sorted(thread.name for thread in threading.enumerate())
        raise AssertionError(f"left behind: {after}, before: {before}; threads: {names}; {_open_files()}")


def _open_files() -> list[str]:
    """The targets of all descriptors."""
    links = []
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(links)


def freeze_objects() -> None:
    """Exclude all current objects, such as modules, from garbage collection, which is faster then."""
    gc.collect()
    gc.freeze()


def _measure() -> list[int | set[int] | set[str]]:
    return [descriptors(), threads(), children(), temporary_files()]


def _is_more(now: Any, then: Any) -> bool:
    return not now <= then
