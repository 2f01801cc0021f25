"""The demo on a terminal: a picture that lives, then the summary."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kubeauth.cli._demo_figures import NEAR
from kubeauth.cli._demo_run import CELLS, Run
from kubeauth.cli._demo_words import (
    closing,
    first_request,
    milliseconds,
    percentiles,
    plugin_runs,
    rate,
    reasons,
    server_saw,
    stream_state,
    what_is_shown,
    who_asks,
)

# Seldom enough that drawing does not show up in the latencies it draws.
_EVERY = 0.25
_WIDEST = 80
_BARS = "▁▂▃▄▅▆▇█"


class LiveScreen:
    """Redraws itself a few times a second. The summary takes the place of the last picture."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0

    def begin(self, run: Run) -> None:
        if run.succeeded:
            self._live.start()
            self._draw(run)

    def tick(self, run: Run) -> None:
        if run.elapsed >= self._next:
            self._next = run.elapsed + _EVERY
            self._draw(run)

    def end(self, run: Run) -> None:
        self.close()
        say = self._console.print
        say(_framed(_picture(run), "kubeauth demo"))
        say(_framed(_metrics(run), "metrics"))
        for reason in reasons(run):
            say(Text(f"failed: {reason}", style="red"))
        say(Text(closing(run), style="bold green" if run.succeeded else "bold red"))

    def close(self) -> None:
        self._live.stop()

    def _draw(self, run: Run) -> None:
        self._live.update(_framed(Group(_picture(run), _clock(run)), "kubeauth demo"), refresh=True)


def _framed(inside: RenderableType, title: str) -> Panel:
    return Panel(inside, title=f"[bold]{title}", title_align="left", border_style="blue", width=_WIDEST)


def _picture(run: Run) -> Group:
    head = Text(what_is_shown(run), style="cyan"), Text(who_asks(run), style="dim")
    return Group(*head, Text(), _counts(run), Text(), _latencies(run), Text(), _trace(run))


def _counts(run: Run) -> Table:
    figures = run.figures
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=20)
    table.add_column(justify="right", min_width=8, style="bold")
    table.add_column(style="dim")
    table.add_row("requests", f"{figures.requests:,}", f"{rate(run)}; {first_request(run)}")
    table.add_row("failures", Text(f"{figures.failures:,}", style="green" if run.succeeded else "red"))
    table.add_row("plugin runs", f"{run.plugin.runs}", plugin_runs(run))
    table.add_row("rotations", f"{run.rotations}", _ends(run))
    if run.cluster is not None:
        table.add_row("credentials", f"{run.cluster.seen}", server_saw(run.cluster))
    for stream in run.load.streams:
        table.add_row(f"watch on {stream.client}", f"{stream.events:,}", f"events, {stream_state(stream)}")
    return table


def _ends(run: Run) -> str:
    expires = run.load.status.expires
    if expires is None:
        return ""
    left = (expires - datetime.now(UTC)).total_seconds()
    return "the credential ends " + (f"in {left:.1f} s" if left < 3600 else f"{expires:%Y-%m-%d %H:%M} UTC")


def _latencies(run: Run) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=20)
    for _ in range(4):
        table.add_column(justify="right", min_width=9)
    table.add_row("latency", "p50", "p99", "longest", "requests", style="dim")
    for name, latencies in (
        ("steady", run.figures.steady),
        (f"{NEAR:g} s from a rotation", run.figures.around),
    ):
        table.add_row(name, *percentiles(latencies), f"{latencies.count:,}")
    return table


def _trace(run: Run) -> Table:
    """The slowest request of each moment as a bar, and a mark for each rotation below it."""
    slowest, rotations = run.figures.trace(CELLS)
    top = max(slowest)
    bars = "".join(_bar(each / top) if each else " " for each in slowest)
    marks = "".join("▲" if cell in rotations else " " for cell in range(CELLS))
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=9, style="dim")
    table.add_column()
    table.add_row("slowest", Text(bars, style="green"))
    table.add_row("rotations", Text(marks, style="yellow"))
    if top:
        table.add_row("", Text(f"the highest bar is {milliseconds(top)}", style="dim"))
    return table


def _bar(share: float) -> str:
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]


def _clock(run: Run) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=9, style="dim")
    table.add_column()
    table.add_row(f"{run.elapsed:.0f} s", ProgressBar(run.seconds, run.elapsed, width=CELLS))
    return table


def _metrics(run: Run) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for name, labels, value in run.meters.rows():
        # One column: the longest name beside the longest labels would be wider than 80 characters.
        table.add_row(Text.assemble((name, "dim"), "  ", labels), Text(value))
    return table
