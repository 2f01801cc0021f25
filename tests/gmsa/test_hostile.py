"""Pods of the wrong shape, and pods that would cost too much: denied, and never an exception of another kind."""

from __future__ import annotations

from typing import Any

import pytest

from kubeauth.errors import AdmissionError
from kubeauth.gmsa import Policy, authorize, effective_credential_specs, expand
from tests.gmsa.pods import LISTS, Document, cluster, container, pod
from tests.support.cases import each_case
from tests.support.frames import package_frames
from tests.support.leaks import SENTINEL


def nested(depth: int) -> Document:
    found: Document = {}
    for _ in range(depth):
        found = {"a": found}
    return found


def cyclic() -> Document:
    found: Document = {}
    found["spec"] = found
    return found


def in_options(value: Any, member: str) -> Document:
    return {"spec": {"securityContext": {"windowsOptions": {member: value}}}}


SCRAPS: list[Any] = [5, [], {}, True, 1.5]
NO_LISTS: list[Any] = [{}, "x", 5, ["x"], [5], [[]], [True]]
WRONG: list[Any] = [
    None, [], "x", 5, True, {1, 2}, object(),
    {"spec": []}, {"spec": "x"}, {"spec": 0}, {"spec": False}, {"metadata": []}, {"metadata": {"name": 5}},
    {"metadata": {"generateName": []}}, {"spec": {"serviceAccountName": 5}}, {"spec": {"hostname": {}}},
    {"spec": {"securityContext": []}}, {"spec": {"securityContext": {"windowsOptions": "x"}}},
    *[in_options(value, member) for value in SCRAPS
      for member in ("gmsaCredentialSpecName", "gmsaCredentialSpec")],
    *[{"spec": {member: value}} for member in LISTS.values() for value in NO_LISTS],
    *[{"spec": {member: [{"name": 5}]}} for member in LISTS.values()],
    *[{"spec": {member: [{"name": "a", "securityContext": 5}]}} for member in LISTS.values()],
    *[{"spec": {member: [{"name": "a"}, {"securityContext": {"windowsOptions": {"gmsaCredentialSpecName": 5}}}]}}
      for member in LISTS.values()],
    {"metadata": {"annotations": {"a": 5}}}, {"metadata": {"labels": []}}, {"apiVersion": 5},
    {"x": 1j}, {(1, 2): "x"}, {"x": float("nan")}, {"x": b"bytes"}, nested(200), nested(5000), cyclic(),
]  # fmt: skip


@pytest.mark.attack(
    "GMSA webhook",
    "documents that are not pods: wrong types, cycles, depth, millions of values",
    "denied with 400 before the API server is contacted",
)
@each_case("document", WRONG, ids=range(len(WRONG)))
def test_what_is_no_pod_is_400_b24(document: Any) -> None:
    known = cluster()
    decisions = [
        known.create(document),
        # As Go does, also fields that the policy does not read are decoded.
        known.create(document, Policy(compat=True)),
        known.create(document, Policy(mode="alpha")),
        authorize(document, old_pod=pod()),
        authorize(pod(), old_pod=[] if document is None else document),  # None would be no update
    ]
    assert [(each.allowed, each.code, each.patch) for each in decisions] == [(False, 400, ())] * 5
    assert all(each.message.startswith("this is not a pod: ") for each in decisions)
    for call in (known.expand, effective_credential_specs):
        with pytest.raises(AdmissionError, match="this is not a pod: ") as caught:
            call(document)
        assert caught.value.status_code == 400
    assert not known.was_asked


def test_what_is_null_is_not_there_as_in_go() -> None:
    lists: list[Document] = [{"spec": {member: [None, {}]}} for member in LISTS.values()]
    for document in [*lists, {"spec": None}, {"metadata": None}, {"spec": {"securityContext": None}}]:
        assert cluster().expand(document) == []
        assert cluster().create(document).allowed


@pytest.mark.attack(
    "GMSA webhook",
    "documents that are not pods: wrong types, cycles, depth, millions of values",
    "denied with 400 before the API server is contacted",
)
def test_a_pod_of_too_many_values_is_denied() -> None:
    document = pod(containers=[container("a")])
    document["spec"]["containers"][0]["args"] = ["x"] * 1_000_001
    assert cluster().create(document).code == 400


@pytest.mark.attack(
    "GMSA webhook",
    "pods with thousands of containers",
    "denied with 422 above 1000; below, one request for each credential spec",
)
def test_a_thousand_options_cost_one_question() -> None:
    many = pod(containers=[container(str(n), "web-spec") for n in range(1000)])
    known = cluster()
    assert known.create(many).allowed
    assert len(known.reviewed) == 1


@pytest.mark.attack(
    "GMSA webhook",
    "pods with thousands of containers",
    "denied with 422 above 1000; below, one request for each credential spec",
)
@pytest.mark.parametrize("member", LISTS.values())
def test_nobody_looks_at_more_than_a_thousand_containers(member: str) -> None:
    many = pod(**{"containers": [container("a")], member: [container(str(n)) for n in range(1001)]})
    known = cluster()
    assert (known.create(many).code, known.was_asked) == (422, False)
    with pytest.raises(AdmissionError, match="more than 1000 containers"):
        known.expand(many)


@pytest.mark.attack(
    "GMSA webhook",
    "documents that are not pods: wrong types, cycles, depth, millions of values",
    "denied with 400 before the API server is contacted",
)
@each_case("kind", ["Deployment", "List", "pod", "", 5, []])
def test_what_is_called_otherwise_is_no_pod_b23(kind: Any) -> None:
    document = {**pod("web-spec", containers=[container("a")]), "kind": kind}
    assert cluster().create(document).code == 400
    with pytest.raises(AdmissionError, match="its kind is another"):
        effective_credential_specs(document)


def test_shipped_lists_alone_are_looked_at_by_compat_b15() -> None:
    document = pod(containers=[container("a")])
    document["spec"]["initContainers"] = [container("b", "gone", "x")]
    known = cluster()
    assert known.create(document, Policy(compat=True)).allowed
    assert not known.was_asked


@pytest.mark.attack(
    "GMSA webhook",
    "contents of credential specs in errors and tracebacks",
    "never, also not with the values of variables",
)
def test_tracebacks_and_values_do_not_hold_contents_b75() -> None:
    document = pod("gone", containers=[container("c", None, SENTINEL)])
    try:
        expand(document, cluster().lookup)
    except AdmissionError as error:
        held = [repr(frame.f_locals) for frame in package_frames(error.__traceback__)]
        assert held
        assert SENTINEL not in "".join(held)
        assert SENTINEL not in repr(error)
    else:
        pytest.fail("it does not exist")
    decision = cluster(n={"a": SENTINEL}).create(pod("n", "{}"))
    assert SENTINEL not in repr(decision)
