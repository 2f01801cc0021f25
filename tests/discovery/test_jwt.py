"""The JWT that a request is signed with, in the seed's mode."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth.discovery import BootstrapToken, sign_detached
from kubeauth.discovery._jwt import NOT_OURS, PresentedJwt, Refused, jwt_problem, presented, request_jwt
from kubeauth.errors import ConfigError
from tests.discovery import second
from tests.discovery.vectors import ABC, J1, J1_CLAIMS, J2, SEED
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, render_error

ID, KEY = SEED.split(".")
NOW = 1_500_000_000.0
HEADER = {"alg": "HS256", "kid": ID, "typ": "JWT"}
CLAIMS = {"sub": ID, "exp": NOW + 60}


def problem(jwt: str, key: str | None = KEY, *, now: float = NOW, **more: Any) -> str | None:
    """Why a JWT is not believed, once it is taken for one of ours."""
    found = presented(f"Bearer {jwt}")
    assert isinstance(found, PresentedJwt)
    return jwt_problem(found, None if key is None else Secret(key), now=now, **more)


def test_the_first_vector_is_made_a74_a75_a76() -> None:
    assert request_jwt(SEED, now=NOW, lifetime=120).reveal() == J1
    assert request_jwt(BootstrapToken.parse(SEED), now=NOW + 0.9, lifetime=120).reveal() == J1


def test_a_jwt_says_what_the_seed_wants_a74_a75_a76() -> None:
    header, claims, _ = request_jwt(ABC, now=NOW + 0.7, audience="cluster-1").reveal().split(".")
    assert header == second.encoded(b'{"alg":"HS256","kid":"abcdef","typ":"JWT"}')
    wanted = b'{"aud":"cluster-1","exp":1500000060,"iat":1500000000,"sub":"abcdef"}'
    assert claims == second.encoded(wanted)


@each_case("lifetime", [0, -1, 121, 3600])
def test_nobody_is_given_more_than_two_minutes_a75(lifetime: int) -> None:
    with pytest.raises(ConfigError, match="lives up to 120 seconds"):
        request_jwt(SEED, now=NOW, lifetime=lifetime)


def test_neither_a_jwt_nor_its_token_is_shown_a92() -> None:
    assert repr(request_jwt(SEED, now=NOW)) == "Secret(<hidden>)"
    taken = presented(f"Bearer {J1}")
    assert repr(taken) == "PresentedJwt(id='ae23dc')"
    for token in (SENTINEL, f"abcdef.{SENTINEL}"):
        with pytest.raises(ConfigError) as raised:
            request_jwt(token, now=NOW, lifetime=999)
        assert SENTINEL not in render_error(raised.value)


@each_case(
    ("now", "expected"),
    [(1500000000, None), (1499999999, "it ends in more than 120 seconds"), (1500000119.999, None), (1500000120, "it is over")],
)  # fmt: skip
def test_the_first_vector_is_believed_for_two_minutes_a75_a78(now: float, expected: str | None) -> None:
    # Its iat is in the future a second before: that is not what is told.
    assert problem(J1, now=now) == expected


def test_the_second_vector_is_for_one_cluster_a78() -> None:
    key = ABC.split(".")[1]
    assert problem(J2, key) is None
    assert problem(J2, key, cluster_id="cluster-1") is None
    assert problem(J2, key, cluster_id="cluster-2") == "it is for another cluster"
    assert problem(J2, key, now=1500000060) == "it is over"
    assert problem(J2, KEY) == "there is no such token, or it was signed with another"


@each_case(
    ("claims", "expected"),
    [
        ({**CLAIMS}, None),
        ({**CLAIMS, "exp": NOW}, "it is over"),
        ({**CLAIMS, "exp": NOW + 0.5}, None),
        ({**CLAIMS, "exp": NOW + 120}, None),
        ({**CLAIMS, "exp": NOW + 121}, "it ends in more than 120 seconds"),
        ({**CLAIMS, "exp": 1e300}, "it ends in more than 120 seconds"),
        ({**CLAIMS, "exp": str(NOW + 60)}, "its exp is not a number"),
        ({**CLAIMS, "exp": True}, "its exp is not a number"),
        ({**CLAIMS, "exp": None}, "its exp is not a number"),
        ({"sub": ID}, "its exp is not a number"),
        ('{"sub":"ae23dc","exp":1e999}', "its exp is not a number"),
        ('{"sub":"ae23dc","exp":NaN}', "its claims are not a JSON object"),
        ('{"sub":"ae23dc","exp":Infinity}', "its claims are not a JSON object"),
        ('{"sub":"ae23dc","exp":1500000060,"exp":1500000060}', "its claims are not a JSON object"),
        ('["sub"]', "its claims are not a JSON object"),
        ("", "its claims are not a JSON object"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "its claims are not a JSON object"),
        ({"exp": NOW + 60}, "its sub is not its kid"),
        ({**CLAIMS, "sub": "abcdef"}, "its sub is not its kid"),
        ({**CLAIMS, "sub": [ID]}, "its sub is not its kid"),
        ({**CLAIMS, "iat": NOW}, None),
        ({**CLAIMS, "iat": NOW + 1}, "its iat is not a number, or not yet"),
        ({**CLAIMS, "iat": "x"}, "its iat is not a number, or not yet"),
        ({**CLAIMS, "iat": True}, "its iat is not a number, or not yet"),
        ({**CLAIMS, "iat": None}, "its iat is not a number, or not yet"),
        ({**CLAIMS, "nbf": NOW}, None),
        ({**CLAIMS, "nbf": NOW + 1}, "its nbf is not a number, or not yet"),
        ({**CLAIMS, "nbf": "0"}, "its nbf is not a number, or not yet"),
        ({**CLAIMS, "aud": "anything", "jti": "x"}, None),
    ],
)
def test_claims_are_believed_only_if_all_are_right_a75_a78(claims: Any, expected: str | None) -> None:
    assert problem(second.jwt(HEADER, claims, KEY)) == expected


@each_case(
    ("audience", "is_ours"),
    [("c", True), (["c"], True), (["b", "c"], True), ("b", False), ([], False), (["b"], False), ({"c": 1}, False),
     (None, False), ("", False), ([["c"]], False)],
)  # fmt: skip
def test_an_audience_must_name_the_cluster_a78(audience: Any, is_ours: bool) -> None:
    found = problem(second.jwt(HEADER, {**CLAIMS, "aud": audience}, KEY), cluster_id="c")
    assert found == (None if is_ours else "it is for another cluster")
    assert problem(second.jwt(HEADER, CLAIMS, KEY), cluster_id="c") is None


def test_skew_is_for_clocks_that_disagree_and_lengthens_nothing_a78() -> None:
    ahead = second.jwt(HEADER, {**CLAIMS, "iat": NOW + 30, "nbf": NOW + 30}, KEY)
    assert problem(ahead, skew=30) is None
    assert problem(ahead, skew=29) == "its iat is not a number, or not yet"
    assert problem(second.jwt(HEADER, {**CLAIMS, "exp": NOW + 121}, KEY), skew=30) is not None
    assert problem(second.jwt(HEADER, {**CLAIMS, "exp": NOW}, KEY), skew=30) == "it is over"


@each_case(
    "header",
    ["", "Bearer", "Bearer ", "Basic abc", f"Basic {J1}", J1, "Bearer x", "Bearer a.b", "Bearer a.b.c.d", f"Bearer {SEED}",
     f"Bearer {J1}.", f"Bearer {J1}=", f"Bearer {J1} x", f"Bearer\t{J1}", f"Bearer {J1}\n", f"Bearer {J1[:-1]}",
     f"Bearer {J1[:-1]}h", f"Bearer {J1[:-1]}/", "Bearer " + second.jwt("[]", CLAIMS, KEY), "Bearer " + second.jwt("{", CLAIMS, KEY),
     "Bearer " + second.jwt('{"alg":"HS256","alg":"HS256","kid":"ae23dc","typ":"JWT"}', CLAIMS, KEY),
     "Bearer " + second.jwt(HEADER, {**CLAIMS, "x": "x" * 8192}, KEY)],
)  # fmt: skip
def test_what_is_no_jwt_of_ours_is_handed_on_a77(header: str) -> None:
    assert presented(header) == NOT_OURS


@each_case("alg", ["none", "HS512", "HS384", "RS256", "ES256", "hs256", "", None, True, ["HS256"]])
def test_another_algorithm_is_never_ours_a77_a85(alg: object) -> None:
    assert presented("Bearer " + second.jwt({**HEADER, "alg": alg}, CLAIMS, KEY)) == NOT_OURS


@each_case(
    ("header", "reason"),
    [
        ({"alg": "HS256", "kid": ID}, "its typ is not JWT"),
        ({**HEADER, "typ": "jwt"}, "its typ is not JWT"),
        ({**HEADER, "typ": "JOSE"}, "its typ is not JWT"),
        ({**HEADER, "crit": ["exp"]}, "it has a crit, and nothing critical is understood"),
        ({**HEADER, "crit": None}, "it has a crit, and nothing critical is understood"),
        ({"alg": "HS256", "typ": "JWT"}, "its kid is not the id of a bootstrap token"),
        ({**HEADER, "kid": "AE23DC"}, "its kid is not the id of a bootstrap token"),
        ({**HEADER, "kid": "ae23dc\n"}, "its kid is not the id of a bootstrap token"),
        ({**HEADER, "kid": "../../x"}, "its kid is not the id of a bootstrap token"),
        ({**HEADER, "kid": 123456}, "its kid is not the id of a bootstrap token"),
    ],
)
def test_one_of_ours_that_is_wrong_is_refused_a77(header: dict[str, Any], reason: str) -> None:
    assert presented("Bearer " + second.jwt(header, CLAIMS, KEY)) == Refused(reason)


@each_case("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_the_scheme_may_be_in_any_case_a77(scheme: str) -> None:
    assert isinstance(presented(f"{scheme} {J1}"), PresentedJwt)


def test_the_signature_of_a_text_is_no_jwt_a88() -> None:
    """With the claims put in the middle, its HMAC would be right."""
    header, _, signature = sign_detached(J1_CLAIMS, SEED).split(".")
    assert presented(f"Bearer {header}.{second.encoded(J1_CLAIMS.encode())}.{signature}") == Refused(
        "its typ is not JWT"
    )


@each_case("key", [None, "", "0" * 16, "abc", KEY.upper(), KEY + "x"])
def test_an_unknown_token_and_one_that_could_be_guessed_are_refused_alike_a79_a11(key: str | None) -> None:
    """Signed with the key that stands in for it, or with that of a token without the form of one."""
    for signer in (KEY, "0" * 16, key or ""):
        if key == signer == "0" * 16:
            continue  # that is a token like any other
        found = problem(second.jwt(HEADER, CLAIMS, signer), key)
        assert found == "there is no such token, or it was signed with another"


@given(st.integers(0, len(J1) - 1), st.characters(codec="ascii"))
def test_one_character_changed_anywhere_is_refused_a86(where: int, other: str) -> None:
    changed = J1[:where] + other + J1[where + 1 :]
    found = presented(f"Bearer {changed}")
    if changed != J1 and isinstance(found, PresentedJwt):
        assert jwt_problem(found, Secret(KEY), now=NOW) is not None


@given(st.text(), st.binary())
def test_nothing_that_is_received_raises_a77(text: str, data: bytes) -> None:
    for header in (
        text,
        f"Bearer {text}",
        f"Bearer {second.encoded(data)}.{second.encoded(data)}.{second.encoded(data)}",
    ):
        assert presented(header) == NOT_OURS


@given(
    st.dictionaries(
        st.sampled_from(["sub", "exp", "iat", "nbf", "aud"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=3
        ),
    )
)
def test_no_claims_raise_a78(claims: dict[str, Any]) -> None:
    found = problem(second.jwt(HEADER, json.dumps(claims), KEY), cluster_id="c")
    assert found is not None or (claims["sub"] == ID and NOW < claims["exp"] <= NOW + 120)


@given(st.builds(BootstrapToken, st.from_regex(r"[a-z0-9]{6}", fullmatch=True), st.from_regex(r"[a-z0-9]{16}", fullmatch=True)),
       st.floats(0, 1e11), st.integers(1, 120))  # fmt: skip
def test_what_is_made_is_believed_a76_a78(token: BootstrapToken, now: float, lifetime: int) -> None:
    found = presented(f"Bearer {request_jwt(token, now=now, lifetime=lifetime).reveal()}")
    assert isinstance(found, PresentedJwt)
    assert jwt_problem(found, token.secret, now=int(now)) is None
