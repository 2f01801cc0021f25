"""Read an untrusted document field by field, and collect all problems with their place.

A codec reads the fields it knows, in the order in which problems should be reported:

    findings = Findings("/etc/motd.yaml")
    fields = findings.fields_of(document)
    motd = Motd(text=fields.string("text"), loud=fields.boolean("loud"))
    return findings.misfits or motd

As in Go, an absent or null field is the zero value of its type. So is a field of another type, which is a
problem: with its place and the type that was found, never the value. Nothing here raises, so that no
traceback contains the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubeauth.errors import Problem

MAX_PROBLEMS = 100
"""Reported of each kind; the rest is counted."""


class Findings:
    """The problems of one document.

    Unknown fields are ignored, and of a list only the first invalid item is reported, with all its problems:
    the others are usually wrong in the same way. With `strict`, unknown fields and every invalid item are
    problems, and list items are named by index as in Kubernetes. Of a repeated field the last wins.
    """

    def __init__(self, origin: str = "", *, strict: bool = False) -> None:
        self.misfits: list[Problem] = []
        """Fields of the wrong type and, if strict, unknown fields."""
        self.misfit_count = 0
        self.faults: list[Problem] = []
        """Fields of the right type whose value the codec rejected."""
        self._origin = origin or None
        self._strict = strict
        self._opened: list[Fields] = []

    def fields_of(self, document: dict[str, Any]) -> Fields:
        return Fields(self, None, "", None, document)

    def refuse_unknown(self) -> None:
        """Report unknown fields, if strict. Called when the codec has read all fields it knows."""
        for fields in self._opened:
            for name in fields.unknown():
                self._misfit(fields, name, "unknown field", "Check its spelling, or remove it.")
        self._opened.clear()

    def _wrong_type(self, within: Fields, name: str, wanted: str, value: object) -> None:
        given = describe_type(value)
        quotes = wanted == _STRING and given in (_NUMBER, _BOOLEAN)
        hint = "Put it in quotes." if quotes else f"Write {wanted} there."
        self._misfit(within, name, f"must be {wanted}, not {given}", hint)

    def _misfit(self, within: Fields, name: str, message: str, hint: str) -> None:
        self.misfit_count += 1
        if len(self.misfits) < MAX_PROBLEMS:
            self.misfits.append(Problem(message, self._origin, within.place(name), hint))

    def _fault(self, within: Fields, name: str, message: str, hint: str) -> None:
        if len(self.faults) < MAX_PROBLEMS:
            self.faults.append(Problem(message, self._origin, within.place(name), hint))


class Fields:
    """A mapping in a document, and its place."""

    __slots__ = ("_asked", "_findings", "_index", "_name", "_values", "_within", "given")

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
        self.given = value is not None
        """Whether it is present: absent and null are otherwise the same as an empty mapping."""
        self._asked: set[str] | None = None
        if findings._strict:
            self._asked = set()
            findings._opened.append(self)

    def string(self, name: str) -> str:
        value = self.anything(name)
        if isinstance(value, str):
            return value
        if value is not None:
            self._findings._wrong_type(self, name, _STRING, value)
        return ""

    def boolean(self, name: str) -> bool:
        value = self.anything(name)
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
        """Return the mapping in a field; one with arbitrary names is read by its `names()`."""
        value = self.anything(name)
        if value is not None and not isinstance(value, dict):
            self._findings._wrong_type(self, name, _MAPPING, value)
            value = None
        return Fields(self._findings, self, name, None, value)

    def each(self, name: str) -> Iterator[Fields]:
        """Yield the mappings in a list. All fields of one must be read before the next."""
        findings = self._findings
        for index, item in enumerate(self._items(name)):
            before = findings.misfit_count
            if item is None or isinstance(item, dict):
                yield Fields(findings, self, name, index, item)
            else:
                findings._wrong_type(self, f"{name}[{index}]", _MAPPING, item)
            if findings.misfit_count > before and not findings._strict:
                return

    def names(self) -> Iterator[str]:
        return iter(self._values)

    def anything(self, name: str) -> Any:
        """Return the value of a field of any type; None if it is absent."""
        if self._asked is not None:
            self._asked.add(name)
        return self._values.get(name)

    def refuse(self, message: str, hint: str, *, field: str = "") -> None:
        """Report an invalid value of a field, or of this mapping as a whole."""
        self._findings._fault(self, field, message, hint)

    def unknown(self) -> list[str]:
        """Return the names that were not read, if strict."""
        return [] if self._asked is None else [name for name in self._values if name not in self._asked]

    def place(self, field: str = "") -> str:
        """Return `users["alice"].user.exec`: list items by name if they have one, unless strict."""
        text = self._within.place(self._name) if self._within else ""
        if self._index is not None:
            name = None if self._findings._strict else self._values.get("name")
            text += f'["{name}"]' if isinstance(name, str) else f"[{self._index}]"
        return f"{text}.{field}" if text and field else text or field

    def _items(self, name: str) -> Sequence[Any]:
        value = self.anything(name)
        if isinstance(value, list):
            return value
        if value is not None:
            self._findings._wrong_type(self, name, _LIST, value)
        return ()


_STRING, _BOOLEAN, _NUMBER, _LIST, _MAPPING = "a string", "true or false", "a number", "a list", "a mapping"


def describe_type(value: object) -> str:
    """Return the type of a JSON value for a message."""
    if isinstance(value, bool):
        return _BOOLEAN
    if isinstance(value, int | float):
        return _NUMBER
    if isinstance(value, str):
        return _STRING
    return _LIST if isinstance(value, list) else _MAPPING
