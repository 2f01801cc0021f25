"""Every mutation in scripts/mutations.toml can be applied, so that the table keeps up with the code."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from scripts import generate
from scripts.mutations import (
    KINDS,
    ROOT,
    Mutation,
    Result,
    changed_lines,
    load_mutations,
    order_tests,
    report,
)

MUTATION = Mutation("kubeauth/_exec/a.py", "swapped comparison", "too late", "a < b", "a > b")


def test_each_mutation_occurs_once_and_is_valid_python() -> None:
    mutations = load_mutations()
    for mutation in mutations:
        assert mutation.kind in KINDS
        text = (ROOT / mutation.file).read_text()
        mutated = ast.dump(ast.parse(mutation.mutate(text)))
        assert mutated != ast.dump(ast.parse(text)), mutation
    assert len(mutations) >= 60
    assert len({mutation.key for mutation in mutations}) == len(mutations)
    assert set(Counter(mutation.kind for mutation in mutations)) == set(KINDS)


def test_sources_are_mutated_and_not_the_modules_generated_from_them() -> None:
    generated = {f"kubeauth/{copy.target}" for copy in generate.COPIES}
    assert generated.isdisjoint(mutation.file for mutation in load_mutations())


@pytest.mark.parametrize("text", ["if a <= b:", "if a < b or a < b:"])
def test_a_mutation_that_does_not_occur_once_is_reported(text: str) -> None:
    with pytest.raises(SystemExit, match=r"kubeauth/_exec/a\.py contains 'a < b' \d times, not once"):
        MUTATION.mutate(text)


def test_the_lines_that_differ() -> None:
    before = "a\nb\nc\nd\n"
    assert changed_lines(before, before) == set()
    assert changed_lines(before, "a\nB\nc\nd\n") == {2}
    assert changed_lines(before, "a\nd\n") == {2, 3}
    assert changed_lines(before, "a\nnew\nb\nc\nd\n") == {2}


def test_tests_of_the_mirrored_directory_come_first_and_one_case_of_each() -> None:
    tests = [
        "tests/cli/test_a.py::test_1",
        "tests/exec/test_b.py::test_2[x]",
        "tests/exec/test_b.py::test_2[y]",
    ]
    tests += ["tests/exec/test_c.py::test_3"]
    assert order_tests(tests, "kubeauth/_exec/process.py") == [tests[1], tests[3], tests[2], tests[0]]


def test_the_report_counts_what_was_caught() -> None:
    other = Mutation("kubeauth/_exec/b.py", "dropped raise", "no error", "raise a", "pass")
    third = Mutation("kubeauth/_exec/c.py", "dropped raise", "no error", "raise a", "pass")
    results = {
        MUTATION.key: Result(MUTATION.key, True, True, "tests/a.py::test_1[x|y]", True, 1.0),
        other.key: Result(other.key, False, False, "", False, 1.0),
    }
    rows = report([MUTATION, other, third], results).splitlines()[2:]
    assert rows == [
        "| 1 | `kubeauth/_exec/a.py` | swapped comparison | too late | caught | caught | "
        r"`tests/a.py::test_1[x\|y]` (timeout) |",
        "| 2 | `kubeauth/_exec/b.py` | dropped raise | no error | survived | survived |  |",
        "| 3 | `kubeauth/_exec/c.py` | dropped raise | no error | not run | not run |  |",
        "",
        "3 mutations, 2 tried: 1 caught by `make test`, 1 by `make test-full`, 1 survived.",
    ]
