"""Every rule of the behaviour spec that is built has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent

BUILT = [
    # kubeconfig, without what needs a connection (K53-K55) or a running source (K62-K64)
    *[f"K{n}" for n in range(1, 53)], "K9a", "K50a",
    *[f"K{n}" for n in range(56, 62)], *[f"K{n}" for n in range(65, 70)],
    # plugin policy: what it is and where it comes from
    "P1", "P2", "P3", "P11", "P12", "P13",
    # upstream's tables
    "T74", "T76", "T77", "T79", "T80",
]  # fmt: skip


def test_every_rule_is_named_by_a_test() -> None:
    text = "".join(path.read_text() for path in TESTS.rglob("test_*.py") if path.name != Path(__file__).name)
    named = {
        match.upper()
        for name in re.findall(r"def (test_\w+)", text)
        for match in re.findall(r"[kpt]\d+a?", name)
    }
    # Words in a docstring do not count: a test must carry the rule in its name.
    assert sorted({rule.upper() for rule in BUILT} - named) == []
