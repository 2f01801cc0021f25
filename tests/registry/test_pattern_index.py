"""2.8: many patterns at once. The index finds what trying each of them finds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeauth.registry._match import image_matches
from kubeauth.registry._pattern_index import PatternIndex
from tests.registry.images import TABLE
from tests.registry.texts import IMAGES, PATTERNS, PLAIN, made_of
from tests.support.cases import each_case


def by_trying(pairs: list[tuple[str, int]], image: str) -> list[int]:
    return [value for pattern, value in pairs if image_matches(pattern, image)]


def numbered(patterns: list[str]) -> list[tuple[str, int]]:
    return [(pattern, number) for number, pattern in enumerate(patterns)]


LABELS = st.sampled_from(["a", "b", "ab", "aab", "*", "a*", "*b", "a*b", "*a*", "**"])
HOSTS = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
NEAR = st.tuples(HOSTS, st.sampled_from(["", ":80"]), st.sampled_from(["", "/", "/a", "/a/b", "/ab"])).map(
    "".join
)
IMAGE_LABELS = st.text("ab", min_size=1, max_size=4)
NEAR_IMAGES = st.tuples(
    st.lists(IMAGE_LABELS, min_size=1, max_size=3).map(".".join),
    st.sampled_from(["", ":80"]),
    st.sampled_from(["/a", "/ab/c", "/a/b/c", "/b"]),
).map("".join)


@pytest.mark.slow
@given(st.lists(NEAR | PATTERNS | made_of(PLAIN), max_size=40), st.lists(NEAR_IMAGES | IMAGES, max_size=10))
@settings(max_examples=300)
def test_the_index_finds_what_trying_each_finds_2_8(patterns: list[str], images: list[str]) -> None:
    pairs = numbered(patterns)
    index = PatternIndex(pairs)
    assert len(index) == len(pairs)
    for image in images:
        assert index.find(image) == by_trying(pairs, image)


def test_upstreams_table_at_once_2_8() -> None:
    pairs = numbered([pattern for _, pattern, _, _ in TABLE])
    index = PatternIndex(pairs)
    for _, _, image, _ in TABLE:
        assert index.find(image) == by_trying(pairs, image)
    assert index.find("prefix.docker.io:1111/path") == [32, 33]


MANY = [
    ("literal", [f"r{n}.example.com" for n in range(300)], "r7.example.com/x"),
    ("start", [f"r{n}-*.example.com" for n in range(300)], "r7-eu.example.com/x"),
    ("end", [f"*-r{n}.example.com" for n in range(300)], "eu-r7.example.com/x"),
    ("both", [f"a{n % 20}*b{n // 20}.example.com" for n in range(300)], "a7-b3.example.com/x"),
    ("path", [f"example.com/team{n}/" for n in range(300)], "example.com/team7/app"),
    ("nested", ["example.com" + "/a" * n for n in range(150)], "example.com" + "/a" * 100),
    ("same", ["*.example.com"] * 300, "r7.example.com/x"),
    ("inside", [f"*r{n}*.example.com" for n in range(300)], "eu-r7-x.example.com/x"),
]


@each_case(("patterns", "image"), [row[1:] for row in MANY], ids=[row[0] for row in MANY])
def test_many_patterns_alike_2_8(patterns: list[str], image: str) -> None:
    pairs = numbered(patterns)
    found = PatternIndex(pairs).find(image)
    assert found
    assert found == by_trying(pairs, image)


GROWING = [
    ("literal", "r{}.example.com", "r7.example.com/x"),
    ("start", "r{}-*.example.com", "r7-eu.example.com/x"),
    ("end", "*-r{}.example.com", "eu-r7.example.com/x"),
    ("both", "a{0}*b{0}.example.com", "a7-b7.example.com/x"),
    ("path", "example.com/team{}/", "example.com/team7/app"),
    ("port", "example.com:{}", "example.com:7/app"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "image"), [row[1:] for row in GROWING], ids=[row[0] for row in GROWING])
def test_work_grows_with_what_matches_and_not_with_all_there_are(pattern: str, image: str) -> None:
    """Counted in instructions of Python: to look at each pattern would take one for each, at the least."""
    index = PatternIndex(numbered([pattern.format(number) for number in range(10_000)]))
    found: list[int] = []
    steps = instructions(lambda: found.extend(index.find(image)))
    assert found == [7]
    assert 100 < steps < 5_000


def instructions(work: Callable[[], None]) -> int:
    """How many of them it takes."""
    steps = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def test_values_come_in_the_order_given_once_for_each_pattern() -> None:
    index = PatternIndex(
        [("gcr.io/a", "second"), ("*.io", "first"), ("gcr.io", "second"), ("quay.io", "none")]
    )
    assert index.find("gcr.io/a/b") == ["second", "first", "second"]
    assert list(dict.fromkeys(index.find("gcr.io/a/b"))) == ["second", "first"]


def test_what_cannot_be_read_is_found_nowhere_2_7() -> None:
    index = PatternIndex([("gcr.io:*", 1), ("[::ffff:1.2.3.4]", 2), ("*", 3)])
    assert len(index) == 3
    assert index.find("not an image") == []
    assert index.find("gcr.io/x") == []
    assert index.find("localhost/x") == [3]
    assert PatternIndex[int]([]).find("gcr.io/x") == []
