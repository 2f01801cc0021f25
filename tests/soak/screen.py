"""What is shown while a soak runs: a table that changes, or a line now and then where there is no terminal."""

from __future__ import annotations

import sys
from typing import Any, Self

from tests.soak.report import faults, rows
from tests.soak.run import Soak
from tests.soak.verdict import THEIRS


class Plain:
    """Lines, and nothing that only a terminal understands."""

    def __init__(self) -> None:
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def tick(self, soak: Soak) -> None:
        if soak.elapsed < self._next:
            return
        self._next += max(soak.plan.seconds / 40, 5.0)
        tally, plugins = soak.tally, soak.plugins
        theirs = sum(tally.failed[each] for each in THEIRS)
        memory, heap, _, descriptors, threads, *_ = soak.gauges.latest()
        print(
            f"{soak.elapsed:4.0f} s  {tally.requests:6} requests  {theirs:5} failed  {tally.ours_count:3} OURS  "
            f"{soak.killer.kills:3} kills  {soak.proxy.cuts:4} cuts  {sum(plugins.outcomes.values()):4} runs  "
            f"{memory:4.0f} MiB ({heap:.0f} in use)  {descriptors:3.0f} fds  {threads:2.0f} threads",
            flush=True,
        )


class Live:
    """The table itself."""

    def __enter__(self) -> Self:
        from rich.live import Live as RichLive

        self._live = RichLive(refresh_per_second=2)
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def tick(self, soak: Soak) -> None:
        self._live.update(_table(soak, at_end=False))


def screen() -> Plain | Live:
    """Whichever fits standard output."""
    return Live() if sys.stdout.isatty() else Plain()


def show(soak: Soak) -> None:
    """The whole table, at the end; and what is wrong."""
    print()
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(_table(soak, at_end=True))
    else:
        for row in rows(soak, at_end=True):
            mark = "!" if row.is_bad else " "
            print(f"{mark} {row.name:<48}{row.value:>10}  {row.note}".rstrip())
    print()
    found = faults(soak)
    for fault in found:
        print(f"OURS: {fault}")
    how = "Interrupted" if soak.was_interrupted else "Done"
    print(
        f"{how} after {soak.elapsed:.0f} s: {'nothing' if not found else len(found)} of ours failed.",
        flush=True,
    )


def _table(soak: Soak, *, at_end: bool) -> Any:
    from rich.table import Table

    table = Table(title=f"soak: {soak.elapsed:.0f} of {soak.plan.seconds:.0f} s", box=None)
    table.add_column()
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    for row in rows(soak, at_end=at_end):
        table.add_row(row.name, row.value, row.note, style="red" if row.is_bad else None)
    return table
