"""Tables as kubectl prints them: aligned columns, and rows that come later under those before. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from kubeauth.cli._terminal import harmless

# As kubectl's: a column is so many characters wide at least, and so many apart from the next.
_LEAST, _APART = 6, 3
# What is wrapped is not made a column of words.
_NARROWEST = 20
# Where a cell is cut off.
_BREAK = re.compile(r"[\f\n\r]")

ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json,*/*"


class Columns:
    """Remembers how wide they are: what comes later is aligned to it, or makes them wider."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def text(self, rows: Iterable[Sequence[str]]) -> str:
        """These rows, aligned, each on a line."""
        rows = list(rows)
        for row in rows:
            self._widths += [_LEAST] * (len(row) - len(self._widths))
            for number, cell in enumerate(row):
                self._widths[number] = max(self._widths[number], len(cell) + _APART)
        return "".join(f"{self._line(row)}\n" for row in rows)

    def _line(self, row: Sequence[str]) -> str:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], self._widths, strict=False)]
        return "".join([*padded, *row[-1:]])


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a server has made a table of its answer."""
    return (
        isinstance(value, dict)
        and value.get("kind") == "Table"
        and str(value.get("apiVersion")).startswith("meta.k8s.io/")
    )


class ServerTables:
    """The tables of one answer and of the events after it, as one text."""

    def __init__(self, *, wide: bool = False, with_namespace: bool = False) -> None:
        """`wide`: also the columns that kubectl keeps for -o wide."""
        self._wide = wide
        self._with_namespace = with_namespace
        self._columns = Columns()
        self._shown: list[int] | None = None
        self._headers: list[str] = []

    def text(self, table: Mapping[str, Any]) -> str:
        """Its rows; before the first, or if they are others than before, the names of the columns."""
        lines: list[list[str]] = []
        rows = _mappings(table.get("rows"))
        if rows and not self._headers:
            # A resource that is in no namespace has no use for that column.
            self._with_namespace = self._with_namespace and any(map(_namespace_of, rows))
        if definitions := _mappings(table.get("columnDefinitions")):
            shown = [n for n, each in enumerate(definitions) if self._wide or not each.get("priority")]
            headers = [cell(definitions[number].get("name")).upper() for number in shown]
            if rows and headers != self._headers:
                self._shown, self._headers = shown, headers
                self._columns = Columns()
                lines.append(["NAMESPACE", *headers] if self._with_namespace else headers)
        lines += [self._row(row) for row in rows]
        return self._columns.text(lines)

    def _row(self, row: Mapping[str, Any]) -> list[str]:
        cells = row.get("cells")
        cells = cells if isinstance(cells, list) else []
        shown = range(len(cells)) if self._shown is None else self._shown
        texts = [cell(cells[number]) for number in shown if number < len(cells)]
        return [cell(_namespace_of(row)), *texts] if self._with_namespace else texts


class ServerRows(NamedTuple):
    """What of a table is shown."""

    headers: tuple[str, ...]
    rows: list[list[str]]
    namespaces: list[str]
    """Of each row; empty where it is in none."""


def server_rows(table: Mapping[str, Any], *, wide: bool) -> ServerRows:
    """The columns of a server's table, without those that kubectl keeps for -o wide unless it is so."""
    definitions = _mappings(table.get("columnDefinitions"))
    shown = [n for n, each in enumerate(definitions) if wide or not each.get("priority")]
    rows, namespaces = [], []
    for row in _mappings(table.get("rows")):
        cells = row.get("cells")
        cells = cells if isinstance(cells, list) else []
        rows.append([cell(cells[number]) for number in shown if number < len(cells)])
        namespaces.append(cell(_namespace_of(row)))
    return ServerRows(
        tuple(cell(definitions[number].get("name")).upper() for number in shown), rows, namespaces
    )


def _namespace_of(row: Mapping[str, Any]) -> object:
    value: Any = row
    for key in ("object", "metadata", "namespace"):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def cell(value: object) -> str:
    """As kubectl writes it: nothing for null, what Go says of anything else, and one line of text."""
    try:
        text = "" if value is None else _go(value)
    except RecursionError:
        text = "..."
    cut = _BREAK.search(text)
    return harmless(text if cut is None else f"{text[: cut.start()]}...").replace("\t", " ")


def _go(value: object) -> str:
    """As Go prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(map(_go, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go(each)}' for key, each in sorted(value.items()))}]"
    return "<nil>" if value is None else str(value)


def fitted(rows: Iterable[Sequence[str]], width: int | None) -> str:
    """A table, whose first row names the columns. Where it is too wide, each cell is on a line of its own."""
    names, *others = rows
    text = Columns().text([names, *others])
    if width is None or all(len(line) <= width for line in text.splitlines()):
        return text
    return "\n".join(facts(zip(names, row, strict=False), width) for row in others)


def facts(rows: Iterable[tuple[str, str]], width: int | None) -> str:
    """Names and values, the values wrapped to what is left beside them. What has no blank stays whole."""
    rows = list(rows)
    left = max(len(name) for name, _ in rows) + _APART
    lines: list[tuple[str, str]] = []
    for name, value in rows:
        parts = [value] if width is None else _wrapped(value, max(width - left, _NARROWEST))
        lines += zip([name, *[""] * len(parts)], parts, strict=False)
    return Columns().text(lines)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
