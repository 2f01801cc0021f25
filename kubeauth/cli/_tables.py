"""Tables as kubectl prints them: aligned columns, and rows that come later under those before. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from kubeauth.cli._terminal import harmless

# As kubectl's: a column is so many characters wide at least, and so many apart from the next.
_LEAST, _APART = 6, 3
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
        texts = [cell(cells[number]) if number < len(cells) else "" for number in shown]
        return [cell(_namespace_of(row)), *texts] if self._with_namespace else texts


def _namespace_of(row: Mapping[str, Any]) -> object:
    value: Any = row
    for key in ("object", "metadata", "namespace"):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def cell(value: object) -> str:
    """As kubectl writes it: nothing for null, Go's words for booleans, and one line of text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    cut = _BREAK.search(text)
    return harmless(text if cut is None else f"{text[: cut.start()]}...").replace("\t", " ")
