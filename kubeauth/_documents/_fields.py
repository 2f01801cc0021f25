"""A stranger's document, field by field, as its codec knows it; and all that is wrong with it, by its place.

A codec asks for what should be there, in the order in which problems are to be told:

    findings = Findings("/etc/motd.yaml")
    fields = findings.fields_of(document)
    motd = Motd(text=fields.string("text"), loud=fields.boolean("loud"))
    return findings.misfits or motd

As in Go, what is absent or null is the zero value of its type. So is what has another type, and that is
noted: where, and what kind of thing stands there, never the thing. Nothing here raises, so that no
traceback ever holds the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubeauth.errors import Problem

MAX_PROBLEMS = 100
"""Of each sort, in words. What is more is counted."""


class Findings:
    """What is wrong with one document.

    Fields that no codec asks for are ignored, and of a list only the first bad item is told, with all that
    is wrong with it: the others are most often wrong alike. `strict` is for what must not be half
    understood: there such fields are misfits, and so is every bad item, and places have numbers as those of
    Kubernetes. Of a field that is there twice, the reader of the document has kept the last.
    """

    def __init__(self, origin: str = "", *, strict: bool = False) -> None:
        self.misfits: list[Problem] = []
        """Fields of the wrong type or, if strict, of an unknown name: the document is of another shape."""
        self.misfit_count = 0
        self.faults: list[Problem] = []
        """Fields of the right type, whose codec refused the value."""
        self._origin = origin or None
        self._strict = strict
        self._opened: list[Fields] = []

    def fields_of(self, document: dict[str, Any]) -> Fields:
        return Fields(self, None, "", None, document)

    def refuse_unknown(self) -> None:
        """For when a codec has asked for all it knows: what is left is a misfit, if strict."""
        for fields in self._opened:
            for name in fields.unknown():
                self._misfit(fields, name, "unknown field", "Check its spelling, or remove it.")
        self._opened.clear()

    def _wrong_type(self, within: Fields, name: str, wanted: str, value: object) -> None:
        given = kind_of(value)
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
    """A mapping in a document, and where it stands."""

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
        """Whether it is there at all: absent and null are like an empty mapping otherwise."""
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
        """The mapping there. One whose names are free is asked by its `names()`."""
        value = self.anything(name)
        if value is not None and not isinstance(value, dict):
            self._findings._wrong_type(self, name, _MAPPING, value)
            value = None
        return Fields(self._findings, self, name, None, value)

    def each(self, name: str) -> Iterator[Fields]:
        """The mappings in the list there. All of one must be asked for before the next."""
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
        """Whatever stands there; None if nothing does."""
        if self._asked is not None:
            self._asked.add(name)
        return self._values.get(name)

    def refuse(self, message: str, hint: str, *, field: str = "") -> None:
        """Notes a fault of the value of a field, or of this mapping as a whole."""
        self._findings._fault(self, field, message, hint)

    def unknown(self) -> list[str]:
        """The names that nobody has asked for, if strict."""
        return [] if self._asked is None else [name for name in self._values if name not in self._asked]

    def place(self, field: str = "") -> str:
        """Where it is: `users["alice"].user.exec`; of a list by name where an item has one, unless strict."""
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


def kind_of(value: object) -> str:
    """What kind of thing a JSON value is, in words."""
    if isinstance(value, bool):
        return _BOOLEAN
    if isinstance(value, int | float):
        return _NUMBER
    if isinstance(value, str):
        return _STRING
    return _LIST if isinstance(value, list) else _MAPPING
