"""Tables as kubectl prints them."""

from __future__ import annotations

from typing import Any

import pytest

from kubeauth.cli._tables import Columns, ServerTables, cell, is_table

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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""), ("x", "x"), (7, "7"), (1.5, "1.5"), (True, "true"), (False, "false"), ("a\nb", "a..."), ("a\r", "a..."),
        ("\x1b[31mred", "U+001B[31mred"), ("a\tb", "a b"), ("csi \x9b", "csi U+009B"), ("e\u202etxt", "eU+202Etxt"), ("grün 日本", "grün 日本"),
    ],
)  # fmt: skip
def test_a_cell_is_one_line_and_cannot_steer_a_terminal(value: object, expected: str) -> None:
    assert cell(value) == expected


@pytest.mark.parametrize(
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
