"""The authorizer, for updates: nothing about credential specs may change."""

from __future__ import annotations

import copy

import pytest

from kubeauth.gmsa import Policy, authorize
from tests.gmsa.pods import (
    COMPAT,
    LEVELS,
    LISTS,
    STRICT,
    Document,
    container,
    options_at,
    pod,
    pod_at,
    resource_at,
)
from tests.support.cases import each_case

BOTH = pytest.mark.parametrize("policy", [Policy(), COMPAT], ids=["strict", "compat"])
SEED = Policy(codes="seed")


def code(new: Document, old: Document, policy: Policy = STRICT) -> int:
    return authorize(new, old_pod=old, policy=policy).code


@BOTH
def test_containers_are_compared_by_name_and_not_by_index_b48(policy: Policy) -> None:
    one, two, three = container("a", "x", "1"), container("b", "y", "2"), container("c")
    old = pod(containers=[one, two, three])
    assert code(pod(containers=[three, two, one]), old, policy) == 200
    assert code(pod(containers=[container("b", "x", "1"), container("a", "y", "2")]), old, policy) == 403


@BOTH
def test_contents_are_compared_as_text_b48(policy: Policy) -> None:
    assert code(pod("n", '{"a": 1}'), pod("n", '{"a":1}'), policy) == 403


@BOTH
@each_case("level", LEVELS[:2])
def test_null_is_not_empty_b48(level: str, policy: Policy) -> None:
    assert code(pod_at(level, None, ""), pod_at(level, None, None), policy) == 403
    assert code(pod_at(level, "", None), pod_at(level, None, None), policy) == 403
    document = pod_at(level, None, None)
    options_at(document, level)["gmsaCredentialSpec"] = None
    assert code(document, pod_at(level, None, None), policy) == 200


@each_case("level", LEVELS)
def test_the_code_is_403_or_the_seeds_400_b49(level: str) -> None:
    new, old = pod_at(level, "n"), pod_at(level, "m")
    assert code(new, old) == 403
    assert code(new, old, SEED) == 400
    message = authorize(new, old_pod=old).message
    assert message == (
        f'the name of the GMSA credential spec in {level} "{resource_at(level)}" cannot be changed, added or '
        "removed. Create another pod."
    )


@BOTH
@each_case("level", LEVELS[:2])
def test_what_is_added_or_cleared_is_refused_b50(level: str, policy: Policy) -> None:
    assert code(pod_at(level, "n", "c"), pod_at(level, None, None), policy) == 403
    assert code(pod_at(level, "n", "c"), pod_at(level), policy) == 403
    assert code(pod_at(level, "n", None), pod_at(level, "n", "c"), policy) == 403
    assert code(pod_at(level, None, "c"), pod_at(level, "n", "c"), policy) == 403
    assert code(pod_at(level, None, None), pod_at(level, "n", "c"), policy) == 403
    assert code(pod(containers=[container("a", "n")]), pod(containers=[]), policy) == 403


def removals(level: str) -> list[Document]:
    """The pod without its options, without what they are in, without the container, without the list."""
    found = [pod_at(level, "n", "c") for _ in range(2)]
    for number, document in enumerate(found):
        spec = document["spec"] if level == "pod" else document["spec"][LISTS[level]][0]
        if number:
            del spec["securityContext"]
        else:
            spec["securityContext"] = {}
    if level != "pod":
        found.append(pod(containers=[]))
        found[-1]["spec"][LISTS[level]] = []
        found.append(pod())
    return found


@each_case("level", LEVELS)
def test_what_is_removed_is_noticed_but_by_compat_b50(level: str) -> None:
    for document in removals(level):
        old = pod_at(level, "n", "c")
        assert code(document, old) == 403
        assert code(document, old, COMPAT) == 200
        assert authorize(document, old_pod=old).message.startswith("the name and contents of")


@pytest.mark.parametrize("level", LEVELS[2:])
def test_init_and_ephemeral_containers_are_compared_too_b15_b50(level: str) -> None:
    for options in ((None, "c"), ("n", None), ("n", "other")):
        assert code(pod_at(level, *options), pod_at(level, "n", "c")) == 403
        assert code(pod_at(level, *options), pod_at(level, "n", "c"), COMPAT) == 200
    # A debug container may be added, and gets what the pod has; a credential spec of its own it cannot bring.
    old = pod("n", "c", containers=[container("a")])
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [container("debug")]
    assert code(new, old) == 200
    new["spec"]["ephemeralContainers"] = [container("debug", "n", "c")]
    assert code(new, old) == 403


@BOTH
def test_an_update_asks_nobody_b51(policy: Policy) -> None:
    """There is no lookup and no review to be given. So nothing that happens to the resource stops an update."""
    document = pod("long-gone", "not what it says any more", containers=[container("c", "n", "x")])
    assert code(document, document, policy) == 200


@BOTH
def test_whatever_else_changes_is_not_our_business_b52(policy: Policy) -> None:
    old = pod("n", "c", containers=[container("c")])
    new = copy.deepcopy(old)
    new["metadata"] |= {"name": "other", "labels": {"a": "b"}}
    new["spec"] |= {"activeDeadlineSeconds": 5, "serviceAccountName": "x", "hostname": "h"}
    new["spec"]["containers"][0] |= {
        "image": "newer",
        "securityContext": {"windowsOptions": {"hostProcess": True}},
    }
    assert code(new, old, policy) == 200


def test_two_with_one_name_are_compared_in_order() -> None:
    """Which no API server lets through."""
    one, two = container("a", "x"), container("a", "y")
    assert code(pod(containers=[one, two]), pod(containers=[one, two])) == 200
    assert code(pod(containers=[two, one]), pod(containers=[one, two])) == 403
    assert code(pod(containers=[one]), pod(containers=[one, two])) == 403
    assert code(pod(containers=[two]), pod(containers=[one, two])) == 403
    assert code(pod(containers=[one, two]), pod(containers=[one])) == 403


@each_case("old", [[], "x", 5, {"spec": []}, {"metadata": {"name": 5}}])
def test_an_old_pod_that_is_none_is_refused_b25(old: object) -> None:
    decision = authorize(pod(), old_pod=old)  # type: ignore[call-overload]  # on purpose
    assert (decision.allowed, decision.code) == (False, 400)
