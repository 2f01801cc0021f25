"""Problems of untrusted documents: what is wrong, with the place of the field, and without its value."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from kubeauth._parsing.limits import MAX_PROBLEMS
from kubeauth._parsing.models import Invalid, Model, OneOf, invalid_value, validate_document
from kubeauth._parsing.types import AllStrings, FailFastItems, Items, StringMap, Strings
from kubeauth._secret import FrozenDict
from tests.support.cases import each_case

SENTINEL = "s3cr3t"


def reject(_value: str) -> str:
    raise invalid_value("not a color", "Write red.")


class Item(Model):
    name: str = ""
    text: str = ""
    color: Annotated[str, AfterValidator(reject)] = ""


class Document(Model):
    kind: Annotated[str, OneOf("Document")] = "Document"
    text: str = ""
    flag: bool = False
    count: int = 0
    words: Strings = ()
    all_words: AllStrings = ()
    labels: StringMap = Field(default_factory=FrozenDict[str, str])
    item: Item | None = None
    items: FailFastItems[Item] = ()
    all_items: Items[Item] = ()
    any: Any = None


def read(document: Any, *, strict: bool = False) -> Invalid:
    result = validate_document(Document, document, origin="/o", strict=strict)
    assert isinstance(result, Invalid)
    return result


def summarize(invalid: Invalid) -> list[tuple[str | None, str]]:
    return [(problem.field, problem.message) for problem in invalid.problems]


def test_values_of_the_right_type_are_returned_and_null_is_the_zero_value() -> None:
    document = {"text": "a", "flag": True, "words": ["a", None], "labels": {"a": None}, "items": [{}, None]}
    assert validate_document(Document, document) == Document(
        text="a", flag=True, words=("a", ""), labels={"a": ""}, items=(Item(), Item())
    )
    assert validate_document(Document, None) == Document()


@each_case(
    ("value", "actual"),
    [
        (1, "a number"),
        (1.5, "a number"),
        (True, "true or false"),
        ([], "a list"),
        ({}, "a mapping"),
        ("a", "a string"),
    ],
)
def test_a_field_of_another_type_is_reported(value: Any, actual: str) -> None:
    expected = {
        "text": "a string",
        "flag": "true or false",
        "words": "a list",
        "item": "a mapping",
        "items": "a list",
        "labels": "a mapping",
    }
    invalid = read({name: value for name, kind in expected.items() if kind != actual})

    assert sorted(summarize(invalid)) == sorted(
        (name, f"must be {kind}, not {actual}") for name, kind in expected.items() if kind != actual
    )
    assert {problem.path for problem in invalid.problems} == {"/o"}


def test_hints_say_what_to_write() -> None:
    invalid = read({"text": 1, "flag": "yes", "count": 1.5, "words": [True], "item": []})
    assert {problem.field: problem.hint for problem in invalid.problems} == {
        "text": "Put it in quotes.",
        "flag": "Write true or false there.",
        "count": "Write a whole number there.",
        "words[0]": "Put it in quotes.",
        "item": "Write a mapping there.",
    }


def test_the_place_has_the_name_of_an_item_or_its_index() -> None:
    items = [{"name": "fine"}, {"name": "n", "text": 1, "color": "x"}, {"text": 2}]
    assert summarize(read({"items": items})) == [('items["n"].text', "must be a string, not a number")]
    assert [place for place, _ in summarize(read({"allItems": items}))] == [
        'allItems["n"].text',
        "allItems[2].text",
    ]


def test_problems_of_types_come_before_those_of_the_kind_and_of_values() -> None:
    document = {"item": {"color": "x"}}
    assert summarize(read(document)) == [("item.color", "not a color")]
    assert summarize(read({**document, "kind": "Other"})) == [("kind", "kind must be Document")]
    assert [place for place, _ in summarize(read({**document, "kind": "Other", "text": 1}))] == ["text"]


def test_strict_reports_unknown_fields_and_names_items_by_index() -> None:
    document = {
        "Kind": 1, "labels": {"any": "thing"}, "any": {"below": {"a": 1}},
        "allItems": [{"name": "x", "extra": 1}, 5, {"name": 6}], "allWords": [1, 2],
    }  # fmt: skip
    assert sorted(summarize(read(document, strict=True))) == [
        ("Kind", "unknown field"),
        ("allItems[0].extra", "unknown field"),
        ("allItems[1]", "must be a mapping, not a number"),
        ("allItems[2].name", "must be a string, not a number"),
        ("allWords[0]", "must be a string, not a number"),
        ("allWords[1]", "must be a string, not a number"),
    ]
    assert validate_document(Document, {"Kind": 1}) == Document()


def test_the_number_of_problems_is_limited() -> None:
    many = 50_000
    for document in (
        {"allWords": [1] * many},
        {"allItems": [1] * many},
        {"allItems": [{"text": 1}] * many},
        {"allItems": [{"color": "x"}] * many},
        {"labels": dict.fromkeys(map(str, range(many)), 1)},
        dict.fromkeys((f"x{number}" for number in range(many)), 1),
    ):
        assert 0 < len(read(document, strict=True).problems) <= MAX_PROBLEMS


def test_problems_do_not_contain_the_document() -> None:
    invalid = read({"text": {SENTINEL: SENTINEL}, "flag": [SENTINEL], "item": SENTINEL, "count": SENTINEL})
    assert len(invalid.problems) == 4
    assert SENTINEL not in repr((invalid, vars(invalid), invalid.problems))
