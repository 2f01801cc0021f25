"""Tables as kubectl prints them."""

from __future__ import annotations

from typing import Any

from kubeauth.cli._tables import Columns, ServerTables, cell, facts, fitted, is_table
from tests.support.cases import each_case

COLUMNS = [
    {"name": "Name", "priority": 0},
    {"name": "Ready", "priority": 0},
    {"name": "IP", "priority": 1},
]


def table(*rows: list[object], columns: object = COLUMNS, namespace: str | None = "ns") -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "columnDefinitions": columns,
        "rows": [{"cells": row, "object": {"metadata": {"namespace": namespace}}} for row in rows],
    }


def test_columns_are_aligned_three_apart_and_six_wide_at_least() -> None:
    text = Columns().text([["A", "NAME", "LAST"], ["1", "a-longer-one", ""], ["22", "x", "y"]])
    assert text == "A     NAME           LAST\n1     a-longer-one   \n22    x              y\n"


def test_later_rows_stand_under_those_before_or_make_room() -> None:
    columns = Columns()
    assert columns.text([["NAME", "B"], ["quite-long", "x"]]) == "NAME         B\nquite-long   x\n"
    assert columns.text([["short", "y"]]) == "short        y\n"
    assert columns.text([["much-longer-name", "y"]]) == "much-longer-name   y\n"
    assert columns.text([["short", "y"]]) == "short              y\n"
    assert columns.text([]) == ""


def test_columns_of_priority_0_and_with_wide_all() -> None:
    assert ServerTables().text(table(["web-0", "1/1", "10.0.0.1"])) == "NAME    READY\nweb-0   1/1\n"
    wide = ServerTables(wide=True).text(table(["web-0", "1/1", "10.0.0.1"]))
    assert wide == "NAME    READY   IP\nweb-0   1/1     10.0.0.1\n"


def test_the_names_of_the_columns_come_once_with_the_first_row() -> None:
    tables = ServerTables()
    assert tables.text(table()) == ""
    assert tables.text(table(["a", "1/1", ""])) == "NAME   READY\na      1/1\n"
    assert tables.text(table(["b", "1/1", ""])) == "b      1/1\n"
    assert tables.text(table(["c", "1/1", ""], columns=None)) == "c      1/1\n"
    other = [{"name": "Status"}, {"name": "Reason"}]
    assert tables.text(table(["Failure", "Gone"], columns=other)) == "STATUS    REASON\nFailure   Gone\n"


def test_the_namespace_where_there_is_one() -> None:
    shown = ServerTables(with_namespace=True).text(table(["a", "1/1", ""]))
    assert shown == "NAMESPACE   NAME   READY\nns          a      1/1\n"
    assert ServerTables(with_namespace=True).text(table(["a", "1", ""], namespace=None)).startswith("NAME ")


@each_case(
    ("value", "expected"),
    [
        (None, ""), ("x", "x"), (7, "7"), (1.5, "1.5"), (True, "true"), (False, "false"), ("a\nb", "a..."), ("a\r", "a..."),
        ("\x1b[31mred", "U+001B[31mred"), ("a\tb", "a b"), ("csi \x9b", "csi U+009B"), ("e\u202etxt", "eU+202Etxt"), ("grün 日本", "grün 日本"),
        ([1, None, "a", True], "[1 <nil> a true]"), ({"b": [2], "a": {}}, "map[a:map[] b:[2]]"), (["a\nb"], "[a..."),
    ],
)  # fmt: skip
def test_a_cell_is_one_line_and_cannot_steer_a_terminal(value: object, expected: str) -> None:
    assert cell(value) == expected


def test_a_cell_that_is_nested_too_deep() -> None:
    value: object = None
    for _ in range(100_000):
        value = [value]
    assert cell(value) == "..."


def test_a_row_of_fewer_cells_ends_with_its_last() -> None:
    columns = [{"name": "Name"}, {"name": "Ready"}]
    assert ServerTables().text(table(["a"], ["b", "1"], columns=columns)) == "NAME   READY\na\nb      1\n"


@each_case(
    "broken",
    [
        {"rows": None}, {"rows": [7, {"cells": 7}]}, {"rows": [{"cells": []}]}, {"columnDefinitions": 7, "rows": [{"cells": ["x"]}]},
        {"columnDefinitions": [7, {}], "rows": [{"cells": ["x"], "object": 7}]},
    ],
)  # fmt: skip
def test_a_table_that_is_none_is_no_crash(broken: dict[str, Any]) -> None:
    assert isinstance(ServerTables(with_namespace=True).text(broken), str)


def test_what_a_table_is() -> None:
    assert is_table(table())
    assert is_table({"kind": "Table", "apiVersion": "meta.k8s.io/v1beta1"})
    assert not is_table({"kind": "Table", "apiVersion": "carpentry.example/v1"})
    assert not is_table([])


ROWS = [("NAME", "WHAT IT IS"), ("one", "the first of them"), ("two", "")]


def test_a_table_that_fits_is_one() -> None:
    assert fitted(ROWS, None) == fitted(ROWS, 24) == Columns().text(ROWS)


def test_one_that_does_not_has_each_cell_on_a_line() -> None:
    assert fitted(ROWS, 23) == (
        "NAME         one\nWHAT IT IS   the first of them\n\nNAME         two\nWHAT IT IS   \n"
    )
    long = [ROWS[0], ("one", "the first of them, and of all")]
    assert fitted(long, 23) == "NAME         one\nWHAT IT IS   the first of them,\n             and of all\n"


def test_facts_are_wrapped_beside_their_names() -> None:
    rows = [
        ("Server", "https://a-very-long-name.of-a.server.example:6443"),
        ("Note", "some words that are many"),
    ]
    assert facts(rows, None).splitlines()[1] == "Note     some words that are many"
    assert facts([*rows, ("None", "")], 30).splitlines() == [
        "Server   https://a-very-long-name.of-a.server.example:6443",
        "Note     some words that are",
        "         many",
        "None     ",
    ]
    # On a very narrow one, lines are not of a word each.
    assert facts(rows, 10) == facts(rows, 29)
