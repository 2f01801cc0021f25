"""What the Secret of a token says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth.discovery import TokenInfo, tokens_of
from kubeauth.discovery._secrets import (
    authentication_problem,
    expiry_of,
    groups_of,
    is_over,
    signing_problem,
    stored_token,
)
from tests.discovery.objects import NOW, date, secret
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL

GROUP = "system:bootstrappers:"


@each_case(
    ("changes", "problem"),
    [
        ({}, None),
        ({"expiration": date(NOW + 3600)}, None),
        ({"expiration": date(NOW - 3600)}, "it is over"),
        ({"expiration": "garbage"}, "it is over"),
        ({"usage_bootstrap_signing": None}, "it is not for signing"),
        ({"token_id": ""}, "it has no token-id"),
        ({"token_id": None}, "it has no token-id"),
        ({"token_secret": ""}, "it has no token-secret"),
        ({"Name": "bad"}, "it is not called bootstrap-token- and the id of a token"),
        ({"Name": "bootstrap-token-ABC123"}, "it is not called bootstrap-token- and the id of a token"),
        ({"Name": "bootstrap-token-def456"}, "its token-id is not the one in its name"),
        # Neither is looked at.
        ({"Deleted": True}, None),
        ({"token_secret": "any text whatsoever"}, None),
        # What the controller does not list.
        ({"Type": "Opaque"}, "its type is not bootstrap.kubernetes.io/token"),
        ({"Namespace": "default"}, "it is not in kube-system"),
        # In order.
        ({"Name": "bad", "token_id": "", "token_secret": ""}, "it is not called bootstrap-token- and the id of a token"),
        ({"token_id": "", "token_secret": ""}, "it has no token-id"),
        ({"token_secret": "", "expiration": "x"}, "it has no token-secret"),
        ({"expiration": "x", "usage_bootstrap_signing": None}, "it is over"),
    ],
)  # fmt: skip
def test_which_tokens_are_for_signing_a29(changes: dict[str, Any], problem: str | None) -> None:
    assert signing_problem(stored_token(secret(**changes)), NOW) == problem


@each_case("value", ["True", "TRUE", "1", "yes", "true ", "true\n", "", "false"])
def test_a_usage_is_exactly_true_a6(value: str) -> None:
    stored = stored_token(secret(usage_bootstrap_signing=value, usage_bootstrap_authentication=value))
    assert stored.usages == ()
    assert signing_problem(stored, NOW) == "it is not for signing"
    assert authentication_problem(stored, "abc123", NOW) == "it is not for authentication"


def test_both_usages_are_known_a6() -> None:
    assert stored_token(secret()).usages == ("authentication", "signing")
    assert stored_token(secret(usage_bootstrap_signing=None)).usages == ("authentication",)


@each_case(
    ("text", "over"),
    [
        (None, False),
        ("", False),
        (date(NOW + 1), False),
        (date(NOW), True),
        (date(NOW - 1), True),
        ("2109-01-01T00:00:00Z", False),
        ("2009-01-01T00:00:00Z", True),
        ("2109-01-01T00:00:00.5+02:00", False),
        ("0001-01-01T00:00:00Z", True),
        # No dates, all of them: a date alone, no zone, a space for the T, a newline, a number.
        ("2109-01-01", True),
        ("2109-01-01T00:00:00", True),
        ("2109-01-01 00:00:00Z", True),
        ("2109-01-01T00:00:00Z\n", True),
        ("2109-01-01t00:00:00z", True),
        ("2109-13-01T00:00:00Z", True),
        ("4386787200", True),
        ("never", True),
    ],
)
def test_when_a_token_is_over_a12_a13(text: str | None, over: bool) -> None:
    assert is_over(stored_token(secret(expiration=text)), NOW) == over


def test_the_very_instant_is_too_late_a12() -> None:
    stored = stored_token(secret(expiration="2030-01-01T00:00:00.500Z"))
    end = expiry_of(stored)
    assert end is not None
    assert (is_over(stored, end - 0.001), is_over(stored, end)) == (False, True)


@each_case(
    ("text", "groups"),
    [
        (None, ["system:bootstrappers"]),
        ("", ["system:bootstrappers"]),
        (f"{GROUP}foo", ["system:bootstrappers", f"{GROUP}foo"]),
        (f"{GROUP}foo:bar:baz", ["system:bootstrappers", f"{GROUP}foo:bar:baz"]),
        (f"{GROUP}foo-bar-42", ["system:bootstrappers", f"{GROUP}foo-bar-42"]),
        (f"{GROUP}b,{GROUP}a,{GROUP}b", ["system:bootstrappers", f"{GROUP}a", f"{GROUP}b"]),
        (f"{GROUP}{'x' * 256}", ["system:bootstrappers", f"{GROUP}{'x' * 256}"]),
        (f"{GROUP}Foo", None),
        ("foo", None),
        ("system:masters", None),
        ("system:bootstrappers", None),
        (GROUP, None),
        (f"{GROUP}a b", None),
        (f"{GROUP}*", None),
        (f"{GROUP}a:", None),
        (f"{GROUP}a-", None),
        (f"{GROUP}<b>", None),
        (f"{GROUP}a\n", None),
        (f"{GROUP}{'x' * 257}", None),
        (f"{GROUP}{'x' * 300}", None),
        # Nothing is trimmed, and one bad one spoils all.
        (f"{GROUP}a, {GROUP}b", None),
        (f"{GROUP}a,", None),
        (f"{GROUP}a,foo", None),
        (",", None),
    ],
)
def test_whose_member_a_bearer_is_a8(text: str | None, groups: list[str] | None) -> None:
    found = groups_of(stored_token(secret(auth_extra_groups=text)))
    assert found == (None if groups is None else tuple(groups))


def test_a_list_of_secrets_as_tokens_without_their_secrets_a92() -> None:
    good = secret(
        f"zzz999.{SENTINEL}",
        description="for the new rack",
        expiration=date(NOW + 60),
        auth_extra_groups=f"{GROUP}b,{GROUP}a",
    )
    others = [
        secret("aaa111.x", usage_bootstrap_authentication=None),
        secret("bbb222.x", expiration="garbage"),
        secret("ccc333.x", Name="bootstrap-token-nope"),
        secret("ddd444.x", auth_extra_groups="foo", usage_bootstrap_signing=None),
        secret("eee555.x", usage_bootstrap_authentication=None, usage_bootstrap_signing=None),
        secret("fff666.x", Type="Opaque"),
    ]
    found = tokens_of({"kind": "SecretList", "items": [good, *others]}, now=NOW)
    both = ("authentication", "signing")
    assert found == [
        TokenInfo("", None, both, (), "", "it is not called bootstrap-token- and the id of a token"),
        TokenInfo("aaa111", None, ("signing",), (), "", None),
        TokenInfo("bbb222", None, both, (), "", "it is over"),
        TokenInfo("ddd444", None, ("authentication",), (), "", "it names a group that no token may"),
        TokenInfo("eee555", None, (), (), "", "it is not for signing"),
        TokenInfo("zzz999", NOW + 60, both, (f"{GROUP}a", f"{GROUP}b"), "for the new rack", None),
    ]
    assert SENTINEL not in repr(found)
    assert tokens_of([good], now=NOW) == found[-1:]
    assert tokens_of({"items": None}, now=NOW) == tokens_of({}, now=NOW) == []


def test_what_is_not_shown_a92() -> None:
    stored = stored_token(secret(f"abc123.{SENTINEL}"))
    assert stored.secret() == Secret(SENTINEL)
    assert SENTINEL not in repr(stored)


def test_a_secret_that_is_not_sent_yet_can_be_read_too() -> None:
    document = secret() | {"stringData": {"token-secret": "other", "description": "d", "token-id": 7}}
    stored = stored_token(document)
    assert (stored.text("token-secret"), stored.text("description"), stored.text("token-id")) == (
        "other",
        "d",
        "",
    )


@each_case("value", ["%%%", "YQ", "YQ==\n", 7, None, ["YQ=="]])
def test_a_value_that_is_no_text_is_none(value: Any) -> None:
    document = secret()
    document["data"]["token-secret"] = value
    assert signing_problem(stored_token(document), NOW) == "it has no token-secret"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["metadata", "name", "namespace", "type", "data", "stringData", "items", "token-id"]), inner
    ), max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_no_document_makes_it_raise(document: Any) -> None:
    stored = stored_token(document)
    assert signing_problem(stored, NOW) is not None
    assert authentication_problem(stored, "abc123", NOW) is not None
    assert tokens_of([document], now=NOW) == []
