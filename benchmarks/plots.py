"""The pictures of the page."""

from __future__ import annotations

import math
from collections.abc import Callable

from benchmarks import figures
from benchmarks.measures import crowds, renewals, warm
from benchmarks.results import Listed, Results
from benchmarks.stage import Round
from benchmarks.svg import Picture, ticks
from benchmarks.telling import reason, told_range, values

LEFT = 16
NAMES = 240
ROW = 20


def throughput(results: Results) -> str:
    """Bars from zero, with the middle half of the rounds as a line; a panel for each number of callers."""
    rows = [
        each
        for colour in ("sync", "async")
        for each in results.listed
        if each.colour == colour and each.name != warm.AGAIN
    ]
    panel, gap, top = 300, 60, 70
    bottom = top + len(rows) * ROW + 30
    picture = Picture("Requests a second: more is better", LEFT + NAMES + 2 * (panel + gap), bottom + 68)
    rounds = results.found["warm"]
    # A blank between the colours.
    heights = [top + number * ROW + (20 if each.colour == "async" else 0) for number, each in enumerate(rows)]
    for each, y in zip(rows, heights, strict=True):
        picture.words(LEFT, y + 14, each.key, colour="ours" if each.is_ours else "word", bold=each.is_ours)
    for number, callers in enumerate(warm.CALLERS):
        left, field = LEFT + NAMES + number * (panel + gap), f"rate_{callers}"
        found = {each.key: values(rounds[each.key], field) for each in rows}
        marks = ticks(max((max(rates, default=0.0) for rates in found.values()), default=0.0) or 1.0)
        scale = panel / marks[-1]
        picture.words(left, top - 18, "1 caller" if callers == 1 else f"{callers} callers", bold=True)
        for mark in marks:
            picture.line(left + mark * scale, top - 8, left + mark * scale, bottom)
            picture.words(left + mark * scale, bottom + 15, f"{mark:,.0f}", colour="dim", anchor="middle")
        for each, y in zip(rows, heights, strict=True):
            if not found[each.key]:
                picture.words(left + 5, y + 14, reason(rounds[each.key]), colour="bad")
                continue
            rate = figures.spread(found[each.key])
            low, high, middle = y + 3, left + max(rate.high, rate.middle) * scale, y + 9.5
            picture.bar(left, low, rate.middle * scale, 13, colour="ours" if each.is_ours else "other")
            picture.line(left + rate.low * scale, middle, high, middle, colour="word", width=1.5)
            picture.words(high + 6, y + 14, f"{rate.middle:,.0f}", colour="dim")
    picture.words(LEFT, bottom + 38, footnote(results), colour="dim")
    return stamped(picture, results)


def stamped(picture: Picture, results: Results) -> str:
    """The file, with what it is of at its foot: pictures are shown without their page."""
    about, versions = results.about, {each.name: each.version for each in results.listed}
    named = ("kubeauth", "httpx", "httpx2", "client-go")
    who = [f"{name} {versions[name]}" for name in named if name in versions]
    said = ", ".join([about["date"], about["machine"], about["python"], *who])
    picture.words(LEFT, picture.height - 12, said, colour="dim")
    return str(picture)


def footnote(results: Results) -> str:
    """A program of another kind would press everybody else against the axis."""
    said = "The middle of the rounds; the line is their middle half."
    for each in results.listed:
        if each.colour == "go":
            rates = [values(results.found["warm"][each.key], f"rate_{callers}") for callers in warm.CALLERS]
            if all(rates):
                one, many = (f"{figures.spread(found).middle:,.0f}" for found in rates)
                said += f" {each.name} is not drawn: {one} and {many}."
    return said


LOWEST, HIGHEST = 3e2, 3e6  # microseconds


