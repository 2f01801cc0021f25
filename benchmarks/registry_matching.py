"""How many images a second are looked up among so many patterns: in the index, and by trying each pattern.

    python -m benchmarks.registry_matching [ROUNDS]

Interleaved rounds in one run; ratios are per round. A second is one of the process's own time, which others
on the machine disturb less. The patterns are those of many providers: of clouds, of registries of one's own,
with globs and with paths. The image matches the same four of them, however many there are. Both have the
patterns read before; what that takes is in the second table.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from kubeauth.registry._match import Pattern
from kubeauth.registry._pattern_index import PatternIndex
from kubeauth.registry._url import read_place

SIZES = (10, 100, 1_000, 10_000)
IMAGE = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team-7/app"
MATCHING = [
    "*.dkr.ecr.*.amazonaws.com",
    "123456789012.dkr.ecr.*.amazonaws.com",
    "*.dkr.ecr.eu-central-1.amazonaws.com/team-7",
    "123456789012.dkr.ecr.eu-central-1.amazonaws.com",
]
# How long one sample takes, in seconds.
SAMPLE = 0.02


class Lookup(NamedTuple):
    """Both ways to the same answer."""

    by_index: Callable[[], list[int]]
    by_trying: Callable[[], list[int]]


def patterns(count: int) -> list[str]:
    def others() -> Iterator[str]:
        for n in itertools.count():
            yield f"{100_000_000_000 + n}.dkr.ecr.eu-central-1.amazonaws.com"
            yield f"*.dkr.ecr.region-{n}.amazonaws.com"
            yield f"team-{n}-*.example.com"
            yield f"registry.example.com:5000/team-{n}/"
            yield f"*.region-{n}.pkg.dev"
            yield f"tenant{n}.azurecr.io"
            yield f"123456789012.dkr.ecr.eu-central-1.amazonaws.com/group-{n}"

    return [*MATCHING, *itertools.islice(others(), count - len(MATCHING))]


def lookup(count: int) -> Lookup:
    pairs = [(pattern, number) for number, pattern in enumerate(patterns(count))]
    index = PatternIndex(pairs)
    each = [(Pattern(pattern), number) for pattern, number in pairs]

    def by_trying() -> list[int]:
        place = read_place(IMAGE)
        assert not isinstance(place, str)
        return [number for pattern, number in each if pattern.covers(place)]

    assert index.find(IMAGE) == by_trying() == list(range(len(MATCHING)))
    return Lookup(lambda: index.find(IMAGE), by_trying)


def a_second(work: Callable[[], object]) -> float:
    """How often it can be done, measured for the time of a sample."""
    times, begun = 0, time.process_time()
    while (passed := time.process_time() - begun) < SAMPLE:
        work()
        times += 1
    return times / passed


def seconds(work: Callable[[list[str]], object], texts: list[str]) -> float:
    gc.collect()
    gc.disable()
    begun = time.process_time()
    work(texts)
    passed = time.process_time() - begun
    gc.enable()
    return passed


def read(texts: list[str]) -> list[Pattern]:
    return [Pattern(text) for text in texts]


def indexed(texts: list[str]) -> PatternIndex[str]:
    return PatternIndex((text, text) for text in texts)


def looked_up(rounds: int) -> Table:
    lookups = {size: lookup(size) for size in SIZES}
    index: dict[int, list[float]] = {size: [] for size in SIZES}
    loop: dict[int, list[float]] = {size: [] for size in SIZES}
    for number in track(range(rounds), "looking up", console=Console(stderr=True), transient=True):
        for size in SIZES:
            gc.collect()
            gc.disable()
            ways = [(index, lookups[size].by_index), (loop, lookups[size].by_trying)]
            for found, work in ways if number % 2 else reversed(ways):
                found[size].append(a_second(work))
            gc.enable()
    table = Table(title=f"one image; {rounds} interleaved rounds", title_justify="left")
    for column in (
        "patterns",
        "index/s",
        "loop/s",
        "index to loop",
        "middle half",
        "index, to 10",
        "loop, to 10",
    ):
        table.add_column(column, justify="right")
    for size in SIZES:
        ratios = [a / b for a, b in zip(index[size], loop[size], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        grown = [
            statistics.median([a / b for a, b in zip(found[SIZES[0]], found[size], strict=True)])
            for found in (index, loop)
        ]
        table.add_row(
            f"{size:,}",
            f"{statistics.median(index[size]):,.0f}",
            f"{statistics.median(loop[size]):,.0f}",
            f"{middle:,.1f}",
            f"{low:,.1f} - {high:,.1f}",
            *(f"{times:,.2f} times the time" for times in grown),
        )
    return table


def made(rounds: int) -> Table:
    table = Table(title="reading the patterns, once", title_justify="left")
    for column in ("patterns", "read", "read and indexed", "for each"):
        table.add_column(column, justify="right")
    for size in SIZES:
        texts = patterns(size)
        both = [(seconds(read, texts), seconds(indexed, texts)) for _ in range(rounds)]
        alone, together = (statistics.median(column) for column in zip(*both, strict=True))
        table.add_row(
            f"{size:,}",
            f"{alone * 1e3:,.2f} ms",
            f"{together * 1e3:,.2f} ms",
            f"{together / size * 1e6:,.1f} us",
        )
    return table


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    console = Console(width=120)
    console.print(looked_up(rounds))
    console.print(made(max(2, rounds // 3)))


if __name__ == "__main__":
    main()
