"""The authorizer, for new pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubeauth.errors import ConfigError
from kubeauth.gmsa import Policy, Review, User, Verdict, authorize
from tests.gmsa.pods import (
    COMPAT,
    CONTENTS,
    LEVELS,
    Cluster,
    Document,
    cluster,
    container,
    options_at,
    pod,
    pod_at,
)
from tests.support.cases import each_case

ROBOT = User("system:serviceaccount:shop:robot", ("system:serviceaccounts", "system:serviceaccounts:shop"))
BOTH = pytest.mark.parametrize("policy", [Policy(), COMPAT], ids=["strict", "compat"])


def test_the_older_name_of_the_field_counts_as_the_api_server_has_it_b46() -> None:
    document = pod("web-spec", CONTENTS)
    document["spec"]["serviceAccount"] = document["spec"].pop("serviceAccountName")
    known = cluster()
    assert known.create(document).allowed
    assert known.reviewed[0].user.name == "system:serviceaccount:shop:robot"
    shipped = cluster()
    shipped.create(document, COMPAT)
    assert shipped.reviewed[0].user.name == "system:serviceaccount:shop:"


@BOTH
def test_who_may_not_use_it_is_told_so_b36(policy: Policy) -> None:
    known = cluster()
    known.refusals["web-spec"] = "no RBAC policy matched."
    decision = known.create(pod("web-spec"), policy)
    assert (decision.code, decision.message) == (
        403,
        'service account "robot" of namespace "shop" is not allowed to `use` GMSACredentialSpec "web-spec", which pod "web" '
        "names: no RBAC policy matched. Bind a role with that verb to it, in this namespace.",
    )
    known.refusals["web-spec"] = ""
    assert 'which pod "web" names. Bind' in known.create(pod("web-spec"), policy).message


@BOTH
@each_case("level", LEVELS[:2])
def test_a_name_without_contents_is_allowed_and_not_looked_up_b37(level: str, policy: Policy) -> None:
    known = cluster()
    assert known.create(pod_at(level, "gone"), policy).allowed
    assert known.fetched == []
    assert [(each.user, each.namespace, each.name) for each in known.reviewed] == [(ROBOT, "shop", "gone")]


@BOTH
def test_each_failure_of_a_lookup_has_its_code_b38(policy: Policy) -> None:
    known = cluster(nothing=None)
    assert known.create(pod("gone", "{}"), policy).code == 404
    assert known.create(pod("nothing", "{}"), policy).code == 417
    known.broken = "down"
    assert known.create(pod("web-spec", "{}"), policy).code == 500


@BOTH
def test_a_mismatch_says_where_and_why_and_not_what_b38(policy: Policy) -> None:
    decision = cluster(n={"a": "theirs"}).create(
        pod(containers=[container("c", "n", '{"a":"mine"}')]), policy
    )
    assert decision.message == (
        'the contents of the GMSA credential spec in container "c" do not match those of GMSACredentialSpec "n": '
        "they differ. Leave them out: they will be filled in."
    )
    decision = cluster().create(pod("web-spec", '{"a": mine}'), policy)
    assert "line 1, column 7: not valid JSON" in decision.message


@BOTH
@each_case("contents", [CONTENTS, "", "{}"])
def test_contents_without_a_name_are_refused_and_nobody_is_asked_b39(contents: str, policy: Policy) -> None:
    known = cluster()
    decision = known.create(pod(containers=[container("c", None, contents)]), policy)
    assert (decision.code, known.was_asked) == (422, False)


def test_what_passes_is_allowed_and_nothing_else_b40() -> None:
    decision = cluster().create(
        pod("web-spec", CONTENTS, containers=[container("c"), container("d", None, None)])
    )
    assert (decision.allowed, decision.code, decision.message, decision.patch) == (True, 200, "", ())


@pytest.mark.parametrize("level", LEVELS[2:])
def test_an_init_or_ephemeral_container_is_no_way_around_b15(level: str) -> None:
    """What the shipped webhook lets through: anybody's contents."""
    for options in ((None, '{"anything":"goes"}'), ("web-spec", '{"anything":"goes"}'), ("gone", CONTENTS)):
        document = pod_at(level, *options)
        assert not cluster().create(document).allowed
        assert cluster().create(document, COMPAT).allowed
    known = cluster()
    known.refusals["web-spec"] = "no"
    assert f'{level} "here"' in known.create(pod_at(level, "web-spec")).message
    assert known.create(pod_at(level, "web-spec"), COMPAT).allowed


