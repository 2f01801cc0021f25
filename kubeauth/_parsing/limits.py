"""Limits on untrusted documents, and the error for a document that is rejected."""

from __future__ import annotations

from dataclasses import dataclass

MAX_PROBLEMS = 100
"""How many problems of each kind are reported."""
MAX_DEPTH = 100
MAX_ALIASES = 10_000
MAX_VALUES = 1_000_000
"""Counted as if every alias were written out. 10,000 contexts need about 400,000."""


class DocumentError(ValueError):
    """The document is rejected. Contains none of its text; callers raise their own error."""

    def __init__(self, reason: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column


TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
TOO_MANY_VALUES = f"more than {MAX_VALUES:,} values"
TOO_MANY_ALIASES = f"more than {MAX_ALIASES:,} alias expansions"
INVALID_NUMBER = "a number that is not valid in JSON"


@dataclass(slots=True)
class Budget:
    """How many values and alias expansions a document has so far."""

    values: int = 0
    aliases: int = 0

    def spend(self, values: int, aliases: int = 0) -> None:
        self.values += values
        self.aliases += aliases
        if self.values > MAX_VALUES:
            raise DocumentError(TOO_MANY_VALUES)
        if self.aliases > MAX_ALIASES:
            raise DocumentError(TOO_MANY_ALIASES)
