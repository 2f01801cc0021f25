"""Arithmetic of the benchmarks: of many rounds, what is told."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some figures, and their middle half; of fewer than four, from the least to the most."""

    middle: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    middle = statistics.median(values)
    if len(values) < 4:
        return Spread(middle, min(values), max(values))
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def ratios(mine: Sequence[float | None], theirs: Sequence[float | None]) -> list[float]:
    """Round by round, since what disturbs a round disturbs both; without those that one has no figure of."""
    return [a / b for a, b in zip(mine, theirs, strict=True) if a is not None and b]


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest of them that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def number(value: float) -> str:
    """Three digits that matter: 1,234 and 123 and 12.3 and 0.12."""
    return f"{value:,.{max(0, min(2, 2 - math.floor(math.log10(abs(value)))))}f}" if value else "0"


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{number(seconds)} s"
    return f"{number(seconds * 1e3)} ms" if seconds >= 1e-3 else f"{number(seconds * 1e6)} us"


def told(found: Spread) -> str:
    """`1.23 (1.20 - 1.31)`, or `1.23` if there was no other."""
    middle, low, high = (number(each) for each in (found.middle, found.low, found.high))
    return middle if low == high else f"{middle} ({low} - {high})"
