"""2.1-2.8: which images a pattern matches. tests/differential asks Go itself about the same table."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeauth.registry._match import Pattern, image_matches, why_invalid
from tests.registry import second
from tests.registry.images import TABLE, key
from tests.registry.texts import PAIRS
from tests.support.cases import each_case


@each_case(("pattern", "image", "matches"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_images_match_as_they_do_for_the_kubelet(pattern: str, image: str, matches: bool | None) -> None:
    """URLsMatch, and more."""
    assert image_matches(key(pattern), image) is bool(matches)
    assert second.matches(key(pattern), image) is bool(matches)


@each_case(
    ("pattern", "image", "matches"),
    [
        ("gcr.io:", "gcr.io/x", True),
        ("gcr.io", "gcr.io:/x", True),
        ("gcr.io:443", "gcr.io/x", False),
        ("[::1]:80", "[::1]:80/x", True),
        # Without a port the brackets stay, and are a set of characters.
        ("[::1]", "[::1]/x", False),
        ("[::1]", "1/x", True),
    ],
)
def test_a_port_is_what_can_be_split_off_2_3(pattern: str, image: str, matches: bool) -> None:
    assert image_matches(pattern, image) is second.matches(pattern, image) is matches


def test_globs_are_for_hosts_alone_2_6() -> None:
    assert not image_matches("gcr.io/*", "gcr.io/foo")
    assert image_matches("gcr.io/*", "gcr.io/*/foo")
    assert not image_matches("gcr.io:*", "gcr.io:80/foo")


@pytest.mark.parametrize("row", ["X18", "X19"])
def test_a_provider_with_such_a_pattern_is_refused_1_24(row: str) -> None:
    (pattern,) = [pattern for number, pattern, _, _ in TABLE if number == row]
    assert why_invalid(pattern)


def test_what_never_matches_is_accepted_all_the_same_1_24() -> None:
    for pattern in ("https://gcr.io", "gcr.io/*", ""):
        assert why_invalid(pattern) is None


@each_case(
    ("pattern", "words"),
    [
        ("gcr.io/\t", "control character"),
        ("gcr.io/%zz", "two hexadecimal digits"),
        ("gcr%zz.io", "two hexadecimal digits"),
        ("gcr.io#%", "two hexadecimal digits"),
        ("gcr%2eio", "written as an escape"),
        ("gcr .io", "' ' cannot stand in the name of a host"),
        ("gcr.io:8o", "no port number"),
        ("a:1:2", "no port number"),
        ("[::1]8", "no port number"),
        ("[::1", "not closed"),
        ("a[b]", "only at the start"),
        ("[::1[]", "only at the start"),
        ("[a b]", "' ' cannot stand in the name of a host"),
        ("[1.2.3.4]", "no IPv6 address"),
        ("[fe80::1%25]", "zone of the address is empty"),
        ("[fe80::1%25 ]", "' ' cannot stand in the zone"),
        ("[fe80::1%25%zz]", "two hexadecimal digits"),
        ("[fe80::1%25%ff]", "cannot be there"),
        ("a b@gcr.io", "no user name"),
    ],
)
def test_what_cannot_be_read_is_said_in_words_2_2(pattern: str, words: str) -> None:
    problem = why_invalid(pattern)
    assert problem is not None
    assert words in problem
    assert second.target(pattern) is None
    # Neither as a pattern nor as an image (2.7).
    assert not image_matches(pattern, pattern)


@each_case(
    ("pattern", "image"),
    [
        ("gcr.io#%41\n", "gcr.io/x"),  # the fragment is not looked at for control characters
        ("gcr.io?\\ ^%", "gcr.io/x"),  # nor the query for anything else
        ("a%25b.io", "a%25b.io/x"),
        ("caf%c3%a9.io", "café.io/x"),
        ("gcr.io/caf%c3%a9", "gcr.io/café"),
        ("gcr.io/\ud800", "gcr.io/\ud800"),
        ("a]:80", "a]:80/x"),
        ("[::1]:", "[::1]:/x"),
        ("[fe80::1%25a%20b]:80", "[fe80::1%25a%20b]:80/x"),
        ("", "/x"),
    ],
)
def test_odd_things_that_match_2_1(pattern: str, image: str) -> None:
    assert second.matches(pattern, image)
    assert image_matches(pattern, image)


@each_case(
    ("pattern", "image", "matches"),
    [
        ("[::1]", ":", False),  # unreachable: a lone colon is an empty host with an empty port
        ("[::1]", "1", True),
        ("[::1]", "11", False),
        ("[fe80::1%25]a-c]", "xa-c]", False),  # here ] ends the set, and the rest is literal
        ("[fe80::1%25]a-c]", "fa-c]", True),
        ("[fe80::1%25a-c]", "b", True),
        ("[fe80::1%25a-]", "a", False),  # malformed
        ("[fe80::1%25--a]", "a", False),
        ("[fe80::1%25a]*%5Bt]", "all.t", False),
        ("[fe80::1%25a]*%5Bt]", "allt", True),
        ("[fe80::1%25a]*%5Bt]", "a", False),
        ("[fe80::1%25a]*l*%5Bt]", "alt", True),
        ("[fe80::1%25a]*l*%5Bt]", "att", False),
        ("[fe80::1%25a]*%5Bb]*%5Bt]", "axbyt", True),
        ("[fe80::1%25a]*%5Bb]*%5Bt]", "axyt", False),
        ("[fe80::1%25é]", "é", True),
        ("[fe80::1%25a-é]", "%c3", False),  # half a character is none of them
        ("[fe80::1%25a-\ufffd]", "%c3", True),  # and Go takes it for this one
        ("[fe80::1%25\ud800]", "a", False),
        ("[fe80::1%25a.b]", "a.b", False),  # malformed, both halves
    ],
)
def test_sets_of_characters_where_they_can_be_reached_2_5(pattern: str, image: str, matches: bool) -> None:
    assert second.matches(pattern, image) is matches
    assert image_matches(pattern, image) is matches


@given(PAIRS)
@settings(max_examples=500)
def test_two_implementations_agree_2_4(pair: tuple[str, str]) -> None:
    pattern, image = pair
    assert image_matches(pattern, image) is second.matches(pattern, image)
    assert (why_invalid(pattern) is None) is (second.target(pattern) is not None)


@given(st.text(st.characters(), max_size=40), st.text(st.characters(), max_size=40))
def test_no_text_makes_it_raise_2_7(pattern: str, image: str) -> None:
    assert image_matches(pattern, image) is second.matches(pattern, image)


@each_case(
    ("glob", "matches"),
    [
        ("*a" * 5000, False),
        ("*a" * 5000 + "*", True),
        ("a*" * 5000, True),
        ("*" * 10000, True),
        ("*aab" * 2, True),
        ("*aab" * 2000, False),
        ("[::a%25x]" + "*%5Ba]" * 2000 + "*b]", False),
        ("[::a%25x]" + "*%5Ba]" * 2000 + "*%5Bb]", True),
    ],
    ids=range(8),
)
def test_no_glob_takes_long_2_5(glob: str, matches: bool) -> None:
    # A regular expression that goes back would be at it for ages.
    label = "a" * 4999 + "b" + "a" * 10000 + "b"
    assert image_matches(glob, label) is matches


def test_a_pattern_is_read_once_and_compared_often() -> None:
    pattern = Pattern("*.gcr.io/team")
    assert pattern.matches("eu.gcr.io/team/app")
    assert not pattern.matches("eu.gcr.io/other")
    assert not pattern.matches("not an image")
    assert pattern == Pattern("*.gcr.io/team")
    assert repr(pattern) == "Pattern(text='*.gcr.io/team')"


def test_letters_are_not_folded_2_5() -> None:
    assert not image_matches("gcr.io/Team", "gcr.io/team")
    assert not image_matches("G*.io", "gcr.io")
