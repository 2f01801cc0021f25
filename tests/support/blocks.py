"""The code in the documentation, as it stands there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    title: str | None
    """The name of a file that a guide is about, or of a cell of a notebook."""
    is_run: bool
    before: str
    """The line above it."""
    code: str


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text()
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        language, more, code = match[1], match[2].strip(), match[3]
        title = re.fullmatch('title="([^"]+)"', more)
        assert title or more in ("", "no-run"), f"{page.name}: ```{language} {more}"
        if language in languages:
            before = text[: match.start()].rstrip().rpartition("\n")[2]
            found.append(Block(page, language, title and title[1], more != "no-run", before, code))
    return found


def outputs(page: Path) -> dict[str, str]:
    """What the page says that a block prints, by the block: in a text below it with the title "Output"."""
    found = blocks(page, "python", "text")
    return {
        block.code: shown.code
        for block, shown in pairwise(found)
        if block.language == "python" and shown.language == "text" and shown.title == "Output"
    }


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


def titled(page: str, title: str) -> str:
    """The one block of that title on a page below docs/."""
    (block,) = (block for block in blocks(ROOT / "docs" / page, "python") if block.title == title)
    return block.code