def test_the_first_fault_ends_it_b14_b44() -> None:
    """The pod first, then containers in order; and each is authorised, fetched and compared before the next."""
    known = cluster()
    known.refusals["extra-1"] = "no"
    document = pod(
        "web-spec", "{}", containers=[container("a", "extra-1"), container("b", None, "x")],
        initContainers=[container("i", "gone", "x")], ephemeralContainers=[container("e", "", "x")],
    )  # fmt: skip
    places = [
        (document["spec"], 422, 'in pod "web" do not match'),
        (document["spec"]["containers"][0], 403, 'container "a" names'),
        (document["spec"]["containers"][1], 422, 'container "b" has the contents'),
        (document["spec"]["initContainers"][0], 404, '"gone" does not exist'),
        (document["spec"]["ephemeralContainers"][0], 422, 'in ephemeral container "e" is empty'),
    ]
    for place, code, words in places:
        decision = known.create(document)
        assert (decision.code, words in decision.message) == (code, True), decision
        del place["securityContext"]
    assert known.create(document).allowed


def test_a_pod_without_a_name_yet_is_called_by_that_which_it_will_get_b43() -> None:
    document = pod(None, "x")
    document["metadata"] = {}
    assert 'pod "" has' in cluster().create(document).message
    document["metadata"] = {"generateName": "web-6d4cf56db6-"}
    assert 'pod "web-6d4cf56db6-" has' in cluster().create(document).message


@pytest.mark.parametrize("user", [User("alice", ("devs",), "uid-1", (("scopes", ("a", "b")),))])
def test_the_requesting_user_is_checked_if_asked_b45(user: User) -> None:
    known = cluster()
    policy = Policy(check_requesting_user=True)
    assert known.create(pod("web-spec", CONTENTS), user=user).allowed
    assert [each.user for each in known.reviewed] == [ROBOT]
    known.reviewed.clear()
    assert known.create(pod("web-spec", CONTENTS), policy, user=user).allowed
    assert [each.user for each in known.reviewed] == [ROBOT, user]
    known.refusals["alice"] = "she is away"
    decision = known.create(pod("web-spec"), policy, user=user)
    assert (decision.code, 'user "alice", who creates the pod, is not allowed' in decision.message) == (
        403,
        True,
    )
    assert "she is away" in decision.message


@pytest.mark.parametrize("user", [None, User("")])
def test_a_requesting_user_whom_nobody_names_is_not_let_in_b45(user: User | None) -> None:
    known = cluster()
    decision = known.create(pod("web-spec"), Policy(check_requesting_user=True), user=user)
    assert (decision.code, "who creates the pod" in decision.message) == (400, True)
    assert not known.was_asked
    assert known.create(pod(), Policy(check_requesting_user=True), user=user).allowed


@pytest.mark.parametrize("missing", [True, False])
def test_without_a_service_account_it_is_the_default_b46(missing: bool) -> None:
    document = pod("web-spec")
    document["spec"]["serviceAccountName"] = ""
    if missing:
        del document["spec"]["serviceAccountName"]
    for policy, name in ((Policy(), "default"), (COMPAT, "")):
        known = cluster()
        assert known.create(document, policy).allowed
        assert [each.user.name for each in known.reviewed] == [f"system:serviceaccount:shop:{name}"]


