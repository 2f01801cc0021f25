"""Why a pattern does not match an image, in words (2.4, 2.5, 2.10)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubeauth.registry import image_matches
from kubeauth.registry._mismatch import is_for_paths_of, why_not
from tests.support.cases import each_case

CASES = [
    # pattern, image, why not
    ("gcr.io", "gcr.io/app", None),
    ("gcr.io", "quay.io/app", "quay.io is not gcr.io"),
    ("eu*.gcr.io", "us.gcr.io/app", "us in us.gcr.io does not match eu*"),
    # M09
    (
        "*.kubernetes.io",
        "kubernetes.io/x",
        "kubernetes.io has 2 parts and *.kubernetes.io has 3, and * stands for one part",
    ),
    ("a.b.io", "b.io/x", "b.io has 2 parts and a.b.io has 3"),
    # M17, M18: a port that is left out equals only one that is left out
    ("k.io:1234", "k.io:1111/x", "it is for port 1234, and the image names 1111"),
    ("k.io:1234", "k.io/x", "it is for port 1234, and the image names none"),
    (
        "k.io",
        "k.io:1111/x",
        "the image names port 1111, and a pattern without a port is for images without one",
    ),
    ("gcr.io/team", "gcr.io/other/app", "/other/app does not start with /team"),
    (
        "gcr.io:1/team",
        "gcr.io/other",
        "it is for port 1, and the image names none and /other does not start with /team",
    ),
    ("Gcr.io", "gcr.io/x", "upper and lower case differ in Gcr.io and gcr.io"),
    ("*.Example.io", "a.example.io/x", "upper and lower case differ in *.Example.io and a.example.io"),
    # 2.10
    (
        "https://gcr.io",
        "gcr.io/x",
        "it matches no image at all: images have no https:// before them: write gcr.io",
    ),
    (
        "gcr.io/*",
        "gcr.io/x",
        "it matches no image at all: * is no wildcard in a path, which matches all that starts with it: "
        "write gcr.io",
    ),
    ("gcr.io", "gcr.io/%zz", "the image cannot be read: a % is not followed by two hexadecimal digits"),
    # As a glob what is in brackets is a set, and so may be malformed.
    ("[FE80::1]", "gcr.io/x", "gcr.io has 2 parts and [FE80::1] has 1"),
    ("[::1%25a-]", "gcr.io/x", "it is malformed"),
]


@each_case(("pattern", "image", "why"), CASES)
def test_why_not(pattern: str, image: str, why: str | None) -> None:
    assert why_not(pattern, image) == why


PIECE = st.sampled_from(["gcr.io", "*.io", "quay.io", "QUAY.io", ":5000", "/team", "/team/app", "*", "[", "%", "a", "."])  # fmt: skip
NAME = st.lists(PIECE, max_size=4).map("".join)


@given(pattern=NAME, image=NAME)
def test_there_is_a_reason_exactly_if_it_does_not_match(pattern: str, image: str) -> None:
    why = why_not(pattern, image)
    assert (why is None) == image_matches(pattern, image)
    assert why is None or why


@each_case(
    ("pattern", "host", "expected"),
    [
        ("quay.io/team", "quay.io", True),
        ("*.io/team", "quay.io", True),
        ("quay.io", "quay.io", False),
        ("quay.io/", "quay.io", False),
        ("gcr.io/team", "quay.io", False),
        ("quay.io/team", "quay.io:5000", False),
        ("{", "quay.io", False),
        ("quay.io/team", "{", False),
    ],
)
def test_what_is_for_some_repositories_alone(pattern: str, host: str, expected: bool) -> None:
    assert is_for_paths_of(pattern, host) is expected
