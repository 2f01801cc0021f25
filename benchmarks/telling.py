"""From rounds to what the page says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks import figures
from benchmarks.figures import Spread
from benchmarks.results import Results
from benchmarks.stage import Round, Rounds

# How far apart two must be to be told apart, where the whole spread is on one side already.
NOISE = 0.05


@dataclass(slots=True)
class Told:
    """A section of the page, and what in it is to our disadvantage."""

    text: str
    behind: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """By what was compared: who was ahead of kubeauth, and what they have for each one of kubeauth's."""

    def ahead(self, what: str, who: str, by: Spread) -> None:
        self.behind.setdefault(what, []).append((who, by.middle))


def column(rounds: list[Round], name: str) -> list[float | None]:
    return [each.get(name) for each in rounds]


def values(rounds: list[Round], name: str) -> list[float]:
    return [value for value in column(rounds, name) if value is not None]


def middle(rounds: list[Round], name: str) -> float | None:
    found = values(rounds, name)
    return figures.spread(found).middle if found else None


def ratio(rounds: Rounds, key: str, base: str, name: str) -> Spread | None:
    """Of what `key` has to what `base` had in the same rounds."""
    if key == base or base not in rounds:
        return None
    found = figures.ratios(column(rounds[key], name), column(rounds[base], name))
    return figures.spread(found) if found else None


def is_ahead(theirs_to_ours: Spread, *, more_is_better: bool) -> bool:
    """Whether they were better than we, and not by chance."""
    return theirs_to_ours.low > 1 + NOISE if more_is_better else theirs_to_ours.high < 1 - NOISE


def told_ratio(found: Spread | None) -> str:
    return figures.told(found) if found else ""


def told_number(value: float | None) -> str:
    return "" if value is None else figures.number(value)


def told_duration(microseconds: float | None) -> str:
    return "" if microseconds is None else figures.duration(microseconds / 1e6)


def told_range(found: list[float]) -> str:
    """Of counts: from the least to the most, where rounds differ."""
    if not found:
        return ""
    low, high = f"{min(found):,.0f}", f"{max(found):,.0f}"
    return low if low == high else f"{low} - {high}"


def failures(rounds: list[Round]) -> str:
    """How many in all rounds, and what they mostly were."""
    kinds: Counter[str] = Counter()
    for each in rounds:
        kinds.update(each.get("failures", {}))
    return f"{kinds.total():,} ({kinds.most_common(1)[0][0]})" if kinds else "0"


def reason(rounds: list[Round]) -> str:
    """Why somebody has no figure."""
    reasons = Counter(each["failed"] for each in rounds if "failed" in each)
    return reasons.most_common(1)[0][0] if reasons else ""


def comparison(
    results: Results,
    rounds: Rounds,
    told: Told,
    *,
    shows: dict[str, Callable[[float | None], str]],
    compares: str,
    base: str,
    what: str,
) -> list[list[str]]:
    """A row for each who was measured: some figures, and the ratio of one of them, of which less is better.

    `what` is what they are ahead in who have less of it than kubeauth.
    """
    rows = []
    for each in [each for each in results.listed if each.key in rounds]:
        mine = rounds[each.key]
        found = ratio(rounds, each.key, base, compares)
        if found and not each.is_ours and is_ahead(found, more_is_better=False):
            told.ahead(what, each.key, found)
        name = f"**{each.key}**" if each.is_ours else each.key
        cells = [show(middle(mine, field)) for field, show in shows.items()]
        if why := reason(mine):
            cells[0] = why
        rows.append([name, *cells, told_ratio(found)])
    return rows
