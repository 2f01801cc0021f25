"""What becomes of a pod, place by place: what `kubeauth gmsa check` says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubeauth.errors import AdmissionError
from kubeauth.gmsa import Policy, effective_credential_specs
from kubeauth.gmsa._driver import settled
from kubeauth.gmsa._explain import Outcome, outcome
from tests.gmsa.pods import (
    COMPAT,
    CONTENTS,
    LEVELS,
    STRICT,
    Cluster,
    Document,
    cluster,
    container,
    pod,
    pod_at,
)
from tests.gmsa.test_properties import expanded, known, pods, visited
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL


def explained(document: object, asked: Cluster | None = None, policy: Policy = STRICT) -> Outcome:
    asked = asked or cluster()
    return settled(outcome(document, "shop", policy, lambda: "host"), asked.lookup, asked.review)


def words(found: Outcome) -> list[tuple[Any, ...]]:
    """A row for each place: what it names, its contents, the code, and what it runs with."""
    return [
        (
            f"{each.place.level} {each.place.resource}",
            each.place.name,
            each.contents,
            each.decision.code,
            each.runs_with and each.runs_with.name,
        )
        for each in found.places
    ]


def test_each_container_runs_with_its_own_or_with_the_pods_b61_b62() -> None:
    found = explained(
        pod(
            "web-spec",
            containers=[container("a"), container("b", "extra-1")],
            initContainers=[container("c", "web-spec", CONTENTS.replace(",", ", "))],
            ephemeralContainers=[container("d", None)],
        )
    )
    assert found.decision.allowed
    assert words(found) == [
        ("pod web", "web-spec", "filled in", 200, None),
        ("container a", None, None, 200, "web-spec"),
        ("container b", "extra-1", "filled in", 200, "extra-1"),
        ("init container c", "web-spec", "given", 200, "web-spec"),
        ("ephemeral container d", None, None, 200, "web-spec"),
    ]


def test_all_that_is_wrong_is_said_and_not_only_the_first_b14() -> None:
    found = explained(
        pod(
            "web-spec",
            containers=[
                container("a", "missing"),
                container("b", None, "{}"),
                container("c", "web-spec", "{}"),
            ],
            initContainers=[container("d", "")],
        )
    )
    assert (found.decision.allowed, found.decision.code) == (False, 404)
    assert [each.decision.code for each in found.places] == [200, 404, 422, 422, 422]


def test_who_may_not_use_it_is_403_at_each_place_b36() -> None:
    asked = cluster()
    asked.refusals["web-spec"] = "no"
    found = explained(pod("web-spec", containers=[container("a", "web-spec")]), asked)
    assert [each.decision.code for each in found.places] == [403, 403]
    assert found.decision == found.places[0].decision


@each_case("level", LEVELS)
def test_a_place_that_only_we_look_at_is_marked_as_such_b15(level: str) -> None:
    found = explained(pod_at(level, None, "{}"), policy=COMPAT)
    place = next(each for each in found.places if each.contents)
    is_visited = level in LEVELS[:2]
    assert place.is_looked_at is is_visited
    assert found.decision.allowed is not is_visited
    if not is_visited:
        assert place.runs_with is place.place  # so dangerous is it


@each_case("policy", [STRICT, COMPAT])
@each_case("member", ["serviceAccountName", "serviceAccount", None])
def test_the_service_account_is_the_one_that_the_api_server_fills_in_b46(
    policy: Policy, member: str | None
) -> None:
    document = pod("web-spec", containers=[])
    del document["spec"]["serviceAccountName"]
    if member:
        document["spec"][member] = "mine"
    asked = cluster()
    found = explained(document, asked, policy)
    assert found.service_account == ("mine" if member else "default")
    assert {each.user.name for each in asked.reviewed} == {
        f"system:serviceaccount:shop:{found.service_account}"
    }


@each_case("options", [("web-spec", ""), ("Bad Name", None), ("", None), (None, "x" * 65537)])
def test_the_api_server_looks_where_the_shipped_webhook_does_not_b13_b15(
    options: tuple[str | None, str | None],
) -> None:
    found = explained(pod(containers=[], initContainers=[container("a", *options)]), policy=COMPAT)
    assert (found.decision.code, found.places[1].decision.code) == (422, 422)


def test_windows_options_of_a_linux_pod_are_refused_b13() -> None:
    document = pod("web-spec", containers=[container("a")])
    document["spec"]["os"] = {"name": "linux"}
    assert explained(document).decision.code == 422
    assert "linux" in explained(document).decision.message
    document["spec"]["os"]["name"] = "windows"
    assert explained(document).decision.allowed


def test_contents_that_the_api_server_refuses_b13() -> None:
    found = explained(pod("long", containers=[]), cluster(long={"a": "x" * 65536}))
    assert (found.decision.code, "65536" in found.decision.message) == (422, True)
    empty = explained(pod("web-spec", "", containers=[]), policy=COMPAT)
    assert (empty.decision.code, "empty" in empty.decision.message) == (422, True)


def test_a_random_hostname_is_said_b33() -> None:
    policy = Policy(random_hostname=True)
    assert explained(pod("web-spec", containers=[]), policy=policy).has_new_hostname
    assert not explained(pod(containers=[]), policy=policy).has_new_hostname
    assert not explained(pod("web-spec", containers=[])).has_new_hostname


def test_annotations_too_b84() -> None:
    policy = Policy(mode="alpha")
    document = pod(containers=[container("a")])
    document["metadata"]["annotations"] = {
        "a.container.alpha.windows.kubernetes.io/gmsa-credential-spec-name": "web-spec"
    }
    found = explained(document, policy=policy)
    assert words(found)[1] == ("container a", "web-spec", "filled in", 200, "web-spec")
    document["metadata"]["annotations"]["b.container.alpha.windows.kubernetes.io/gmsa-credential-spec"] = "{}"
    stray = explained(document, policy=policy)
    assert (stray.decision.code, stray.places) == (422, ())


@each_case("document", [[], {"spec": []}, {"spec": {"initContainers": {}}}, 1, None])
@each_case("policy", [STRICT, COMPAT])
def test_what_is_no_pod_is_400_b24(document: object, policy: Policy) -> None:
    found = explained(document, policy=policy)
    assert (found.decision.code, found.places) == (400, ())


def test_contents_are_not_printed_b75() -> None:
    found = explained(pod(None, SENTINEL, containers=[container("a", "web-spec")]))
    assert SENTINEL not in repr(found)
    assert SENTINEL not in found.decision.message


@given(pods(), st.booleans())
def test_it_agrees_with_the_webhook_and_the_kubelet_b27_b36_b61(document: Document, compat: bool) -> None:
    policy = COMPAT if compat else STRICT
    found = explained(document, known(), policy)
    after = expanded(document, policy)
    if isinstance(after, AdmissionError):
        assert (found.decision.allowed, found.decision.message) == (False, str(after))
        return
    # No API server takes empty contents, wherever they are (B13); the webhook may not look there.
    is_unfit = any(options.get("gmsaCredentialSpec") == "" for options in visited(after))
    assert found.decision.allowed == (known().create(after, policy).allowed and not is_unfit)
    assert found.decision.allowed == all(each.decision.allowed for each in found.places)
    runs = {each.place.resource: each.runs_with and each.runs_with.contents for each in found.places[1:]}
    assert runs == {name: contents or None for name, contents in effective_credential_specs(after).items()}
