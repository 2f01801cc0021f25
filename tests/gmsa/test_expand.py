"""The expander: what is written into a new pod, and when it is not admitted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubeauth.errors import AdmissionError
from kubeauth.gmsa import Policy, expand
from kubeauth.gmsa._expand import new_hostname
from kubeauth.gmsa._places import MAX_SPECS
from tests.gmsa.pods import (
    COMPAT,
    CONTENTS,
    LEVELS,
    LISTS,
    STRICT,
    Cluster,
    Document,
    cluster,
    container,
    context,
    options_at,
    patched,
    pod,
    pod_at,
)
from tests.support.cases import each_case


def refused(known: Cluster, document: Document, policy: Policy = STRICT) -> AdmissionError:
    with pytest.raises(AdmissionError) as caught:
        known.expand(document, policy)
    return caught.value


def everywhere(name: str | None = "web-spec", contents: str | None = None) -> Document:
    lists = {member: [container(f"x-{member}".lower(), name, contents)] for member in LISTS.values()}
    return pod(name, contents, **lists)


def test_names_without_contents_are_filled_in_order_b14_b27_b28() -> None:
    document = everywhere()
    assert cluster().expand(document) == [
        {
            "op": "add",
            "path": f"/spec{where}/securityContext/windowsOptions/gmsaCredentialSpec",
            "value": CONTENTS,
        }
        for where in ("", "/containers/0", "/initContainers/0", "/ephemeralContainers/0")
    ]


def test_the_value_is_a_string_and_not_an_object_b28() -> None:
    (operation,) = cluster().expand(pod("web-spec"))
    assert isinstance(operation["value"], str)
    assert list(operation) == ["op", "path", "value"]


def test_init_and_ephemeral_containers_are_left_out_by_compat_alone_b15() -> None:
    paths = [each["path"] for each in cluster().expand(everywhere(), COMPAT)]
    assert [path.split("/")[2] for path in paths] == ["securityContext", "containers"]


def test_there_is_no_patch_for_half_a_pod_b27() -> None:
    document = pod("web-spec", containers=[container("a", "web-spec"), container("b", "gone")])
    known = cluster()
    error = refused(known, document)
    assert (error.status_code, known.fetched) == (404, ["web-spec", "gone"])
    assert document == pod("web-spec", containers=[container("a", "web-spec"), container("b", "gone")])


@each_case("policy", [Policy(), COMPAT], ids=["strict", "compat"])
@each_case("level", LEVELS[:2])
def test_contents_that_are_there_are_left_alone_b29(policy: Policy, level: str) -> None:
    known = cluster()
    for options in (("web-spec", "wrong"), ("gone", "{}"), ("", "x"), (None, CONTENTS), (None, "")):
        assert known.expand(pod_at(level, *options), policy) == []
    assert not known.was_asked


@each_case("level", LEVELS)
def test_empty_contents_are_filled_in_b30(level: str) -> None:
    document = pod_at(level, "web-spec", "")
    (operation,) = patch = cluster().expand(document)
    assert operation["op"] == "replace"
    assert options_at(patched(document, patch), level)["gmsaCredentialSpec"] == CONTENTS
    if level in LEVELS[:2]:
        assert cluster().expand(document, COMPAT) == []


def test_nobody_is_asked_who_may_use_it_b31() -> None:
    known = cluster()
    known.refusals["web-spec"] = "no"
    assert known.expand(pod("web-spec"))
    assert known.reviewed == []


@each_case("number", range(20))
def test_a_hostname_is_the_beginning_of_a_random_uuid_b33(number: int) -> None:
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4", new_hostname())
    policy = Policy(random_hostname=True)
    *_, operation = expand(pod("web-spec"), cluster().lookup, policy=policy)
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4", operation["value"])
    assert operation["value"] != new_hostname(), number


@each_case("policy", [Policy(random_hostname=True), Policy(random_hostname=True, compat=True)])
@each_case("level", LEVELS)
def test_a_hostname_is_for_pods_that_name_a_spec_b33(policy: Policy, level: str) -> None:
    visited = level in LEVELS[:2] or not policy.compat
    hostname: Document = {"op": "add", "path": "/spec/hostname", "value": "a-random-name-4"}
    assert cluster().expand(pod_at(level, "web-spec", "x"), policy) == ([hostname] if visited else [])
    # Contents alone are no name, and an empty hostname is none.
    assert cluster().expand(pod_at(level, None, "x"), policy) == []
    document = pod_at(level, "web-spec", "x")
    document["spec"]["hostname"] = ""
    assert cluster().expand(document, policy) == ([hostname] if visited else [])


def test_pods_without_a_spec_are_admitted_and_nobody_is_asked_b34() -> None:
    known = cluster()
    empty: list[Document] = [{}, {"spec": {}}, {"metadata": {}, "spec": {"containers": None}}]
    for document in [*empty, pod(), pod(None, None)]:
        assert known.expand(document) == []
        assert known.create(document).allowed
    assert not known.was_asked


@each_case("name", ["", "we_b", "Web", "-a", "a..b", "../secrets", "a/b", "a%2fb", "x" * 254, "ü", "a\n"])
@each_case("level", LEVELS)
def test_a_name_that_no_object_can_have_is_never_looked_up_b13_b47(name: str, level: str) -> None:
    known = cluster()
    error = refused(known, pod_at(level, name))
    assert error.status_code == 422
    assert ("is empty" if not name else "not one that an object can have") in str(error)
    if level in LEVELS[:2]:
        # The shipped webhook goes on, and gets nowhere: client-go refuses an empty one, and no other is found.
        assert refused(known, pod_at(level, name), COMPAT).status_code == (404 if name else 500)
    assert not known.was_asked


def test_a_spec_that_is_named_twice_is_looked_up_once_b57() -> None:
    known = cluster()
    assert len(known.expand(everywhere())) == 4
    assert known.fetched == ["web-spec"]
    known.expand(everywhere())
    assert known.fetched == ["web-spec"] * 2  # for the next pod it is another question


def test_so_is_one_that_is_not_there_b57() -> None:
    known = cluster()
    assert known.create(pod("web-spec", CONTENTS, containers=[container("a", "web-spec", "{}")])).code == 422
    assert known.fetched == ["web-spec"]
    assert len(known.reviewed) == 1


@each_case("credspec", [None, "", "text", [], ["x"], 0, 1, True, False])
def test_a_spec_without_contents_is_417_b56(credspec: object) -> None:
    known = cluster(n=credspec)
    error = refused(known, pod("n"))
    assert (error.status_code, str(error)) == (417, 'GMSACredentialSpec "n" has no credspec')
    assert known.create(pod("n", "{}")).code == 417


def test_a_spec_without_the_member_is_417_and_an_empty_one_is_not_b56() -> None:
    known = cluster(empty={})
    known.specs["absent"] = {"kind": "GMSACredentialSpec"}
    assert refused(known, pod("absent")).status_code == 417
    assert known.expand(pod("empty"))[0]["value"] == "{}"


def test_what_cannot_be_looked_up_is_500_with_its_cause_b54() -> None:
    known = cluster()
    known.broken = "the API server is having 100% of a bad day"
    error = refused(known, pod("web-spec"))
    assert error.status_code == 500
    assert str(error) == f'GMSACredentialSpec "web-spec" cannot be looked up: {known.broken}'
    assert known.create(pod("web-spec", CONTENTS)).code == 500


def cyclic() -> Document:
    found: Document = {}
    found["credspec"] = found
    return found


@each_case(
    "found", ["text", 5, [], {"credspec": {"a": float("nan")}}, {"credspec": {1j: "x"}}, {"credspec": {"a": {1}}}, cyclic()]
)  # fmt: skip
def test_what_is_no_object_was_not_found(found: Any) -> None:
    known = cluster()
    known.specs["web-spec"] = found
    error = refused(known, pod("web-spec"))
    assert error.status_code == 500
    assert "cannot be looked up" in str(error)


def test_what_a_lookup_raises_is_the_callers() -> None:
    def lookup(_name: str) -> None:
        raise StopIteration("not the end of ours")

    with pytest.raises(StopIteration, match="not the end of ours"):
        expand(pod("web-spec"), lookup)


def test_a_pod_names_so_many_specs_at_most() -> None:
    names = [f"extra-{n}" for n in range(MAX_SPECS + 1)]
    many = pod(containers=[container(f"c{n}", name, "x") for n, name in enumerate(names)])
    known = cluster()
    error = refused(known, many)
    assert (error.status_code, str(error)) == (422, "the pod names more than 100 GMSA credential specs")
    assert known.create(many).code == 422
    assert not known.was_asked
    del many["spec"]["containers"][0]
    assert known.expand(many) == []
    same = pod(containers=[container(f"c{n}", "web-spec") for n in range(1000)])
    assert len(known.expand(same)) == 1000


def test_a_patch_has_a_size() -> None:
    """A small pod could ask for gigabytes."""
    known = cluster(large={"a": "x" * 60_000})
    fits = [container(f"c{n}", "large") for n in range(52)]
    assert len(known.expand(pod(containers=fits))) == 52
    error = refused(known, pod(containers=[*fits, container("more", "large")]))
    assert (error.status_code, "than there is room for in a pod" in str(error)) == (422, True)


def test_a_seed_says_422_of_what_does_not_exist_b54() -> None:
    known = cluster()
    assert refused(known, pod("gone")).status_code == 404
    assert refused(known, pod("gone"), COMPAT).status_code == 404
    assert refused(known, pod("gone"), Policy(codes="seed")).status_code == 422
    assert refused(known, pod("gone"), Policy(codes="seed", compat=True)).status_code == 422


def test_a_null_is_not_there_b11() -> None:
    document = pod()
    document["spec"]["securityContext"] = {
        "windowsOptions": {"gmsaCredentialSpecName": "web-spec", "gmsaCredentialSpec": None}
    }
    assert cluster().expand(document)[0]["op"] == "add"
    document["spec"]["securityContext"] = {"windows": context("web-spec")["windowsOptions"]}
    assert cluster().expand(document) == []  # as the seed had it
