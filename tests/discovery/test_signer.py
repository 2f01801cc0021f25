"""cluster-info, signed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth.discovery import sign_cluster_info, verify_detached
from tests.discovery import second
from tests.discovery.objects import NOW, config_map, date, secret
from tests.discovery.vectors import SIGNED
from tests.support.cases import each_case

G4 = SIGNED["G4"][2]
KEY = "jws-kubeconfig-abc123"


def test_a_token_makes_a_signature_a27_a28() -> None:
    signed = sign_cluster_info(config_map(kubeconfig="payload"), [secret()], now=NOW)
    assert signed == config_map(kubeconfig="payload", jws_kubeconfig_abc123=G4)


def test_what_is_signed_already_is_left_alone_a28() -> None:
    assert (
        sign_cluster_info(config_map(kubeconfig="payload", jws_kubeconfig_abc123=G4), [secret()], now=NOW)
        is None
    )


def test_an_old_signature_is_replaced_a28() -> None:
    old = config_map(kubeconfig="payload", jws_kubeconfig_abc123="old signature")
    assert sign_cluster_info(old, [secret()], now=NOW) == config_map(
        kubeconfig="payload", jws_kubeconfig_abc123=G4
    )


def test_the_signature_of_a_token_that_is_gone_is_taken_out_a28() -> None:
    old = config_map(kubeconfig="payload", jws_kubeconfig_abc123=G4)
    assert sign_cluster_info(old, [], now=NOW) == config_map(kubeconfig="payload")


@pytest.mark.parametrize("key", ["jws-kubeconfig-", "jws-kubeconfig-NOPE", "jws-kubeconfig-toolongbyfar"])
def test_signatures_with_no_token_s_id_are_taken_out_too_a28(key: str) -> None:
    old = config_map(kubeconfig="payload", other="kept")
    new = sign_cluster_info({**old, "data": old["data"] | {key: "x"}}, [], now=NOW)
    assert new == old


def test_everything_else_stays_a28() -> None:
    before = config_map("77", kubeconfig="payload", other="kept", jwskubeconfig="kept too")
    before["binaryData"] = {"x": "eA=="}
    kept = copy.deepcopy(before)
    after = sign_cluster_info(before, [secret()], now=NOW)
    assert after == {**kept, "data": kept["data"] | {KEY: G4}}
    assert before == kept


@each_case(
    "broken",
    [config_map(), config_map(jws_kubeconfig_abc123="stays"), {}, {"data": None}, {"data": []}, {"data": {"kubeconfig": 7}}],
)  # fmt: skip
def test_without_a_kubeconfig_nothing_is_done_a27(broken: dict[str, Any]) -> None:
    assert sign_cluster_info(broken, [secret()], now=NOW) is None


def test_an_empty_kubeconfig_is_signed_a18_a27() -> None:
    signed = sign_cluster_info(config_map(kubeconfig=""), [secret("joshua.x")], now=NOW)
    assert signed is not None
    assert verify_detached("", signed["data"]["jws-kubeconfig-joshua"], "joshua.x")


def test_only_tokens_for_signing_sign_a29_a30() -> None:
    secrets = [
        secret(),
        secret("aaaaaa.x", usage_bootstrap_signing=None),
        secret("bbbbbb.x", expiration=date(NOW)),
        secret("cccccc.x", Type="Opaque"),
        secret("dddddd.x", Namespace="default"),
        secret("eeeeee.x", token_id="ffffff"),
        {},
        None,
    ]
    signed = sign_cluster_info(config_map(kubeconfig="payload"), secrets, now=NOW)
    assert signed == config_map(kubeconfig="payload", jws_kubeconfig_abc123=G4)


def test_a_token_that_ended_loses_its_signature_a30() -> None:
    ends = secret(expiration=date(NOW + 1))
    signed = sign_cluster_info(config_map(kubeconfig="payload"), [ends], now=NOW)
    assert signed is not None
    assert sign_cluster_info(signed, [ends], now=NOW + 0.9) is None
    assert sign_cluster_info(signed, [ends], now=NOW + 1) == config_map(kubeconfig="payload")


TOKENS = st.dictionaries(
    st.from_regex(r"[a-z0-9]{6}", fullmatch=True), st.from_regex(r"[a-z0-9]{16}", fullmatch=True), max_size=4
)
OLD = st.dictionaries(
    st.from_regex(r"jws-kubeconfig-[a-z0-9]{0,7}", fullmatch=True), st.text(max_size=3), max_size=3
)


@given(TOKENS, OLD, st.text(), st.booleans())
def test_signing_twice_changes_nothing_and_both_implementations_agree_a28(
    tokens: dict[str, str], old: dict[str, str], content: str, with_old: bool
) -> None:
    before = config_map(kubeconfig=content, other="kept")
    before["data"] |= old if with_old else {}
    secrets = [secret(f"{token_id}.{value}") for token_id, value in tokens.items()]
    after = sign_cluster_info(before, secrets, now=NOW) or before
    wanted = {"kubeconfig": content, "other": "kept"}
    for token_id, value in tokens.items():
        wanted[f"jws-kubeconfig-{token_id}"] = second.signed(content.encode(), token_id, value)
    assert after == {**before, "data": wanted}
    assert sign_cluster_info(after, reversed(secrets), now=NOW) is None
