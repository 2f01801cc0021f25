"""The core uses standard terms: none of the words of its former private vocabulary."""

from __future__ import annotations

import re
from pathlib import Path

import kubeauth

PACKAGE = Path(kubeauth.__file__).parent
CORE = [
    *PACKAGE.glob("*.py"),
    *(
        path
        for name in (
            "_config", "_credentials", "_exec", "_oidc", "_parsing", "_transport", "metrics", "testing", "transports"
        )
        for path in (PACKAGE / name).rglob("*.py")
    ),
]  # fmt: skip
NEVER = re.compile(
    r"\b(whoever|nobody|somebody|strangers?|colours?|faces?|twins?|mend(ed|s)?|(is|are) over|inner|stanzas?|"
    r"(that|which|address|file|it) is none)\b",
    re.IGNORECASE,
)


def test_no_word_of_the_former_vocabulary() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sorted(CORE)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if NEVER.search(line)
    ]
    assert found == []
