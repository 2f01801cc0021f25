"""Fields of untrusted documents: zero values, and problems with the place of the field."""

from __future__ import annotations

from typing import Any

import pytest

from kubeauth._parsing import MAX_PROBLEMS, Fields, Findings
from kubeauth.errors import Problem
from tests.support.cases import each_case

SENTINEL = "s3cr3t"


def open_document(document: dict[str, Any], *, strict: bool = False) -> tuple[Fields, Findings]:
    findings = Findings("/o", strict=strict)
    return findings.root(document), findings


def summarize(problems: list[Problem]) -> list[tuple[str | None, str]]:
    return [(problem.field, problem.message) for problem in problems]


@pytest.mark.parametrize("document", [{}, {"x": None}])
def test_an_absent_or_null_field_has_the_zero_value(document: dict[str, Any]) -> None:
    fields, findings = open_document(document)

    assert fields.string("x") == ""
    assert fields.boolean("x") is False
    assert fields.strings("x") == ()
    assert fields.raw("x") is None
    assert list(fields.each("x")) == []
    assert not fields.within("x").is_present
    assert fields.within("x").within("y").string("z") == ""
    assert findings.schema_problems == findings.value_problems == []


def test_values_of_the_right_type_are_returned() -> None:
    document = {"s": "a", "b": True, "l": ["a", None], "m": {"s": "b"}, "r": [{"s": "c"}, None, {"s": "d"}]}
    fields, findings = open_document(document)

    assert fields.is_present
    assert (fields.string("s"), fields.boolean("b"), fields.strings("l")) == ("a", True, ("a", ""))
    assert fields.within("m").is_present
    assert fields.within("m").string("s") == "b"
    assert [(item.is_present, item.string("s")) for item in fields.each("r")] == [
        (True, "c"),
        (False, ""),
        (True, "d"),
    ]
    assert list(fields.names()) == ["s", "b", "l", "m", "r"]
    assert findings.schema_problem_count == 0


@each_case(
    ("value", "kind"),
    [
        (1, "a number"),
        (1.5, "a number"),
        (True, "true or false"),
        ([], "a list"),
        ({}, "a mapping"),
        ("a", "a string"),
    ],
)
def test_a_field_of_another_type_has_the_zero_value_and_is_reported(value: Any, kind: str) -> None:
    fields, findings = open_document({"x": value})
    expected: list[str] = []
    if not isinstance(value, str):
        assert fields.string("x") == ""
        expected.append("a string")
    if not isinstance(value, bool):
        assert fields.boolean("x") is False
        expected.append("true or false")
    if not isinstance(value, list):
        assert fields.strings("x") == ()
        assert list(fields.each("x")) == []
        expected += ["a list", "a list"]
    if not isinstance(value, dict):
        assert not fields.within("x").is_present
        expected.append("a mapping")

    assert summarize(findings.schema_problems) == [
        ("x", f"must be {wanted}, not {kind}") for wanted in expected
    ]
    assert {problem.path for problem in findings.schema_problems} == {"/o"}
    assert findings.schema_problem_count == len(expected)


def test_hints_say_what_to_write() -> None:
    fields, findings = open_document({"number": 1, "bool": True, "list": [], "word": "yes"})
    for name in ("number", "bool", "list"):
        fields.string(name)
    fields.boolean("word")
    assert [problem.hint for problem in findings.schema_problems] == [
        "Put it in quotes.",
        "Put it in quotes.",
        "Write a string there.",
        "Write true or false there.",
    ]


def test_place_uses_the_name_of_an_item_or_its_index() -> None:
    document: dict[str, Any] = {"a": [{"name": "n", "b": {"c": [{"d": 1}]}}, {"name": 2}]}
    fields, _ = open_document(document)
    first, second = fields.each("a")
    (item,) = first.within("b").each("c")

    assert fields.place() == ""
    assert first.place() == 'a["n"]'
    assert item.place("d") == 'a["n"].b.c[0].d'
    assert second.place("name") == "a[1].name"


def test_all_problems_of_the_first_invalid_item_of_a_list_are_reported() -> None:
    items = [{"s": "fine"}, {"s": 1, "t": 2}, {"s": 3}]
    fields, findings = open_document({"r": items, "l": ["a", 1, 2], "m": [1, {}]})

    assert [(item.string("s"), item.string("t")) for item in fields.each("r")] == [("fine", ""), ("", "")]
    assert fields.strings("l") == ("a",)
    assert list(fields.each("m")) == []
    assert [problem.field for problem in findings.schema_problems] == ["r[1].s", "r[1].t", "l[1]", "m[0]"]


def test_added_problems_are_value_problems() -> None:
    fields, findings = open_document({"a": {"b": "c"}})
    fields.within("a").add_problem("not a date", "Write one.", field="b")
    fields.within("a").add_problem("two of these", "Remove one.")

    assert summarize(findings.value_problems) == [("a.b", "not a date"), ("a", "two of these")]
    assert findings.schema_problems == []


def test_strict_reports_unknown_fields_and_all_list_items() -> None:
    document = {
        "kind": "K", "Kind": 1, "labels": {"any": "thing"}, "free": {"below": {"a": 1}},
        "items": [{"name": "x", "extra": 1}, 5, {"name": 6}], "words": [1, 2],
    }  # fmt: skip
    fields, findings = open_document(document, strict=True)
    assert fields.string("kind") == "K"

    labels = fields.within("labels")

    assert {name: labels.string(name) for name in labels.names()} == {"any": "thing"}
    assert fields.raw("free") == {"below": {"a": 1}}
    assert [item.string("name") for item in fields.each("items")] == ["x", ""]
    assert fields.strings("words") == ()

    findings.report_unknown_fields()
    assert summarize(findings.schema_problems) == [
        ("items[1]", "must be a mapping, not a number"),
        ("items[2].name", "must be a string, not a number"),
        ("words[0]", "must be a string, not a number"),
        ("words[1]", "must be a string, not a number"),
        ("Kind", "unknown field"),
        ("items[0].extra", "unknown field"),
    ]

    findings.report_unknown_fields()
    assert findings.schema_problem_count == 6


def test_unknown_fields_are_ignored_unless_strict() -> None:
    fields, findings = open_document({"a": 1})
    findings.report_unknown_fields()
    assert (fields.unread_names(), findings.schema_problems) == ([], [])


def test_the_number_of_problems_is_limited_but_all_are_counted() -> None:
    invalid: list[Any] = [1] * 50_000
    fields, findings = open_document({"x": invalid, "y": invalid}, strict=True)
    assert list(fields.each("x")) == []
    assert fields.strings("y") == ()

    for _ in range(1_000):
        fields.add_problem("message", "hint")
    assert findings.schema_problem_count == 100_000
    assert len(findings.schema_problems) == len(findings.value_problems) == MAX_PROBLEMS


def test_repr_and_problems_do_not_contain_the_document() -> None:
    fields, findings = open_document({"a": {SENTINEL: SENTINEL}, "b": [SENTINEL], "c": SENTINEL})
    fields.string("a")
    fields.boolean("b")
    fields.within("c")

    assert SENTINEL not in repr((fields, findings, findings.schema_problems))
    assert len(findings.schema_problems) == 3
