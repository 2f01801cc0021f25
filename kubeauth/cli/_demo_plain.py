"""The demo where there is no terminal: a line a second, then the summary."""

from __future__ import annotations

from kubeauth.cli._demo_figures import Latencies
from kubeauth.cli._demo_run import Run
from kubeauth.cli._demo_words import closing, facts, reasons, what_is_shown, who_asks

_HEAD = "   s  requests  failures  runs  rotations   steady p50/p99 ms  rotation p50/p99 ms"


class PlainScreen:
    """Prints lines, and nothing that only a terminal understands."""

    def __init__(self) -> None:
        self._next = 1.0

    def begin(self, run: Run) -> None:
        _say(what_is_shown(run))
        _say(who_asks(run))
        _say()
        if run.succeeded:
            _say(_HEAD)

    def tick(self, run: Run) -> None:
        if run.elapsed < self._next:
            return
        self._next = int(run.elapsed) + 1.0
        figures = run.figures
        _say(
            f"{run.elapsed:4.0f}{figures.requests:10}{figures.failures:10}{run.plugin.runs:6}{run.rotations:11}"
            f"{_pair(figures.steady):>20}{_pair(figures.around):>21}"
        )

    def end(self, run: Run) -> None:
        _say()
        for name, value in facts(run):
            _say(f"{name}: {value}")
        for reason in reasons(run):
            _say(f"failed: {reason}")
        _say()
        for line in run.meters.lines():
            _say(line)
        _say()
        _say(closing(run))

    def close(self) -> None:
        """There is nothing to put back."""


def _pair(latencies: Latencies) -> str:
    pair = latencies.percentile(0.5), latencies.percentile(0.99)
    return " / ".join("-" if each is None else f"{1000 * each:.1f}" for each in pair)


def _say(line: str = "") -> None:
    print(line, flush=True)
