"""What the process holds on to, once a second; and whether that grows."""

from __future__ import annotations

import ctypes
import gc
import os
import ssl
import statistics
import sys
import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support import residue

JUDGED_FROM = 120.0
"""Seconds. Before that an allocator has not seen everything yet."""


@dataclass(frozen=True, slots=True)
class Growth:
    name: str
    early: float
    late: float
    allowed: float
    """What `late` may be at most."""

    @property
    def is_too_much(self) -> bool:
        return self.late > self.allowed


def growth(name: str, values: list[float], *, share: float, slack: float) -> Growth:
    """The median of the last fifth beside that of the second.

    Medians, because open connections come and go by the second; the second fifth, because what a process
    needs to get going (threads, arenas of the allocator, compiled patterns) comes in the first. Between the two lie
    six tenths of the run.
    """
    values = values or [0.0]
    fifth = max(len(values) // 5, 1)
    early, late = (statistics.median(part) for part in (values[fifth : 2 * fifth] or values, values[-fifth:]))
    return Growth(name, early, late, early * (1 + share) + slack)


class Gauges:
    """Looks once a second, in a thread."""

    NAMES = (
        "memory MiB",
        "heap MiB",
        "Python blocks, thousands",
        "descriptors",
        "threads",
        "children",
        "temporary files",
    )

    def __init__(self) -> None:
        self._values = [array("d") for _ in self.NAMES]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-gauges")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def latest(self) -> list[float]:
        return [values[-1] if values else 0.0 for values in self._values]

    def growth(self) -> list[Growth]:
        """What the allocators have given out may not grow: a tenth and 2 MiB are for what is open at the moment.
        One SSL context kept per rotation and client would be many times that in ten minutes. What the process has from the
        system may, by a quarter and 8 MiB: most of that is fragments. The others: a few, because connections come
        and go.
        """
        slack = ((0.25, 8.0), (0.10, 2.0), (0.05, 10.0), (0.0, 12.0), (0.0, 4.0), (0.0, 1.0), (0.0, 0.0))
        return [
            growth(name, list(values), share=share, slack=more)
            for name, values, (share, more) in zip(self.NAMES, self._values, slack, strict=True)
        ]

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            for values, value in zip(self._values, self._now(), strict=True):
                values.append(value)

    def _now(self) -> list[float]:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return [
            pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            _heap() / 2**20,
            sys.getallocatedblocks() / 1000,
            float(residue.descriptors()),
            float(residue.threads()),
            float(len(residue.children())),
            float(len(residue.temporary_files())),
        ]


class _MallInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def _heap() -> float:
    """Bytes that malloc has given out: OpenSSL's too. 0 where the C library does not tell."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0.0
    mallinfo.restype = _MallInfo
    told = mallinfo()
    return float(told.uordblks + told.hblkhd)


def contexts() -> int:
    """SSL contexts that are alive: one for each pool of connections."""
    gc.collect()
    return sum(isinstance(each, ssl.SSLContext) for each in gc.get_objects())


@dataclass(frozen=True, slots=True)
class Left:
    """What is there when nobody does anything."""

    descriptors: int
    threads: int
    children: int
    temporary_files: int
    contexts: int

    @classmethod
    def now(cls) -> Left:
        files = len(residue.temporary_files())
        return cls(residue.descriptors(), residue.threads(), len(residue.children()), files, contexts())

    def more_than(self, before: Left) -> list[str]:
        """What there is more of than before, in words."""
        return [
            f"{name.replace('_', ' ')}: {getattr(before, name)} before, {getattr(self, name)} after"
            for name in ("descriptors", "threads", "children", "temporary_files", "contexts")
            if getattr(self, name) > getattr(before, name)
        ]


def settled(is_so: Callable[[], bool], seconds: float) -> bool:
    """Waits for it, for so long at most."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
