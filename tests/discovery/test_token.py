"""Bootstrap tokens: which there are, what belongs to one, and that none is shown."""

from __future__ import annotations

import pickle
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth.discovery import BootstrapToken, _token
from kubeauth.errors import ConfigError
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL, render_error

VALID = [
    "abcdef.1234567890123456",
    "123456.aabbccddeeffgghh",
    "abcdef.abcdef0123456789",
    "123456.1234560123456789",
]
INVALID = [
    "",
    ".",
    "1234567890123456789012",
    "12345.1234567890123456",
    ".1234567890123456",
    "123456.",
    "123456:1234567890.123456",
    "abcdef:1234567890123456",
    "abc*ef.1234567890123456",
    "ABCDEF.abcdef0123456789",
    "Abcdef.1234567890123456",
    "123456.AABBCCDDEEFFGGHH",
    "123456.AABBCCD-EEFFGGHH",
    '"f.s"',
    '"abcdef."',
    '"abcdef.1234567890123456"',
    "abcdef.1234567890123456\n",
    "abcdef\n.1234567890123456",
    " abcdef.1234567890123456",
    "abcdef.12345678901234567",
    "abcdef.1234567890123456.",
    "abcdef.12345678.0123456",
    # sixteen characters, more bytes
    "abcdef.123456789012345\u00e9",
    "abcdef.123456789012345\u0661",
]


@each_case("text", VALID)
def test_a_token_of_the_right_form_is_taken_a1_a3(text: str) -> None:
    token = BootstrapToken.parse(text)
    assert token.reveal() == text
    assert (token.id, token.secret.reveal()) == tuple(text.split("."))
    assert BootstrapToken.parse(Secret(text)) == token


@each_case("text", INVALID)
def test_whatever_else_is_refused_a1_a3(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a bootstrap token: that is six characters, a dot"):
        BootstrapToken.parse(text)


def test_the_example_of_the_seed_is_a_token_a11() -> None:
    assert BootstrapToken.parse("ae23dc.faddc87f5a5ab458").id == "ae23dc"


@each_case("text", ["abcdef", "000000", "zzzzzz", "a1b2c3"])
def test_an_id_is_six_of_a_z_and_0_9_a2(text: str) -> None:
    assert _token.is_token_id(text)


@each_case("text", ["", "abcde", "abcdefg", "ABCDEF", "abcde\n", "abcdef\n", "abcde\u0661", "abc.ef"])
def test_anything_else_is_no_id_a2(text: str) -> None:
    assert not _token.is_token_id(text)


@given(st.text() | st.from_regex(r"[a-z0-9.]{20,25}", fullmatch=True))
def test_what_is_taken_is_what_the_pattern_of_kubernetes_matches_a1(text: str) -> None:
    try:
        found = BootstrapToken.parse(text)
    except ConfigError:
        assert not re.fullmatch(r"([a-z0-9]{6})\.([a-z0-9]{16})", text)
    else:
        assert re.fullmatch(r"([a-z0-9]{6})\.([a-z0-9]{16})", text)
        assert found.reveal() == text


def test_tokens_that_are_made_are_tokens_and_differ_a9() -> None:
    made = [BootstrapToken.generate() for _ in range(500)]
    assert all(BootstrapToken.parse(token.reveal()) == token for token in made)
    assert len({token.reveal() for token in made}) == 500
    # 11,000 characters: that one of 36 is not among them has a chance of one in 10^133.
    letters = "".join(token.id + token.secret.reveal() for token in made)
    assert set(letters) == set(string.ascii_lowercase + string.digits)


def test_the_secret_of_a_token_is_found_by_its_name_a4() -> None:
    assert _token.secret_name("abc123") == "bootstrap-token-abc123"
    assert _token.secret_name("foo") == "bootstrap-token-foo"
    assert _token.id_of("bootstrap-token-abc123") == "abc123"


@each_case(
    "name",
    ["", "abc123", "bootstrap-token-", "bootstrap-token-abc", "bootstrap-token-abc123abc", "bootstrap-token-ABC123",
     "bootstrap-token-abcdef\n", "bootstrap-token", "xbootstrap-token-abc123", "bootstrap-token-bootstrap-token-abc123"],
)  # fmt: skip
def test_other_names_are_of_no_token_a4(name: str) -> None:
    assert _token.id_of(name) is None


def test_the_names_are_those_of_kubernetes_a5_a6_a22_a23_a24_a25() -> None:
    assert (_token.SECRET_TYPE, _token.SECRET_NAMESPACE) == ("bootstrap.kubernetes.io/token", "kube-system")
    keys = [_token.TOKEN_ID, _token.TOKEN_SECRET, _token.EXPIRATION, _token.DESCRIPTION, _token.EXTRA_GROUPS]
    assert keys == ["token-id", "token-secret", "expiration", "description", "auth-extra-groups"]
    usages = [_token.USAGE_PREFIX + each for each in (_token.SIGNING, _token.AUTHENTICATION)]
    assert usages == ["usage-bootstrap-signing", "usage-bootstrap-authentication"]
    assert _token.CLUSTER_INFO_PATH == "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    assert (_token.KUBECONFIG_KEY, _token.signature_key("abc123")) == ("kubeconfig", "jws-kubeconfig-abc123")
    assert (_token.user_name("abc123"), _token.BASE_GROUP) == (
        "system:bootstrap:abc123",
        "system:bootstrappers",
    )
    names = _token.CLUSTER_NAME, _token.DISCOVERY_USER, _token.TLS_BOOTSTRAP_USER
    assert names == ("kubernetes", "token-bootstrap-client", "tls-bootstrap-token-user")
    assert _token.JWS_HEADER == "X-Kubernetes-JWS"


def test_a_token_shows_its_id_and_never_its_secret_a92() -> None:
    token = BootstrapToken("abcdef", SENTINEL)
    assert (str(token), repr(token)) == ("abcdef.****", "BootstrapToken(abcdef.****)")
    assert f"{token} {token!r}" == "abcdef.**** BootstrapToken(abcdef.****)"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(token)


@each_case(
    ("text", "shown"),
    [(f"abcdef.{SENTINEL}", "abcdef.****"), (SENTINEL, "what was given"), (f"{SENTINEL}.abcdef", "what was given"),
     (f"abcdef.{SENTINEL}.", "abcdef.****"), (f"{SENTINEL}.{SENTINEL}", "what was given"), ("s3ntin", "what was given")],
)  # fmt: skip
def test_an_error_about_a_token_does_not_show_it_a92(text: str, shown: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BootstrapToken.parse(text)
    assert str(raised.value).startswith(f"{shown} is not a bootstrap token")
    assert SENTINEL not in render_error(raised.value)


def test_a_token_is_a_value() -> None:
    token = BootstrapToken.parse("abcdef.0123456789abcdef")
    assert token == BootstrapToken("abcdef", Secret("0123456789abcdef"))
    assert token != BootstrapToken("abcdef", "0123456789abcdee")
    assert len({token, BootstrapToken("abcdef", "0123456789abcdef")}) == 1
    with pytest.raises(AttributeError):
        token.id = "other1"  # type: ignore[misc]
