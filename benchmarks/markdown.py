"""Markdown whose source can be read too: columns that line up, lines that are not too long."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 118


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is names, the others are figures. What is missing is a dash."""
    cells = [[cell or "-" for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in (head, *cells)) for column in range(len(head))]
    first, *others = ("-" * (width + 1) for width in widths)
    rule = f"|{first}-|{''.join(f'{each}:|' for each in others)}"
    return "\n".join([_line(head, widths), rule, *(_line(row, widths) for row in cells)]) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.rjust(width) if column else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def prose(text: str) -> str:
    """Paragraphs, and lists of `- ` whose items are a paragraph each, broken anew."""
    parts = [part for part in textwrap.dedent(text).strip().split("\n\n") if part.strip()]
    return "\n\n".join("\n".join(_filled(each) for each in _items(part)) for part in parts) + "\n"


def _items(part: str) -> list[str]:
    return (
        [f"- {each}" for each in part.removeprefix("- ").split("\n- ")] if part.startswith("- ") else [part]
    )


def _filled(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def between(text: str, name: str, new: str) -> str:
    """`text` with what stands between `<!-- name -->` and `<!-- /name -->` replaced."""
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->\n")
    if not (start and end):
        raise ValueError(f"there is no <!-- {name} --> ... <!-- /{name} -->")
    return before + start + new + end + after
