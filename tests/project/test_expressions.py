"""Regular expressions, and the Pythons that they must be right on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import kubeauth
from tests.support.cases import each_case

ROOT = Path(kubeauth.__file__).parent
# A group, not a single character, that is repeated and never gone back over.
_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]*\})\+")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")


def expressions() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        if "re.compile" in path.read_text():
            name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
            for value in vars(import_module(name)).values():
                if isinstance(value, re.Pattern):
                    yield name, value.pattern if isinstance(value.pattern, str) else value.pattern.decode()


def has_group_for_good(pattern: str) -> bool:
    return _GROUP.search(_CLASS.sub("x", pattern)) is not None


def test_none_is_one_that_the_first_pythons_of_3_11_get_wrong() -> None:
    """Until 3.11.5, `(?:1s)++` may match `1s2`. It is right about a single character: `[0-9]++`."""
    found = list(expressions())
    assert len(found) > 20
    assert [each for each in found if has_group_for_good(each[1])] == []


@each_case(
    ("pattern", "is_one"),
    [(r"(?:a|b)*+", True), (r"(ab){2,}+", True), (r"[()*+]++", False), (r"a\)++", False), (r"(a)*b", False)],
)
def test_which_ones_are(pattern: str, is_one: bool) -> None:
    assert has_group_for_good(pattern) is is_one
