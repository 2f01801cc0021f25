"""How far it is, on a terminal, while many clusters are asked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from kubeauth.fleet._answer import Answer

# From this -v on, it is logged how things go: a line that lives would stand in between.
_TOLD_ALL = 4


def watched(answers: Iterable[Answer], number: int, at_once: int, verbosity: int) -> Iterator[Answer]:
    """The same answers, with a bar on stderr while they come: if that is a terminal, and rich is there."""
    from kubeauth.cli._doctor import _is_terminal

    if number > 1 and verbosity < _TOLD_ALL and _is_terminal(sys.stderr):
        try:
            return _with_a_bar(answers, number, at_once)
        except ImportError:
            pass  # no reason not to answer
    return iter(answers)


def _with_a_bar(answers: Iterable[Answer], number: int, at_once: int) -> Iterator[Answer]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]:,} failed", style="red"),
        TextColumn("{task.fields[running]:,} running"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,  # it is gone when there is something to read
        expand=True,
    )
    return _drawn(bar, answers, number, at_once)


def _drawn(bar: Progress, answers: Iterable[Answer], number: int, at_once: int) -> Iterator[Answer]:
    with bar:
        task = bar.add_task("", total=number, failed=0, running=min(at_once, number))
        failed = 0
        for done, answer in enumerate(answers, 1):
            failed += not answer.ok
            bar.update(task, completed=done, failed=failed, running=min(at_once, number - done))
            yield answer
