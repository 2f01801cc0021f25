"""Pictures in a few lines of SVG: shapes, words, and colours that suit a white page as well as a dark one.

A picture brings its own background, so it can be read wherever it is shown, whichever colours the reader's
system asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from xml.sax.saxutils import escape

FONT = "font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
# Class: on white, on dark.
COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "rule": ("#d0d7de", "#3d444d"),
    "word": ("#1f2328", "#e6edf3"),
    "dim": ("#59636e", "#9198a1"),
    "ours": ("#0969da", "#58a6ff"),
    "other": ("#8c959f", "#8b949e"),
    "bad": ("#cf222e", "#ff7b72"),
}


def style() -> str:
    light, dark = (
        "".join(
            f".{name}{{fill:{pair[theme]}}}.{name}-line{{stroke:{pair[theme]};fill:none}}"
            for name, pair in COLOURS.items()
        )
        + f"text{{stroke:{COLOURS['page'][theme]}}}"
        for theme in (0, 1)
    )
    # Words have a seam in the colour of the page: a rule behind them does not cross them out.
    words = f"text{{{FONT};paint-order:stroke;stroke-width:3px}}.bold{{font-weight:600}}"
    return f"<style>{words}{light}@media (prefers-color-scheme: dark){{{dark}}}</style>"


class Picture:
    """Grows as things are drawn on it; its text is the file."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.title, self.width, self.height = title, width, height
        self._shapes: list[str] = []
        self.words(16, 26, title, colour="word", bold=True)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = "word",
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        kind = f"{colour} bold" if bold else colour
        self._shapes.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, *, colour: str = "rule", width: float = 1
    ) -> None:
        self._shapes.append(
            f'<line class="{colour}-line" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke-width="{width:g}"/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, *, colour: str) -> None:
        self._shapes.append(
            f'<rect class="{colour}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
            f'height="{height:.1f}"/>'
        )

    def dots(self, points: Iterable[tuple[float, float]], radius: float, *, colour: str) -> None:
        """Many of them are one shape: lines of no length, with round ends."""
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        self._shapes.append(
            f'<path class="{colour}-line" d="{path}" stroke-width="{2 * radius:g}" stroke-linecap="round"/>'
        )

    def __str__(self) -> str:
        frame = f'width="{self.width - 1}" height="{self.height - 1}" rx="6"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" aria-label="{escape(self.title)}">\n'
            f"{style()}\n"
            f'<rect class="page" x="0.5" y="0.5" {frame}/><rect class="rule-line" x="0.5" y="0.5" {frame}/>\n'
            + "\n".join(self._shapes)
            + "\n</svg>\n"
        )


def ticks(most: float, count: int = 4) -> list[float]:
    """Round figures from zero to at least `most`."""
    step = most / count
    unit = 10 ** math.floor(math.log10(step))
    step = next(unit * each for each in (1, 2, 2.5, 5, 10) if unit * each >= step)
    return [number * step for number in range(math.ceil(most / step) + 1)]