@each_case("contents", [None, "", CONTENTS])
@each_case("level", LEVELS)
def test_nobody_is_asked_about_an_empty_name_b47(level: str, contents: str | None) -> None:
    """It would mean all objects, and whoever may use all of them may use this one."""
    known = cluster()
    decision = known.create(pod_at(level, "", contents))
    assert (decision.code, "is empty" in decision.message, known.was_asked) == (422, True, False)


def test_the_shipped_webhook_asks_about_an_empty_name_b47() -> None:
    known = cluster()
    assert known.create(pod(""), COMPAT).allowed
    assert [each.name for each in known.reviewed] == [""]
    assert known.create(pod("", "{}"), COMPAT).code == 500
    assert known.fetched == []


@each_case("namespace", ["", "..", "a/b", "Shop", "x" * 64])
def test_the_namespace_is_that_of_the_request_and_must_be_one_b26(namespace: str) -> None:
    known = cluster()
    document = pod("web-spec", CONTENTS)
    document["metadata"]["namespace"] = "elsewhere"
    assert known.create(document).allowed
    assert {each.namespace for each in known.reviewed} == {"shop"}
    known = cluster()
    decision = known.create(document, namespace=namespace)
    assert (decision.code, known.was_asked) == (400, False)
    assert known.create(pod(), namespace=namespace).allowed


def test_a_name_is_asked_about_once_and_never_again_for_the_next_pod_b57() -> None:
    known = cluster()
    document = pod("web-spec", CONTENTS, containers=[container("a", "web-spec"), container("b", "extra-1")])
    assert known.create(document).allowed
    assert [each.name for each in known.reviewed] == ["web-spec", "extra-1"]
    known.refusals["extra-1"] = "revoked"
    assert known.create(document).code == 403


@each_case(("answer", "allowed"), [(True, True), (False, False), (None, False), (1, False), ("yes", False)])
def test_nothing_but_yes_is_a_yes(answer: Any, allowed: bool) -> None:
    def review(_review: Review) -> Any:
        return answer

    known = cluster()
    assert authorize(pod("web-spec"), namespace="shop", lookup=known.lookup, review=review).allowed is allowed


def test_reasons_are_not_format_strings_and_steer_no_terminal_b83() -> None:
    known = cluster()
    known.refusals["web-spec"] = "100%s {0} %d\x1b[2J\nnext" + "x" * 5000
    message = known.create(pod("web-spec")).message
    assert "100%s {0} %dU+001B[2JU+000Anext" in message
    assert len(message) < 1500
    document = pod_at("container", "web-spec", "nope")
    document["spec"]["containers"][0]["name"] = "\x1b%s" * 500
    message = cluster().create(document).message
    assert message.isprintable()
    assert len(message) < 2000


def test_a_new_pod_cannot_be_decided_about_without_asking() -> None:
    with pytest.raises(ConfigError, match="old_pod= for an update"):
        authorize(pod("web-spec"), namespace="shop")  # type: ignore[call-overload]  # what mypy would have said


def test_a_question_can_be_printed_while_it_is_open() -> None:
    printed: list[str] = []

    def review(asked: Review) -> bool:
        printed.append(repr(asked))
        return asked == Review(ROBOT, "shop", "web-spec")

    assert authorize(pod("web-spec"), namespace="shop", lookup=cluster().lookup, review=review).allowed
    assert printed == [f"Review(user={ROBOT!r}, namespace='shop', name='web-spec')"]


def test_verdicts_are_values() -> None:
    known: Cluster = cluster()
    document: Document = pod_at("container", "web-spec", CONTENTS, extras=2)
    assert options_at(document, "container")["gmsaCredentialSpecName"] == "web-spec"
    decision = authorize(document, namespace="shop", lookup=known.lookup, review=lambda _: Verdict(True))
    assert decision == known.create(document)
    assert hash(decision) == hash(known.create(document))


@pytest.mark.parametrize("wrong", [{"codes": "mine"}, {"mode": "beta"}, {"compat": True, "mode": "alpha"}])
def test_a_policy_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Policy(**wrong)
