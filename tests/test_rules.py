"""Every rule of the behaviour spec that is built has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent

BUILT = [
    # kubeconfig, and what becomes of it on a connection
    *[f"K{n}" for n in range(1, 70)], "K9a", "K50a",
    # what a request carries, without what is about a plugin
    "I1", "I7", "I8", "I9", "I10", "I14",
    # of plugins: which version, and what their authors get
    "X1", "X47",
    # plugin policy: what it is and where it comes from
    "P1", "P2", "P3", "P11", "P12", "P13",
    # upstream's tables
    "T74", "T75", "T76", "T77", "T79", "T80",
]  # fmt: skip


def test_every_rule_is_named_by_a_test() -> None:
    text = "".join(path.read_text() for path in TESTS.rglob("test_*.py") if path.name != Path(__file__).name)
    named = {
        match.upper()
        for name in re.findall(r"def (test_\w+)", text)
        for match in re.findall(r"[kptix]\d+a?", name)
    }
    # Words in a docstring do not count: a test must carry the rule in its name.
    assert sorted({rule.upper() for rule in BUILT} - named) == []
