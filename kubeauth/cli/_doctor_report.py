"""What the doctor found, for people and for programs; `registry check` looks alike. Pure."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from kubeauth import __version__
from kubeauth.cli._doctor_findings import SECTIONS, Finding, Level, worst
from kubeauth.cli._doctor_words import counted

NARROWEST, WIDEST = 60, 120

_INDENT = 2
_LEVEL = max(len(level) for level in Level) + 2
_ID = max(len(id) for ids in SECTIONS.values() for id in ids)
_COLOURS = {Level.OK: "32", Level.WARNING: "33", Level.ERROR: "1;31", Level.SKIPPED: "2"}


def as_json(findings: Sequence[Finding]) -> str:
    """For CI: the keys are stable, more facts may come."""
    checks = [
        {
            "id": finding.id,
            "status": finding.level.value,
            "summary": finding.summary,
            "next_step": finding.next_step or None,
            "facts": dict(finding.facts),
        }
        for finding in findings
    ]
    return json.dumps({"kubeauth": __version__, "status": worst(findings).value, "checks": checks}, indent=2)


def as_text(findings: Sequence[Finding], *, width: int, colour: bool) -> str:
    """A table; `width` columns wide, within reason."""
    sections = {
        name: [finding for finding in findings if finding.id in ids] for name, ids in SECTIONS.items()
    }
    return as_sections(sections, closing(findings), longest=_ID, width=width, colour=colour)


def as_sections(
    sections: Mapping[str, Sequence[Finding]], end: str, *, longest: int, width: int, colour: bool
) -> str:
    """The same of any findings, with `end` below them; no id is longer than `longest`."""
    width = min(max(width, NARROWEST), WIDEST)
    left = _INDENT + _LEVEL + longest + 2
    lines: list[str] = []
    for section, rows in sections.items():
        if rows:
            lines.append(_painted(section, "1", colour))
            for alike in _grouped(rows):
                lines += _row(alike, left, width, colour)
            lines.append("")
    return "\n".join([*lines, *_wrapped(end, width)])


def closing(findings: Sequence[Finding]) -> str:
    """All of it in a sentence."""
    count = Counter(finding.level for finding in findings)
    said = [counted(count[level], level) for level in (Level.ERROR, Level.WARNING) if count[level]]
    if not said:
        return f"Nothing is wrong: {count[Level.OK]} ok" + _skipped(count) + "."
    bad = [finding for finding in findings if finding.level is worst(findings)]
    # A clock is an error only if something hangs on it, which then is one too, and comes before.
    first = next((finding for finding in bad if finding.id == "clock"), bad[0])
    advice = f"{first.advice.rstrip(':')}, as above." if first.command else first.next_step
    return f"{', '.join(said)}, {count[Level.OK]} ok{_skipped(count)}. Begin with {first.id}: {advice}"


def _skipped(count: Counter[Level]) -> str:
    return f", {count[Level.SKIPPED]} skipped" if count[Level.SKIPPED] else ""


def _grouped(rows: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Those that were skipped for the same reason are one row."""
    for _, group in groupby(enumerate(rows), lambda row: row[1].summary if _is_skipped(row[1]) else row[0]):
        yield [finding for _, finding in group]


def _is_skipped(finding: Finding) -> bool:
    return finding.level is Level.SKIPPED


def _row(alike: Sequence[Finding], indent: int, width: int, colour: bool) -> Iterator[str]:
    finding = alike[0]
    level = _painted(f"{finding.level:<{_LEVEL}}", _COLOURS[finding.level], colour)
    left = f"{'':{_INDENT}}{level}"
    if len(alike) == 1:
        left += f"{finding.id:<{indent - _INDENT - _LEVEL}}"
        text = _wrapped(finding.summary, width - indent)
    else:
        names = ", ".join(each.id for each in alike)
        text = _wrapped(f"{names}: {finding.summary}", width - _INDENT - _LEVEL)
    for line in text:
        yield f"{left}{line}"
        left = " " * (indent if len(alike) == 1 else _INDENT + _LEVEL)
    # The arrow tells the two apart where there is no colour.
    arrow = "-> "
    for line in _wrapped(finding.advice, width - indent - len(arrow)):
        yield f"{left}{_painted(f'{arrow}{line}', '1', colour)}"
        arrow = " " * len(arrow)
    if finding.command:
        # However long: a terminal that wraps it gives it back whole.
        yield f"{left}{_painted(f'{arrow}{finding.command}', '1', colour)}"


def _wrapped(text: str, width: int) -> list[str]:
    # Paths and commands stay whole, to be copied.
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
