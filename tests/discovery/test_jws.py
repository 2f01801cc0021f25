"""Detached signatures, to the letter: those of Kubernetes are made, and nothing else is accepted."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth.discovery import BootstrapToken, TokenAuthenticator, sign_detached, verify_detached
from kubeauth.discovery._jwt import PresentedJwt, jwt_problem, presented
from kubeauth.errors import ConfigError
from tests.discovery import second
from tests.discovery.objects import secret
from tests.discovery.vectors import (
    ABC,
    FORGED,
    J1,
    J1_CLAIMS,
    JOSHUA,
    KUBECONFIG,
    R1,
    S1,
    S1_BODY,
    S2,
    S2_BODY,
    SEED,
    SIGNED,
    SONG,
)
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, render_error

KEY = SEED.split(".")[1]
IDS = st.from_regex(r"[a-z0-9]{6}", fullmatch=True)
SECRETS = st.from_regex(r"[a-z0-9]{16}", fullmatch=True)
TOKENS = st.builds(BootstrapToken, IDS, SECRETS)


@each_case("name", SIGNED)
def test_signatures_whose_bytes_are_known_are_made_and_accepted_a15_a16_a17_a18(name: str) -> None:
    token, content, jws = SIGNED[name]
    assert sign_detached(content, token) == jws
    assert verify_detached(content, jws, token)
    assert verify_detached(content.encode(), jws, BootstrapToken(*token.split(".")))
    assert not verify_detached(content, jws + "foo", token)


@each_case("name", FORGED)
def test_forged_signatures_are_refused_a19_a85(name: str) -> None:
    assert not verify_detached("payload", FORGED[name], SEED)


def test_n2_and_n3_are_what_they_say_they_are() -> None:
    """They would prove nothing if their signatures were wrong anyway."""
    assert FORGED["N2"] == second.with_header('{"kid":"ae23dc","alg":"HS256"}', b"payload", KEY)
    assert FORGED["N3"] == second.signed(b"payload", "ae23dc", SEED)
    ends = [base64.urlsafe_b64decode(jws.split(".")[2] + "=") for jws in (FORGED["N4"], SIGNED["1"][2])]
    assert ends[0] == ends[1]


@each_case(
    "header",
    ['{"alg":"HS512","kid":"ae23dc"}', '{"alg":"RS256","kid":"ae23dc"}', '{"alg":"hs256","kid":"ae23dc"}',
     '{"alg":"none","kid":"ae23dc"}', '{"alg":"HS256","kid":"abcdef"}', '{"alg":"HS256","kid":"ae23dc","typ":"JWT"}',
     '{"alg":"HS256", "kid":"ae23dc"}', '{"alg":"HS256","kid":"ae23dc","b64":false}', '{"alg":"HS256"}', ""],
)  # fmt: skip
def test_another_header_is_refused_though_its_signature_is_right_a19_a21_a85_a86(header: str) -> None:
    assert not verify_detached("payload", second.with_header(header, b"payload", KEY), SEED)


def test_a_signature_is_the_headers_two_dots_and_43_characters_a15_a17() -> None:
    header, empty, signature = sign_detached("x", SEED).split(".")
    assert base64.urlsafe_b64decode(header + "==") == b'{"alg":"HS256","kid":"ae23dc"}'
    assert (empty, len(signature)) == ("", 43)


def test_a_newline_makes_another_signature_a18_a81() -> None:
    assert (sign_detached(S1_BODY, SEED), sign_detached(S2_BODY, SEED)) == (S1, S2)
    assert (len(S1_BODY), len(S2_BODY)) == (132, 131)
    made = {sign_detached(KUBECONFIG.replace("\n", end), ABC) for end in ("\n", "\r\n", "\r", "")}
    assert len(made) == 4
    # Composed and decomposed.
    assert sign_detached("\u00e9", ABC) != sign_detached("e\u0301", ABC)


def test_a_jwt_that_is_sent_back_is_no_signature_a88() -> None:
    # Its HMAC is right: a verifier that reads the header would have to notice typ.
    header = '{"alg":"HS256","kid":"ae23dc","typ":"JWT"}'
    assert second.with_header(header, J1_CLAIMS.encode(), KEY) == R1
    assert not verify_detached(J1_CLAIMS, R1, SEED)
    assert not verify_detached(J1_CLAIMS, J1, SEED)


@given(TOKENS, st.binary() | st.text())
def test_both_implementations_agree_a15_a16_a17(token: BootstrapToken, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    jws = sign_detached(content, token)
    assert jws == second.signed(data, token.id, token.secret.reveal())
    assert verify_detached(content, jws, token)


@given(TOKENS, st.binary(min_size=1), st.data())
def test_one_byte_changed_anywhere_is_refused_a19_a86(
    token: BootstrapToken, content: bytes, data: st.DataObject
) -> None:
    jws = sign_detached(content, token)
    where = data.draw(st.integers(0, len(jws) - 1))
    other = data.draw(st.characters().filter(lambda char: char != jws[where]))
    assert not verify_detached(content, jws[:where] + other + jws[where + 1 :], token)
    assert not verify_detached(content, jws[:where] + jws[where + 1 :], token)
    assert not verify_detached(content, jws[:where] + other + jws[where:], token)
    where = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[where] ^= data.draw(st.integers(1, 255))
    assert not verify_detached(bytes(changed), jws, token)


@given(TOKENS, TOKENS, st.binary())
def test_another_token_is_refused_a86(one: BootstrapToken, other: BootstrapToken, content: bytes) -> None:
    assert verify_detached(content, sign_detached(content, one), other) == (one == other)


def test_what_is_received_is_compared_in_constant_time_a20_a35_a77(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures, JWTs and secrets, each by the function that is made for it."""
    compared: list[bytes] = []
    compare = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.extend((one, other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    assert not verify_detached("payload", "received", SEED)
    assert b"received" in compared
    presented_jwt = presented(f"Bearer {J1}")
    assert isinstance(presented_jwt, PresentedJwt)
    assert jwt_problem(presented_jwt, Secret(KEY), now=1_500_000_000) is None
    assert presented_jwt.signature in compared
    TokenAuthenticator(lambda _: secret(SEED)).authenticate("ae23dc.0123456789abcdef")
    assert {KEY.encode(), b"0123456789abcdef"} <= set(compared)


@given(st.text(st.characters()), st.text(st.characters()))
def test_nothing_that_is_received_raises_a20(content: str, jws: str) -> None:
    assert not verify_detached(content, jws, SEED)
    assert not verify_detached(content, jws + "\udc80\u00e9", SEED)


def test_every_position_of_a_signature_counts_a19() -> None:
    token, content, jws = SIGNED["3"]
    for where in range(len(jws)):
        for other in {"A", "B", ".", "=", "\u00e9"} - {jws[where]}:
            assert not verify_detached(content, jws[:where] + other + jws[where + 1 :], token)


def test_the_form_of_a_token_is_not_looked_at_here_a18() -> None:
    assert sign_detached(SONG, JOSHUA) == sign_detached(
        SONG, BootstrapToken("joshua", "my voice is my passcode")
    )
    # The id ends at the first dot.
    assert sign_detached("x", "a.b.c") == sign_detached("x", BootstrapToken("a", "b.c"))


def test_an_id_is_written_as_go_writes_json_a15() -> None:
    header = sign_detached("x", BootstrapToken('a"<\u00e9', "s")).split(".")[0]
    assert base64.urlsafe_b64decode(header + "==") == '{"alg":"HS256","kid":"a\\"\\u003c\u00e9"}'.encode()


@pytest.mark.parametrize(
    "call", [lambda: sign_detached("x", SENTINEL), lambda: verify_detached("x", "y", SENTINEL)]
)
def test_a_text_without_a_dot_is_no_token_and_is_not_shown_a92(call: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="no dot between its id and its secret") as raised:
        call()
    assert SENTINEL not in render_error(raised.value)
