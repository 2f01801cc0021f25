"""Read an untrusted document field by field, and collect all its problems.

A codec reads the fields it knows, in the order in which problems should be reported:

    findings = Findings("/etc/motd.yaml")
    fields = findings.root(document)
    motd = Motd(text=fields.string("text"), loud=fields.boolean("loud"))
    return findings.schema_problems or motd

As in Go, an absent or null field is the zero value of its type. So is a field of the wrong type, which is
also a problem: it names the place and the two types, never the value. Nothing here raises, so that no
traceback contains the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubeauth._parsing.json import describe_type
from kubeauth.errors import Problem

MAX_PROBLEMS = 100
"""How many problems of each kind are reported."""


class Findings:
    """The problems of one document.

    Unknown fields are ignored, and of a list only the first invalid item is reported, with all its problems:
    the others usually have the same. With `strict`, unknown fields and all invalid items are reported, and
    list items are named by index, as in Kubernetes.
    """

    def __init__(self, origin: str = "", *, strict: bool = False) -> None:
        self.schema_problems: list[Problem] = []
        """Fields of the wrong type and, if strict, unknown fields."""
        self.schema_problem_count = 0
        """How many there are, including those that are not reported."""
        self.value_problems: list[Problem] = []
        """Fields of the right type whose value the codec rejected."""
        self._origin = origin or None
        self._strict = strict
        self._opened: list[Fields] = []

    def root(self, document: dict[str, Any]) -> Fields:
        """Return the fields of the document."""
        return Fields(self, None, "", None, document)

    def report_unknown_fields(self) -> None:
        """Report the fields that were not read, if strict. Called when the codec has read all it knows."""
        for fields in self._opened:
            for name in fields.unread_names():
                self._add_schema_problem(fields, name, "unknown field", "Check its spelling, or remove it.")
        self._opened.clear()

    def _wrong_type(self, within: Fields, name: str, wanted: str, value: object) -> None:
        actual = describe_type(value)
        needs_quotes = wanted == _STRING and actual in (_NUMBER, _BOOLEAN)
        hint = "Put it in quotes." if needs_quotes else f"Write {wanted} there."
        self._add_schema_problem(within, name, f"must be {wanted}, not {actual}", hint)

    def _add_schema_problem(self, within: Fields, name: str, message: str, hint: str) -> None:
        self.schema_problem_count += 1
        if len(self.schema_problems) < MAX_PROBLEMS:
            self.schema_problems.append(Problem(message, self._origin, within.place(name), hint))

    def _add_value_problem(self, within: Fields, name: str, message: str, hint: str) -> None:
        if len(self.value_problems) < MAX_PROBLEMS:
            self.value_problems.append(Problem(message, self._origin, within.place(name), hint))


class Fields:
    """A mapping in a document, and its place."""

    __slots__ = ("_findings", "_index", "_name", "_names_read", "_values", "_within", "is_present")

    def __init__(
        self,
        findings: Findings,
        within: Fields | None,
        name: str,
        index: int | None,
        value: dict[str, Any] | None,
    ) -> None:
        self._findings = findings
        self._within = within
        self._name = name
        self._index = index
        self._values: dict[str, Any] = {} if value is None else value
        self.is_present = value is not None
        """Whether the mapping is in the document. If it is absent or null, it reads like an empty one."""
        self._names_read: set[str] | None = None
        if findings._strict:
            self._names_read = set()
            findings._opened.append(self)

    def string(self, name: str) -> str:
        value = self.raw(name)
        if isinstance(value, str):
            return value
        if value is not None:
            self._findings._wrong_type(self, name, _STRING, value)
        return ""

    def boolean(self, name: str) -> bool:
        value = self.raw(name)
        if isinstance(value, bool):
            return value
        if value is not None:
            self._findings._wrong_type(self, name, _BOOLEAN, value)
        return False

    def strings(self, name: str) -> tuple[str, ...]:
        found: list[str] = []
        for index, item in enumerate(self._items(name)):
            if isinstance(item, str):
                found.append(item)
            elif item is None:
                found.append("")
            else:
                self._findings._wrong_type(self, f"{name}[{index}]", _STRING, item)
                if not self._findings._strict:
                    break
        return tuple(found)

    def within(self, name: str) -> Fields:
        """Return the mapping in a field. If its names are arbitrary, use `names()`."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            self._findings._wrong_type(self, name, _MAPPING, value)
            value = None
        return Fields(self._findings, self, name, None, value)

    def each(self, name: str) -> Iterator[Fields]:
        """Yield the mappings in a list. The caller must read all fields of one before the next."""
        findings = self._findings
        for index, item in enumerate(self._items(name)):
            before = findings.schema_problem_count
            if item is None or isinstance(item, dict):
                yield Fields(findings, self, name, index, item)
            else:
                findings._wrong_type(self, f"{name}[{index}]", _MAPPING, item)
            if findings.schema_problem_count > before and not findings._strict:
                return

    def names(self) -> Iterator[str]:
        """Return the names of all fields."""
        return iter(self._values)

    def raw(self, name: str) -> Any:
        """Return the value of a field, of any type; None if it is absent."""
        if self._names_read is not None:
            self._names_read.add(name)
        return self._values.get(name)

    def add_problem(self, message: str, hint: str, *, field: str = "") -> None:
        """Report an invalid value of a field or, without `field`, of the whole mapping."""
        self._findings._add_value_problem(self, field, message, hint)

    def unread_names(self) -> list[str]:
        """Return the names that were not read, if strict."""
        names_read = self._names_read
        return [] if names_read is None else [name for name in self._values if name not in names_read]

    def place(self, field: str = "") -> str:
        """Return the path of a field, or of this mapping, such as `users["alice"].user.exec`.

        List items are named by index if they have no name, or if strict.
        """
        text = self._within.place(self._name) if self._within else ""
        if self._index is not None:
            name = None if self._findings._strict else self._values.get("name")
            text += f'["{name}"]' if isinstance(name, str) else f"[{self._index}]"
        return f"{text}.{field}" if text and field else text or field

    def _items(self, name: str) -> Sequence[Any]:
        value = self.raw(name)
        if isinstance(value, list):
            return value
        if value is not None:
            self._findings._wrong_type(self, name, _LIST, value)
        return ()


_STRING, _BOOLEAN, _NUMBER, _LIST, _MAPPING = "a string", "true or false", "a number", "a list", "a mapping"
