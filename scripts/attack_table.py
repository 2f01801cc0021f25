"""Runs the tests that are marked `attack`, and writes what they show into a table of docs/security.md.

    python -m scripts.attack_table

A test is marked with the program that is attacked, with the attack, and with what is guaranteed:

    @pytest.mark.attack("proxy", "connection flood", "503 for new connections, existing ones are served")

Tests with the same program and attack are one row. The rows are read from the source of the tests; only
the number of cases comes from the run, and so the committed table can be compared without running them.
Nothing is written if a test fails.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- attacks: written by `make attacks` -->\n", "<!-- end of attacks -->\n"
_HEAD = "| target | attack | what is guaranteed | cases | shown by |\n|---|---|---|---|---|\n"


class Attack(NamedTuple):
    """One marked test."""

    target: str
    what: str
    guarantee: str
    path: str
    """Of the file, from the root of the repository, as in a node id."""
    name: str


def marked_attacks(root: Path = ROOT) -> list[Attack]:
    """Every marked test below `root`/tests, in the order of the files and of the tests in them."""
    found: list[Attack] = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "pytest.mark.attack(" in text:
            found += _attacks_in(ast.parse(text), path.relative_to(root).as_posix())
    return found


def _attacks_in(module: ast.Module, path: str) -> Iterator[Attack]:
    for node in ast.walk(module):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.attack":
                target, what, guarantee = (ast.literal_eval(argument) for argument in mark.args)
                yield Attack(target, what, guarantee, path, node.name)


def table(attacks: list[Attack], cases: Counter[tuple[str, str]] | None = None) -> str:
    """The rows, by target. Without `cases`, that column is empty."""
    rows: dict[tuple[str, str, str], list[Attack]] = {}
    for attack in sorted(attacks, key=lambda each: each.target.lower()):  # the sort is stable
        rows.setdefault(attack[:3], []).append(attack)
    lines = []
    for (target, what, guarantee), shown in rows.items():
        count = "" if cases is None else str(sum(cases[each.path, each.name] for each in shown))
        names = ", ".join(f"`{each.name}`" for each in shown)
        lines.append(f"| {target} | {what} | {guarantee} | {count} | {names} |\n")
    return _HEAD + "".join(lines)


def committed_table() -> str:
    """What stands between the markers of the page."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


class CaseCount:
    """A plugin of pytest that counts the cases which passed, by test."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            path, *_, name = report.nodeid.partition("[")[0].split("::")
            # A test by tests.support.cases.each_case is many cases; tests/conftest.py says how many.
            self.passed[path, name] += int(str(dict(report.user_properties).get("cases", 1)))


def main(arguments: list[str]) -> int:
    """Runs, writes, and returns the exit code. `arguments` are passed on to pytest."""
    attacks, count = marked_attacks(), CaseCount()
    files = sorted({attack.path for attack in attacks})
    code = pytest.main(["-q", "-m", "attack", *arguments, *files], plugins=[count])
    if code != pytest.ExitCode.OK:
        print(f"{PAGE.name} is left as it is: not every test passed", file=sys.stderr)
        return int(code)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + table(attacks, count.passed) + END + after)
    print(f"{len(attacks)} tests, {count.passed.total()} cases: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
