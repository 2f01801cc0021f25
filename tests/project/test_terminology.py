"""The core and its tests use standard terms: none of the words of a former private vocabulary."""

from __future__ import annotations

import re
from pathlib import Path

import kubeauth

ROOT = Path(kubeauth.__file__).parent.parent
NAMES = "config", "credentials", "exec", "oidc", "parsing", "transport", "metrics", "testing", "transports"
CORE = [
    *(ROOT / "kubeauth").glob("*.py"),
    *(ROOT / "tests").glob("*.py"),
    *(ROOT / "scripts").glob("*.py"),
    *(
        path
        for name in NAMES
        for directory in (
            f"kubeauth/{name}",
            f"kubeauth/_{name}",
            f"tests/{name}",
            "tests/support",
            "tests/conformance",
        )
        for path in (ROOT / directory).rglob("*.py")
    ),
]
NEVER = re.compile(
    r"\b(whoever|nobody|somebody|strangers?|colours?|faces?|twins?|mend(ed|s)?|(is|are) over|inner|stanzas?|"
    r"(that|which|address|file|it) is none)\b",
    re.IGNORECASE,
)


def test_no_word_of_the_former_vocabulary() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(set(CORE))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if NEVER.search(line)
    ]
    assert found == []
