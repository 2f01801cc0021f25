"""New tokens, and what is refused of those that somebody brings."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from kubeauth import Secret
from kubeauth.discovery import BootstrapToken, TokenInfo, new_token, sign_cluster_info, tokens_of
from kubeauth.discovery._new import weakness_of
from kubeauth.errors import ConfigError
from tests.discovery.objects import NOW, config_map, date
from tests.support.cases import each_case
from tests.support.leaks import render_error

DEFAULT = "system:bootstrappers:kubeadm:default-node-token"
GOOD = BootstrapToken("abc123", "k3x9f0q2mz7w1rt8")


def values(document: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in document["data"].items()}


def test_a_new_token_is_good_for_a_day_and_for_joining_a5_a6_a10() -> None:
    made = new_token(now=NOW)
    assert BootstrapToken.parse(made.token.reveal()) == made.token
    assert {key: value for key, value in made.secret.items() if key != "data"} == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{made.token.id}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
    }
    assert values(made.secret) == {
        "token-id": made.token.id,
        "token-secret": made.token.secret.reveal(),
        "expiration": date(NOW + 86400),
        "auth-extra-groups": DEFAULT,
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
    }
    assert new_token(now=NOW).token != made.token


def test_what_is_made_can_be_used_a10() -> None:
    made = new_token(GOOD, now=NOW, description="rack 7")
    info = TokenInfo("abc123", NOW + 86400, ("authentication", "signing"), (DEFAULT,), "rack 7", None)
    assert tokens_of([made.secret], now=NOW) == [info]
    signed = sign_cluster_info(config_map(kubeconfig="payload"), [made.secret], now=NOW)
    assert signed is not None
    assert "jws-kubeconfig-abc123" in signed["data"]


@each_case(
    ("options", "expiration"),
    [
        ({"ttl": 60}, date(NOW + 60)),
        ({"ttl": 0}, None),
        ({"ttl": 0.0}, None),
        ({"expires": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)}, "2030-01-02T03:04:05Z"),
        ({"expires": datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))}, "2030-01-02T01:04:05Z"),
    ],
)  # fmt: skip
def test_when_it_ends_a10(options: dict[str, Any], expiration: str | None) -> None:
    assert values(new_token(now=NOW, **options).secret).get("expiration") == expiration


@each_case(
    ("options", "why"),
    [
        ({"ttl": 60, "expires": datetime(2030, 1, 1, tzinfo=UTC)}, "a ttl or a date that it expires at, not both"),
        ({"ttl": 0, "expires": datetime(2030, 1, 1, tzinfo=UTC)}, "a ttl or a date that it expires at, not both"),
        ({"expires": datetime(2030, 1, 1)}, "needs a time zone"),
        ({"expires": datetime(2009, 1, 1, tzinfo=UTC)}, "must end in the future"),
        ({"ttl": -1}, "must end in the future"),
        ({"ttl": 0.5}, "must end in the future"),
        ({"ttl": 1e15}, "before the year 10000"),
        ({"ttl": float("nan")}, "must end in the future"),
        ({"usages": ["signing", "foo", "bar"]}, "invalid usages of a bootstrap token: bar, foo. There are authentication and signing"),
        ({"usages": []}, "needs a usage"),
        ({"usages": ["Signing"]}, "invalid usages of a bootstrap token: Signing"),
        ({"usages": ["signing"], "groups": [DEFAULT]}, "has groups only with the usage authentication"),
        ({"groups": ["foo", DEFAULT, "system:masters"]}, "invalid groups of a bootstrap token: foo, system:masters"),
        ({"token": BootstrapToken("abc", GOOD.secret)}, "is not a bootstrap token"),
        ({"token": BootstrapToken("abcdef", "short")}, r"abcdef.\*\*\*\* is not a bootstrap token"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_a7_a8_a10(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        new_token(now=NOW, **options)


def test_usages_and_groups_as_they_are_wanted_a7_a8_a10() -> None:
    found = values(new_token(now=NOW, usages="signing").secret)
    assert "usage-bootstrap-authentication" not in found
    assert "auth-extra-groups" not in found
    found = values(new_token(now=NOW, groups=[f"{DEFAULT}:b", DEFAULT, DEFAULT]).secret)
    assert found["auth-extra-groups"] == f"{DEFAULT},{DEFAULT}:b"
    assert "auth-extra-groups" not in values(new_token(now=NOW, groups=()).secret)
    assert values(new_token(now=NOW, groups=DEFAULT).secret)["auth-extra-groups"] == DEFAULT


HUMAN = [
    "0123456789abcdef", "abcdef0123456789", "abcdef1234567890", "1234567890123456", "aabbccddeeffgghh",
    "0000000000000000", "abababababababab", "abcdabcdabcdabcd", "qwertyuiopasdfgh", "fedcba9876543210",
    "abcdefghijklmnop", "1q1q1q1q1q1q1q1q",
]  # fmt: skip


@each_case("text", HUMAN)
def test_a_secret_that_is_made_by_hand_is_refused_a89(text: str) -> None:
    with pytest.raises(ConfigError, match=r"the secret of abc123\.\*\*\*\* is made by hand") as raised:
        new_token(BootstrapToken("abc123", text), now=NOW)
    assert text not in render_error(raised.value)
    made = new_token(BootstrapToken("abc123", text), now=NOW, even_if_weak=True)
    assert values(made.secret)["token-secret"] == text


def test_a_secret_that_is_drawn_is_not_taken_for_one_made_by_hand_a89() -> None:
    """One in a million would be: ten thousand are drawn, and two may be."""
    weak = [
        token for token in (BootstrapToken.generate() for _ in range(10_000)) if weakness_of(token.secret)
    ]
    assert len(weak) <= 2
    assert weakness_of(GOOD.secret) is None
    assert weakness_of(Secret("faddc87f5a5ab458")) is None


def test_a_new_token_does_not_show_its_secret_a92() -> None:
    made = new_token(GOOD, now=NOW)
    assert repr(made) == "NewToken(token=BootstrapToken(abc123.****))"
