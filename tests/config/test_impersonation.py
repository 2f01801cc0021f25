from __future__ import annotations

import pytest

from kubeauth import Impersonation
from kubeauth._config.client_config import build_impersonation_headers
from tests.support.cases import each_case

EXTRA = {"first": ["A", "a"], "second": ["B", "b"]}


@each_case(
    ("impersonation", "headers"),
    [
        pytest.param(
            Impersonation(user="user", uid="uid-a", groups=["one", "two"], extra=EXTRA),
            [("impersonate-user", "user"), ("impersonate-uid", "uid-a"), ("impersonate-group", "one"),
             ("impersonate-group", "two"), ("impersonate-extra-first", "A"), ("impersonate-extra-first", "a"),
             ("impersonate-extra-second", "B"), ("impersonate-extra-second", "b")],
            id="all fields",
        ),
        pytest.param(
            Impersonation(user="user", groups=["one", "two"], extra=EXTRA),
            [("impersonate-user", "user"), ("impersonate-group", "one"), ("impersonate-group", "two"),
             ("impersonate-extra-first", "A"), ("impersonate-extra-first", "a"),
             ("impersonate-extra-second", "B"), ("impersonate-extra-second", "b")],
            id="username, groups and extra",
        ),
        pytest.param(
            Impersonation(user="user", uid="uid-a"),
            [("impersonate-user", "user"), ("impersonate-uid", "uid-a")],
            id="username and uid",
        ),
        pytest.param(
            Impersonation(user="user", extra={"test.example.com/thing.thing": ["A", "a"]}),
            [("impersonate-user", "user"), ("impersonate-extra-test.example.com%2fthing.thing", "A"),
             ("impersonate-extra-test.example.com%2fthing.thing", "a")],
            id="escape handling",
        ),
        pytest.param(
            Impersonation(user="user", extra={"test.example.com/thing.thing%20another.thing": ["A"]}),
            [("impersonate-user", "user"),
             ("impersonate-extra-test.example.com%2fthing.thing%2520another.thing", "A")],
            id="double escape handling",
        ),
        pytest.param(
            Impersonation(user="user", extra={"é:\r\n": ["A"], "none": []}),
            [("impersonate-user", "user"), ("impersonate-extra-%c3%a9%3a%0d%0a", "A")],
            id="control characters are escaped",
        ),
    ],
)  # fmt: skip
def test_impersonation_headers_t79(impersonation: Impersonation, headers: list[tuple[str, str]]) -> None:
    assert [(name.lower(), value) for name, value in build_impersonation_headers(impersonation)] == headers


def test_impersonations_from_lists_and_tuples_are_equal() -> None:
    from_lists = Impersonation(user="u", groups=["g"], extra={"k": ["v"]})
    from_tuples = Impersonation(user="u", groups=("g",), extra={"k": ("v",)})

    assert from_lists == from_tuples
    assert hash(from_lists) == hash(from_tuples)
    assert from_lists.extra["k"] == ("v",)
