"""WWW-Authenticate, as RFC 9110 has it and as registries write it (9.2-9.4)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth.registry._challenge import MAX_HEADERS, MAX_LENGTH, Challenge, chosen, parse_challenges
from tests.support.cases import each_case

BEARER = Challenge(
    "bearer", {"realm": "https://auth.test/token", "service": "s", "scope": "repository:a/b:pull,push"}
)


@each_case(
    ("headers", "expected"),
    [
        # As Docker's hub writes it; commas in quotes are data.
        (['Bearer realm="https://auth.test/token",service="s",scope="repository:a/b:pull,push"'], [BEARER]),
        # Names in any case, blanks anywhere, no quotes.
        (['bEARER  REALM = "https://auth.test/token" ,\t Service=s , , scope= "repository:a/b:pull,push",'], [BEARER]),
        (["Bearer realm=https://auth.test/token, service=s, scope=\"repository:a/b:pull,push\""], [BEARER]),
        # Escapes.
        ([r'Basic realm="a \"quoted\" \\ thing"'], [Challenge("basic", {"realm": r'a "quoted" \ thing'})]),
        # Several in a header, and several headers.
        (['Basic realm="x", Bearer realm="y"', "Negotiate"],
         [Challenge("basic", {"realm": "x"}), Challenge("bearer", {"realm": "y"}), Challenge("negotiate")]),
        # token68, which looks like a parameter.
        (["Negotiate YII=, Basic realm=x"], [Challenge("negotiate"), Challenge("basic", {"realm": "x"})]),
        (["NTLM abc/+==,Basic"], [Challenge("ntlm"), Challenge("basic")]),
        (["Negotiate, Basic realm=x"], [Challenge("negotiate"), Challenge("basic", {"realm": "x"})]),
        (["Basic"], [Challenge("basic")]),
        # The first of two.
        (['Bearer realm="a", realm="b"'], [Challenge("bearer", {"realm": "a"})]),
        # Junk is skipped, and what comes after it is not lost.
        (['@@ Bearer realm="a"'], [Challenge("bearer", {"realm": "a"})]),
        (['Bearer realm="a" "out, of=place" service=s'], [Challenge("bearer", {"realm": "a", "service": "s"})]),
        (['realm="nobody\'s", Bearer realm="a"'], [Challenge("bearer", {"realm": "a"})]),
        (["", ",,", "===", '"', "\x00"], []),
        # A text that does not end is none.
        (['Bearer realm="a", service="s'], [Challenge("bearer", {"realm": "a"})]),
        (['Bearer realm="https://auth.test'], [Challenge("bearer")]),
        (["Bearer realm="], [Challenge("bearer")]),
        (["Bearer realm=, service=s"], [Challenge("bearer", {"service": "s"})]),
        (["Bearer service=s, realm=, x=\"\""], [Challenge("bearer", {"service": "s", "realm": "", "x": ""})]),
        # Half of it would be another one.
        ([f'Bearer realm="{"x" * MAX_LENGTH}"'], []),
        (["Basic"] * (MAX_HEADERS + 5), [Challenge("basic")] * MAX_HEADERS),
    ],
)  # fmt: skip
def test_challenges_are_parsed_9_2_9_3(headers: list[str], expected: list[Challenge]) -> None:
    assert parse_challenges(headers) == expected


@each_case(
    ("header", "scheme"),
    [
        ('Basic realm="x", Bearer realm="y"', "bearer"),
        ('Bearer realm="y", Basic realm="x"', "bearer"),
        ('Bearer service="y", Basic realm="x"', "basic"),  # a realm is needed
        ("Basic", "basic"),
        ("Digest realm=x", None),
        ("Bearer", None),
        ("", None),
    ],
)
def test_bearer_is_chosen_over_basic_9_4(header: str, scheme: str | None) -> None:
    found = chosen(parse_challenges([header]))
    assert (found and found.scheme) == scheme


def test_what_a_challenge_says() -> None:
    assert (BEARER.realm, BEARER.service, BEARER.scopes) == (
        "https://auth.test/token", "s", ["repository:a/b:pull,push"],
    )  # fmt: skip
    assert (Challenge("bearer").realm, Challenge("bearer").service, Challenge("bearer").scopes) == (
        "",
        "",
        [],
    )
    assert Challenge("bearer", {"scope": "a:b:c  d:e:f"}).scopes == ["a:b:c", "d:e:f"]


TCHAR = "!#$%&'*+.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"
NAMES = st.text(TCHAR, min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=9, max_codepoint=255, exclude_characters="\r\n"), max_size=20)
PARAMETERS = st.dictionaries(NAMES.map(str.lower), VALUES, max_size=4)
BLANKS = st.text(" \t", max_size=2)


@st.composite
def written(draw: st.DrawFn) -> tuple[list[Challenge], str]:
    """Challenges, and one of the ways to write them."""
    challenges, parts = [], []
    for scheme in draw(st.lists(NAMES, max_size=4)):
        parameters = draw(PARAMETERS)
        texts = []
        for name, value in parameters.items():
            is_bare = draw(st.booleans()) and re.fullmatch(f"[{re.escape(TCHAR)}]+", value)
            spelled = value if is_bare else '"{}"'.format(re.sub(r'(["\\])', r"\\\1", value))
            texts.append(
                f"{draw(st.sampled_from([name, name.upper()]))}{draw(BLANKS)}={draw(BLANKS)}{spelled}"
            )
        comma = f"{draw(BLANKS)},{draw(BLANKS)}"
        if not texts and draw(st.booleans()):
            texts = [draw(st.sampled_from(["YII=", "abc", "a/b+c=="]))]
        challenges.append(Challenge(scheme.lower(), parameters))
        parts.append(f"{scheme} {comma.join(texts)}" if texts else scheme)
    return challenges, f"{draw(BLANKS)},{draw(BLANKS)}".join(parts)


@given(written())
def test_what_is_written_is_read(case: tuple[list[Challenge], str]) -> None:
    challenges, text = case
    assert parse_challenges([text]) == challenges


# The grammar of RFC 9110 as one regular expression: slow, and shares nothing with the parser.
_T = f"[{re.escape(TCHAR)}]+"
_Q = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"'
_PARAM = rf"{_T}[ \t]*=[ \t]*(?:{_T}|{_Q})"
_ONE = rf"{_T}(?:[ ]+(?:[A-Za-z0-9._~+/-]+=*(?![^,])|{_PARAM}(?:[ \t]*,[ \t]*{_PARAM})*))?"
GRAMMAR = re.compile(rf"{_ONE}(?:[ \t]*,[ \t]*{_ONE})*")


def second_look(text: str) -> list[tuple[str, int]]:
    """Schemes, and how many different parameters each has, found from the grammar alone."""
    found: list[tuple[str, set[str]]] = []
    rest = re.sub(_Q, "q", text)  # quotes are balanced: the grammar has said so
    for part in re.split(r"[ \t]*,[ \t]*", rest):
        scheme = re.fullmatch(rf"({_T})(?: +(.*))?", part)
        parameter = re.fullmatch(rf"({_T})[ \t]*=[ \t]*(?:{_T})", part)
        if parameter:
            found[-1][1].add(parameter[1].lower())
        elif scheme:
            found.append((scheme[1].lower(), set()))
            inner = re.fullmatch(rf"({_T})[ \t]*=[ \t]*{_T}", scheme[2] or "")
            if inner:
                found[-1][1].add(inner[1].lower())
    return [(scheme, len(names)) for scheme, names in found]


@given(st.one_of(written().map(lambda case: case[1]), st.text('aB= ,"\\q/', max_size=30)))
def test_a_second_look_finds_the_same(text: str) -> None:
    if GRAMMAR.fullmatch(text):
        assert [(each.scheme, len(each.parameters)) for each in parse_challenges([text])] == second_look(text)


@given(st.lists(st.one_of(st.text(), st.text('aA=, \t"\\'))))
def test_nothing_raises(headers: list[str]) -> None:
    for challenge in parse_challenges(headers):
        assert challenge.scheme == challenge.scheme.lower() != ""
    chosen(parse_challenges(headers))


@pytest.mark.parametrize(
    "text",
    ['"' * 8000, "\\" * 8000, '"' + '\\"' * 4000, 'a="' * 2600, "a " * 4000, "a=" * 4000, "," * 8000, " " * 8000,
     "a" * 8000, "a " + "b/" * 4000, "a" + " " * 8000 + "b", 'a="' + "\\" * 8000],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_the_worst_is_read_once(text: str) -> None:
    """Would take minutes if any of it were read over and over. No time is asserted: the test has a limit."""
    parse_challenges([text] * MAX_HEADERS)
