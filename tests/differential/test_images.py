"""kubeauth beside Go: which images a pattern matches, and what an image's name says."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeauth.errors import RegistryError
from kubeauth.registry._match import image_matches, why_invalid
from kubeauth.registry._reference import ImageReference
from tests.registry.images import TABLE, key
from tests.registry.test_reference import NAMES, PARTS, REFUSED
from tests.registry.texts import PAIRS, made_of

pytestmark = pytest.mark.oracle


def encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def asked(oracle: Path, pairs: list[tuple[str, str]], names: list[str]) -> dict[str, Any]:
    question = {"pairs": [list(map(encoded, pair)) for pair in pairs], "names": list(map(encoded, names))}
    run = subprocess.run(
        [oracle, "--images"], input=json.dumps(question).encode(), capture_output=True, check=True
    )
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def ours(name: str) -> list[str] | None:
    try:
        found = ImageReference.parse(name)
    except RegistryError:
        return None
    return [found.repository, found.tag or "", found.digest or ""]


def compare(oracle: Path, pairs: list[tuple[str, str]], names: list[str]) -> None:
    answer = asked(oracle, pairs, names)
    for (pattern, image), (readable, matches) in zip(pairs, answer["matches"], strict=True):
        assert (why_invalid(pattern) is None) is readable, pattern
        assert image_matches(pattern, image) is matches, (pattern, image)
    for name, found in zip(names, answer["names"], strict=True):
        assert ours(name) == found, name


def test_go_says_the_same_of_the_tables_2_4_7_5(oracle: Path) -> None:
    pairs = [(key(pattern), image) for _, pattern, image, _ in TABLE]
    compare(oracle, pairs, [row[0] for row in NAMES] + [row[0] for row in REFUSED])
    for (_, matches), row in zip(asked(oracle, pairs, [])["matches"], TABLE, strict=True):
        assert matches is bool(row[3]), row


@given(st.lists(PAIRS, max_size=100), st.lists(made_of(PARTS), max_size=30))
@settings(max_examples=30)
def test_go_says_the_same_of_anything_2_4_7_5(
    oracle: Path, pairs: list[tuple[str, str]], names: list[str]
) -> None:
    compare(oracle, pairs, names)
