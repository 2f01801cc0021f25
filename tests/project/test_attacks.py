"""The table of attacks in docs/security.md names the tests that are marked, and each of them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from scripts.attack_table import Attack, CaseCount, committed_table, marked_attacks, table

TARGETS = {"proxy", "GMSA webhook", "RegistryAuth", "docker-credential-kubeauth"}


def without_counts(text: str) -> str:
    """The counts change with each case that is added; what they are counts of does not."""
    return re.sub(r"\| \d* \| (?=`)", "| | ", text)


def test_the_committed_table_is_that_of_the_marked_tests() -> None:
    assert without_counts(committed_table()) == without_counts(table(marked_attacks())), "run: make attacks"


def test_every_row_has_cases() -> None:
    rows = committed_table().splitlines()[2:]
    assert rows
    assert [row for row in rows if not int(row.split(" | ")[3])] == []


def test_every_mark_is_complete() -> None:
    attacks = marked_attacks()
    assert {attack.target for attack in attacks} == TARGETS
    assert all(text and "|" not in text for attack in attacks for text in attack[:3])
    # One attack has one guarantee.
    assert len({attack[:2] for attack in attacks}) == len({attack[:3] for attack in attacks})


def test_marks_are_read_from_the_source(tmp_path: Path) -> None:
    source = 'import pytest\n@pytest.mark.attack("a", "b", "c")\n@pytest.mark.slow\ndef test_it(): ...\n'
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(source)
    (tmp_path / "tests" / "test_two.py").write_text("def test_other(): ...")
    assert marked_attacks(tmp_path) == [Attack("a", "b", "c", "tests/test_one.py", "test_it")]


def test_rows_are_grouped_and_counted() -> None:
    attacks = [
        Attack("b", "w", "g", "tests/x.py", "test_1"),
        Attack("a", "w", "g", "tests/x.py", "test_2"),
        Attack("b", "w", "g", "tests/y.py", "test_3"),
    ]
    count = CaseCount()
    for node in ("tests/x.py::test_1[a::b]", "tests/x.py::test_1[c]", "tests/y.py::Class::test_3"):
        report = pytest.TestReport(node, ("", 0, ""), {}, "passed", None, "call")
        count.pytest_runtest_logreport(report)
    of_a_table = pytest.TestReport(
        "tests/x.py::test_1", ("", 0, ""), {}, "passed", None, "call", user_properties=[("cases", 20)]
    )
    count.pytest_runtest_logreport(of_a_table)
    lines = table(attacks, count.passed).splitlines()[2:]
    assert lines == ["| a | w | g | 0 | `test_2` |", "| b | w | g | 23 | `test_1`, `test_3` |"]
    assert table(attacks, Counter()).count("| 0 |") == 2