def latency(results: Results) -> str:
    """The slowest request of each twentieth of a second, on a logarithmic scale; a strip for each client."""
    rounds = results.found["renewals"]
    ours = {each.name for each in results.listed if each.is_ours} | {renewals.ON_EXPIRY}
    strip, width, top = 62, 560, 78
    left, bottom = LEFT + NAMES + 50, top + strip * len(rounds)
    seconds = results.sizes["renewal_seconds"]
    picture = Picture(
        f"Latency while credentials are renewed, by a plugin that takes {renewals.PLUGIN_SECONDS:g} s",
        left + width + 180,
        bottom + 68,
    )
    said = (
        "Each dot: the slowest request of a twentieth of a second. Logarithmic scale. Red: requests failed."
    )
    picture.words(LEFT, 48, said, colour="dim")
    for mark in ticks(seconds, 5):
        if mark <= seconds:
            x = left + mark / seconds * width
            picture.line(x, top - 6, x, bottom)
            picture.words(x, bottom + 16, f"{mark:g} s", colour="dim", anchor="middle")
    for number, (name, mine) in enumerate(rounds.items()):
        y = top + number * strip
        tone = "ours" if name in ours else "other"
        picture.words(
            LEFT,
            y + 30,
            name,
            colour="ours" if name in ours else "word",
            bold=name in ours - {renewals.ON_EXPIRY},
        )
        for mark, label in ((1e3, "1 ms"), (1e6, "1 s")):
            picture.line(left, level(mark, y, strip), left + width, level(mark, y, strip))
            picture.words(left - 6, level(mark, y, strip) + 4, label, colour="dim", anchor="end")
        shown = next((each for each in mine if "series" in each), None)
        if shown is None:
            picture.words(left + 6, y + 30, reason(mine), colour="bad")
            continue
        points: dict[tuple[str, float], list[tuple[float, float]]] = {}
        for start, took, failed in shown["series"]:
            kind = ("bad" if failed else tone, 2.2 if took >= renewals.SLOW * 1e6 else 1.3)
            x = left + min(start / 1e3 / seconds, 1.0) * width
            points.setdefault(kind, []).append((x, level(took, y, strip)))
        for (colour, radius), some in points.items():
            picture.dots(some, radius, colour=colour)
        lost, runs = shown["failed_calls"], shown["runs"]
        beside = left + width + 12
        picture.words(
            beside, y + 22, f"{lost:,} of {shown['requests']:,} failed", colour="bad" if lost else "dim"
        )
        runs_said = "1 plugin run" if runs == 1 else f"{runs:,} plugin runs"
        picture.words(beside, y + 38, f"{shown['slow']:,} slow; {runs_said}", colour="dim")
    said = f"The first of the rounds. Slow: {renewals.SLOW * 1e3:g} ms or more."
    picture.words(LEFT, bottom + 38, said, colour="dim")
    return stamped(picture, results)


def level(took: float, top: float, height: float) -> float:
    """Where a latency stands in its strip."""
    share = math.log(min(max(took, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return top + (height - 16) * (1 - share)


def plugin_runs(results: Results) -> str:
    """Dots on a logarithmic scale, with a place of its own for none; a panel for each scene."""
    rounds = results.found["crowds"]
    callers = int(results.sizes["callers"])
    rows = [each for each in results.listed if f"{each.key}: over" in rounds]
    panel, gap, top = 210, 66, 92
    bottom = top + len(rows) * ROW
    picture = Picture(
        f"Plugin runs for {callers:,} concurrent callers: fewer is better",
        LEFT + NAMES + 3 * (panel + gap) - 20,
        bottom + 54,
    )
    said = "Logarithmic scale. Red: requests failed, or the client crashed or was stopped."
    picture.words(LEFT, 48, said, colour="dim")
    for number, each in enumerate(rows):
        y = top + number * ROW + 14
        picture.words(LEFT, y, each.key, colour="ours" if each.is_ours else "word", bold=each.is_ours)
    # Some run it more than once for a caller.
    most = max(callers, *(run for mine in rounds.values() for run in values(mine, "runs")))
    decades = math.ceil(math.log10(most))
    step = panel / (decades + 1)
    for column, (scene, title) in enumerate(crowds.SCENES.items()):
        left = LEFT + NAMES + column * (panel + gap)
        picture.words(left, top - 18, title, bold=True)
        for mark in range(decades + 2):
            label = f"{10 ** (mark - 1):,}" if mark else "0"
            picture.line(left + mark * step, top - 8, left + mark * step, bottom)
            picture.words(left + mark * step, bottom + 16, label, colour="dim", anchor="middle")
        for number, each in enumerate(rows):
            mine = rounds[f"{each.key}: {scene}"]
            draw_runs(picture, mine, each, left, step, top + number * ROW + 10)
    return stamped(picture, results)


def draw_runs(picture: Picture, mine: list[Round], each: Listed, left: float, step: float, y: float) -> None:
    found = values(mine, "runs")
    if not found:
        picture.words(left + 4, y + 4, reason(mine), colour="bad")
        return
    middle = figures.spread(found).middle
    x = left + step * (math.log10(middle) + 1 if middle >= 1 else 0)
    said, lost = told_range(found), values(mine, "failed_calls")
    is_bad = True
    if stopped := [each["stopped"] for each in mine if "stopped" in each]:
        said += f", {stopped[0].partition(',')[0]}"
    elif any(lost):
        said += f", {told_range(lost)} failed"
    else:
        is_bad = False
    picture.dots([(x, y)], 4.5, colour="bad" if is_bad else "ours" if each.is_ours else "other")
    # On the side where there is room.
    is_right = x > left + 2.5 * step
    picture.words(
        x - 9 if is_right else x + 9,
        y + 4,
        said,
        colour="bad" if is_bad else "dim",
        anchor="end" if is_right else "start",
    )


# By the name of the file: what must have been measured, and who draws it.
PLOTS: dict[str, tuple[str, Callable[[Results], str]]] = {
    "throughput": ("warm", throughput),
    "renewals": ("renewals", latency),
    "plugin-runs": ("crowds", plugin_runs),
}
