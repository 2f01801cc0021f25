"""Every rule of the behaviour spec that is built has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent

BUILT = [
    # kubeconfig, and what becomes of it on a connection
    *[f"K{n}" for n in range(1, 70)], "K9a", "K50a",
    # plugins: how they are run, and what they print
    *[f"X{n}" for n in range(1, 48)],
    # what they gave: kept, shared, renewed, rotated
    *[f"C{n}" for n in range(1, 24)],
    # what is counted
    *[f"M{n}" for n in range(1, 6)],
    # what a request carries
    *[f"I{n}" for n in range(1, 16)],
    # which plugins may be run
    *[f"P{n}" for n in range(1, 15)],
    # who logs in at an OIDC issuer
    *[f"O{n}" for n in range(1, 11)],
    # upstream's tables
    *[f"T{n}" for n in range(1, 98)],
]  # fmt: skip


def test_every_rule_is_named_by_a_test() -> None:
    text = "".join(path.read_text() for path in TESTS.rglob("test_*.py") if path.name != Path(__file__).name)
    named = {
        match.upper()
        for name in re.findall(r"def (test_\w+)", text)
        for match in re.findall(r"_([cikmoptx]\d+a?)(?=_|$)", name)
    }
    # Words in a docstring do not count: a test must carry the rule in its name.
    assert sorted({rule.upper() for rule in BUILT} - named) == []
