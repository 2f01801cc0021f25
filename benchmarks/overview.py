"""What matters most, in a table for the README: a column per client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import figures, markdown
from benchmarks.measures import crowds
from benchmarks.results import Listed, Results
from benchmarks.stage import Round
from benchmarks.telling import middle, reason, told_duration, told_number, told_range, values

# Where there are both colours, the blocking one. The page has the others, and who is left out here.
COLUMNS = [
    "kubeauth",
    "kubeauth direct",
    "kubernetes",
    "kubernetes_asyncio",
    "lightkube",
    "kr8s",
    "httpx2-k8s",
    "pykube-ng",
    "client-go",
]


@dataclass(frozen=True, slots=True)
class Line:
    title: str
    measure: str
    cell: Callable[[list[Round]], str]
    key: Callable[[Listed], str] = lambda each: each.key
    """Under which name the measure has a client."""


def lines(results: Results) -> list[Line]:
    sizes = {name: f"{size:,.0f}" for name, size in results.sizes.items()}
    return [
        *(
            Line(
                f"plugin runs, {sizes['callers']} callers, {title}",
                "crowds",
                runs,
                in_scene(scene),
            )
            for scene, title in crowds.SCENES.items()
        ),
        Line("failed, outliving three tokens", "renewals", failed, by_name),
        Line("failed, outliving three certificates", "certificates", failed, by_name),
        Line("p99.9, outliving three tokens", "renewals", slowest, by_name),
        Line(
            "loop stands still, plugin of 1 s",
            "stall",
            duration("longest"),
            lambda each: f"{each.name} async",
        ),
        Line("requests a second, 1 caller", "warm", figure("rate_1")),
        Line("requests a second, 64 callers", "warm", figure("rate_64")),
        Line("first answer of a fresh process", "cold", duration("us")),
        Line("import", "imports", duration("us")),
        Line(f"kubeconfig with {sizes['contexts']} contexts", "kubeconfigs", duration("us")),
        Line(f"KiB per cluster, of {sizes['clusters']}", "fleet", figure("kib")),
    ]


def table(results: Results) -> str:
    first = {each.name: each for each in reversed(results.listed)}
    columns = [first[name] for name in COLUMNS if name in first]
    rows = []
    for line in lines(results):
        if found := results.found.get(line.measure):
            mine = [found.get(line.key(each), []) for each in columns]
            rows.append([line.title, *(line.cell(each) or reason(each) for each in mine)])
    text = markdown.table(["", *(each.shown for each in columns)], rows)
    return text + what_it_adds(results) + what_it_is_of(results)


def what_it_adds(results: Results) -> str:
    """Nothing, if it was not measured."""
    found = results.found.get("added", {})
    said = [f"{added(mine, 'static')} us ({added(mine, 'plugin')}) on {name}" for name, mine in found.items()]
    words = f"kubeauth adds to a request with a static token (with a plugin's): {', '.join(said)}."
    return "\n" + markdown.prose(words) if said else ""


def added(mine: list[Round], field: str) -> str:
    return f"{figures.spread([each[field] - each['plain'] for each in mine]).middle:.0f}"


def what_it_is_of(results: Results) -> str:
    about = results.about
    return "\n" + markdown.prose(f"{about['date']}, on {about['machine']}, with {about['python']}.")


def in_scene(scene: str) -> Callable[[Listed], str]:
    return lambda each: f"{each.key}: {scene}"


def by_name(each: Listed) -> str:
    return each.name


def duration(field: str) -> Callable[[list[Round]], str]:
    return lambda mine: told_duration(middle(mine, field))


def figure(field: str) -> Callable[[list[Round]], str]:
    return lambda mine: told_number(middle(mine, field))


def runs(mine: list[Round]) -> str:
    found = told_range(values(mine, "runs"))
    if stopped := [each["stopped"] for each in mine if "stopped" in each]:
        return f"{found}, {stopped[0].partition(',')[0]}"
    lost = values(mine, "failed_calls")
    return f"{found}, {told_range(lost)} failed" if any(lost) else found


def slowest(mine: list[Round]) -> str:
    """How quickly somebody fails is no merit."""
    return "fails" if any(values(mine, "failed_calls")) else told_duration(middle(mine, "p99.9"))


def failed(mine: list[Round]) -> str:
    lost, asked = sum(values(mine, "failed_calls")), sum(values(mine, "requests"))
    return f"{lost:,.0f} of {asked:,.0f}" if asked else ""
