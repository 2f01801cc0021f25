"""The code blocks of the documentation."""

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
    """The name of a file in a guide, or of a cell in a notebook."""
    is_run: bool
    before: str
    """The line above the block."""
    code: str


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text()
    result: list[Block] = []
    for match in _FENCE.finditer(text):
        language, more, code = match[1], match[2].strip(), match[3]
        title = re.fullmatch('title="([^"]+)"', more)
        assert title or more in ("", "no-run"), f"{page.name}: ```{language} {more}"
        if language in languages:
            before = text[: match.start()].rstrip().rpartition("\n")[2]
            result.append(Block(page, language, title and title[1], more != "no-run", before, code))
    return result


def outputs(page: Path) -> dict[str, str]:
    """The output of each block, which the page shows in a text block below it with the title "Output"."""
    return {
        block.code: output.code
        for block, output in pairwise(blocks(page, "python", "text"))
        if block.language == "python" and output.language == "text" and output.title == "Output"
    }


def get_page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


def find_block(page: str, title: str) -> str:
    """Return the code of the block with that title on a page in docs/."""
    (block,) = (block for block in blocks(ROOT / "docs" / page, "python") if block.title == title)
    return block.code
