"""A run from end to end, of little: our own server in asyncio, our own client and plain httpx."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks import overview, page, plots, subjects, svg
from benchmarks.__main__ import MEASURES, arguments, measured
from benchmarks.measures import crowds, renewals
from benchmarks.results import Listed, Results
from benchmarks.stage import ROOT, Sizes

# Some fifty programs are started for the first of them, and the machine may be busy.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TINY = Sizes(
    added_rounds=1,
    added_calls=5,
    warm_rounds=2,
    warm_seconds=0.05,
    settle_seconds=0.01,
    cold_rounds=1,
    crowd_rounds=1,
    callers=8,
    renewal_rounds=1,
    renewal_seconds=0.5,
    stall_rounds=1,
    import_rounds=1,
    load_rounds=1,
    contexts=4,
    fleet_rounds=1,
    clusters=3,
    at_once=4,
)


@pytest.fixture(scope="module")
def results() -> Results:
    console = Console(file=io.StringIO())
    with pytest.MonkeyPatch.context() as patched:
        # On a machine that stalls, four seconds may be over before the first credential is there.
        patched.setattr(crowds, "MARGIN", 8)
        return measured(TINY, console, names=["kubeauth", subjects.DIRECT, "httpx sync"], with_go=False)


@pytest.mark.slow
def test_everything_is_measured_and_nobody_fails(results: Results) -> None:
    assert list(results.found) == list(MEASURES)
    failed = [
        (measure, name, each)
        for measure, rounds in results.found.items()
        for name, mine in rounds.items()
        for each in mine
        if "failed" in each or "stopped" in each or each.get("failures")
    ]
    assert failed == []


def test_a_crowd_is_one_run_whatever_became_of_the_credential(results: Results) -> None:
    found = results.found["crowds"]
    runs = {key: [each["runs"] for each in mine] for key, mine in found.items() if key.startswith("kubeauth")}
    assert runs == {
        f"{name} {colour}: {scene}": [1]
        for name in ("kubeauth", subjects.DIRECT)
        for colour in ("sync", "async")
        for scene in crowds.SCENES
    }
    # Its token was not issued by a run of the plugin.
    assert [each["runs"] for each in found["httpx sync: none"]] == [0]


def test_the_page_has_a_section_for_every_measure_and_our_own_row_in_each(results: Results) -> None:
    text = page.page(results)
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    assert sections[0].startswith("Where kubeauth is behind\n")
    assert [each.partition("\n")[0] for each in sections[1:]] == [
        heading for heading, _, _ in page.SECTIONS.values()
    ]
    for section in sections[1:]:
        assert "**kubeauth" in section or "kubeauth, static token" in section
    assert str(Path.home()) not in text
    assert sys.prefix not in text
    assert ("This was a quick run" in text) is (results.sizes["at_once"] > 1)


def test_what_is_said_of_a_run_is_on_its_page(results: Results) -> None:
    noted = Results({**results.about, "note": "Somebody compiled meanwhile."}, results.sizes, results.listed)
    assert "\n\nSomebody compiled meanwhile.\n\n" in page.page(noted)
    assert "\n\n\n" not in page.page(results)


def test_results_can_be_told_again(results: Results, tmp_path: Path) -> None:
    written = page.write(results, tmp_path)
    again = Results.read(tmp_path / "results.json")
    assert page.page(again) == written == (tmp_path / "benchmarks.md").read_text()
    assert {path.stem for path in (tmp_path / "img").iterdir()} == set(plots.PLOTS)


def test_digits_that_are_not_kept_are_not_told_either(results: Results, tmp_path: Path) -> None:
    """10.0496 is told as 10.0, but 10.05, which is what is kept of it, as 10.1."""
    memory = results.found["fleet"]
    unround = {name: [dict.fromkeys(each, 10.0496) for each in mine] for name, mine in memory.items()}
    results = Results(results.about, results.sizes, results.listed, {**results.found, "fleet": unround})
    written = page.write(results, tmp_path)
    assert page.page(Results.read(tmp_path / "results.json")) == written
    assert page.page(results) != written


def test_the_table_of_the_readme_has_a_row_for_what_was_measured_and_no_other(results: Results) -> None:
    lines = overview.table(results).splitlines()
    head = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert head == ["", "**kubeauth**", f"**{subjects.DIRECT}**"]
    assert "plugin runs, 8 callers, revoked (401)" in overview.table(results)
    only = Results(results.about, results.sizes, results.listed, {"imports": results.found["imports"]})
    *rows, _, about = overview.table(only).splitlines()
    assert [line.split("|")[1].strip() for line in rows[2:]] == ["import"]
    assert about.startswith(results.about["date"])


def failing(name: str) -> Listed:
    return Listed(f"{name} sync", name, "sync", "1.0", is_ours=False)


@pytest.fixture
def bad_day(results: Results) -> Results:
    """Somebody crashes, somebody is stopped, and somebody fails after expiry."""
    found = {measure: dict(rounds) for measure, rounds in results.found.items()}
    dead = [{"failed": "crashed, SIGSEGV"}]
    for measure in ("warm", "cold", "imports", "fleet"):
        found[measure]["<b>&co sync"] = dead * len(found[measure]["kubeauth sync"])
    for scene in crowds.SCENES:
        found["crowds"][f"<b>&co sync: {scene}"] = dead
        found["crowds"][f"slow sync: {scene}"] = [{"runs": 70, "stopped": "no answer in 30 s"}, {}]
        found["crowds"][f"late sync: {scene}"] = [
            {"runs": 0, "us": 5.0, "failures": {"ApiException 401": 8}, "failed_calls": 8}
        ]
    found["renewals"] |= {"<b>&co": dead}
    found["renewals"]["late"] = [
        {
            "requests": 10, "p50": 1.0, "p99": 2.0, "p99.9": 2.0, "slow": 0, "runs": 1, "failed_calls": 4,
            "failures": {"ApiException 401": 4}, "series": [[0, 1000, 0], [450, 900, 4]],
        }
    ]  # fmt: skip
    found["warm"] |= {"slow sync": 2 * dead, "late sync": 2 * dead}
    listed = [*results.listed, failing("<b>&co"), failing("slow"), failing("late")]
    return Results(results.about, results.sizes, listed, found)


def test_what_went_wrong_is_on_the_page(bad_day: Results) -> None:
    text = page.page(bad_day)
    assert "crashed, SIGSEGV" in text
    assert "70 runs; no answer in 30 s" in text
    assert "0 runs; 8 failed; 5.00 us" in text
    assert "4 (ApiException 401)" in text


def test_who_fails_is_not_ahead_however_quick_its_failures_are(bad_day: Results) -> None:
    assert renewals.tell_tokens(bad_day).behind.get("p99.9 while a token is renewed") is None
    (mine,) = bad_day.found["renewals"]["late"]
    bad_day.found["renewals"]["late"] = [mine | {"failed_calls": 0}]
    ((who, _),) = renewals.tell_tokens(bad_day).behind["p99.9 while a token is renewed"]
    assert who == "late"


@pytest.mark.parametrize("name", plots.PLOTS)
def test_pictures_are_whole_and_nothing_is_drawn_outside(name: str, bad_day: Results) -> None:
    _, draw = plots.PLOTS[name]
    picture = ElementTree.fromstring(draw(bad_day))  # noqa: S314 -- we wrote it
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    said = []
    for shape in picture.iter():
        for across in ("x", "x1", "x2", "cx"):
            assert 0 <= float(shape.attrib.get(across, 0)) <= width
        for down in ("y", "y1", "y2", "cy"):
            assert 0 <= float(shape.attrib.get(down, 0)) <= height
        if shape.tag.endswith("text") and shape.text:
            said.append(shape.text)
            # About as wide as it will be, at twelve pixels.
            ends = float(shape.attrib["x"]) + (
                0 if shape.attrib["text-anchor"] == "end" else 6.6 * len(shape.text)
            )
            assert shape.attrib["text-anchor"] == "middle" or ends <= width + 6.6, shape.text
    assert any("<b>&co" in words for words in said)
    assert said[-1].startswith(f"{bad_day.about['date']}, {bad_day.about['machine']}, ")
    assert "crashed, SIGSEGV" in said


def test_a_picture_brings_a_page_and_both_sets_of_colours() -> None:
    text = str(svg.Picture("a & b", 100, 50))
    assert 'aria-label="a &amp; b"' in text
    assert 'class="page"' in text
    light, _, dark = text.partition("@media (prefers-color-scheme: dark)")
    assert all(f".{name}{{" in part for name in svg.COLOURS for part in (light, dark))


@pytest.mark.parametrize(
    ("most", "expected"), [(1.0, [0, 0.25, 0.5, 0.75, 1.0]), (1700, [0, 500, 1000, 1500, 2000])]
)
def test_axes_begin_at_zero_and_have_room_for_the_most(most: float, expected: list[float]) -> None:
    assert svg.ticks(most) == expected


def test_a_measure_that_is_none_is_refused() -> None:
    with pytest.raises(SystemExit, match="there is no measure called nonsense"):
        measured(TINY, Console(file=io.StringIO()), only=["nonsense"], with_go=False)


def test_the_command_line_names_every_measure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit, match="0"):
        arguments()
    shown = " ".join(capsys.readouterr().out.split())
    assert [name for name in MEASURES if name not in shown] == []


def test_what_is_documented_is_what_was_found() -> None:
    """Page, pictures and the README's table are made of the results that are kept, and of nothing else."""
    results = Results.read(ROOT / "benchmarks" / "results.json")
    assert (ROOT / "docs" / "benchmarks.md").read_text() == page.page(results)
    for name, (_, draw) in plots.PLOTS.items():
        assert (ROOT / "docs" / "img" / f"{name}.svg").read_text() == draw(results)
    assert overview.table(results) in (ROOT / "README.md").read_text()
