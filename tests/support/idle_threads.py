"""Wait until other threads of this process are blocked."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from tests.support.residue import wait_until

_TASKS = Path("/proc/self/task")


def wait_for_idle_threads(*native_ids: int) -> None:
    """Wait until these threads, or all others, sleep in the kernel and have not run since the last look.

    The calling thread sleeps between two looks: a thread that only waits for the GIL runs meanwhile.
    """
    if not _TASKS.is_dir():  # not on Linux
        time.sleep(0.3)
        return
    last: dict[int, list[str]] = {}

    def are_idle() -> bool:
        nonlocal last
        current = {thread: _status(thread) for thread in native_ids or _other_threads()}
        is_unchanged, last = current == last, current
        return is_unchanged and all("S (sleeping)" in status for status in current.values())

    wait_until(are_idle)


def _other_threads() -> list[int]:
    return [int(name) for name in os.listdir(_TASKS) if int(name) != threading.get_native_id()]


def _status(native_id: int) -> list[str]:
    """The state of a thread and how often it was scheduled. Empty if it has ended."""
    try:
        lines = (_TASKS / str(native_id) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return [fields["State"], fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"]]
