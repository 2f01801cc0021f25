from __future__ import annotations

import re
from pathlib import Path

import kubeauth

ROOT = Path(__file__).parents[2]


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    assert found is not None
    assert found[1] == kubeauth.__version__
    assert "keepachangelog.com" in text
