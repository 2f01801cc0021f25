"""AdmissionReview, in and out."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth.gmsa import Decision, Policy
from kubeauth.gmsa._driver import settled
from kubeauth.gmsa._registration import V1, VERSIONS
from kubeauth.gmsa._review import (
    MAX_REVIEW,
    mutation,
    read_review,
    validation,
    write_review,
)
from kubeauth.schemas import UserInfo
from tests.gmsa.pods import CONTENTS, STRICT, Cluster, Document, cluster, pod
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL


def review(version: str = V1, **request: Any) -> bytes:
    given: Document = {
        "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "namespace": "shop",
        "userInfo": {"username": "alice", "groups": ["devs"], "uid": "1", "extra": {"scopes": ["a"]}}, **request,
    }  # fmt: skip
    return json.dumps({"kind": "AdmissionReview", "apiVersion": version, "request": given}).encode()


def answered(path: str, body: bytes, known: Cluster | None = None, policy: Policy = STRICT) -> Document:
    """The whole answer, as a webhook at that path would write it."""
    known = known or cluster()
    read, decision = read_review(body)
    if decision is None:
        steps = mutation(read.request, policy) if path == "mutate" else validation(read.request, policy)
        decision = settled(steps, known.lookup, known.review)
    written: Document = json.loads(write_review(read, decision))
    return written


PATHS = pytest.mark.parametrize("path", ["mutate", "validate"])


def code(path: str, body: bytes, policy: Policy = STRICT) -> int:
    response = answered(path, body, policy=policy)["response"]
    assert response["allowed"] == ("status" not in response)
    return 200 if response["allowed"] else int(response["status"]["code"])


@pytest.mark.parametrize("version", VERSIONS)
def test_both_versions_are_read_b20(version: str) -> None:
    read, denial = read_review(review(version, object=pod()))
    request = read.request
    assert denial is None
    assert (request.uid, read.api_version, request.operation) == ("u-1", version, "CREATE")
    assert request.namespace == "shop"
    assert request.user_info == UserInfo(
        username="alice", groups=("devs",), uid="1", extra={"scopes": ("a",)}
    )
    assert request.object == pod()


@each_case(
    "body",
    [b"", b"nope", b"[]", b"null", b"5", b"\xff\xfe", b'{"request":{"uid":1e400}}', b"{}", b'{"request":null}', b'{"request":[]}',
     b'{"request":"x"}', b"[" * 100_000, b" " * (MAX_REVIEW + 1), b'{"a":' * 300 + b"1" + b"}" * 300],
)  # fmt: skip
def test_a_body_that_is_no_review_is_denied_with_an_empty_uid_b20(body: bytes) -> None:
    read, denial = read_review(body)
    assert denial
    answer = json.loads(write_review(read, denial))
    assert (answer["apiVersion"], answer["response"]["uid"], answer["response"]["status"]["code"]) == (
        V1,
        "",
        400,
    )


def test_a_review_has_a_size_b19() -> None:
    body = review(object=pod())
    body += b" " * (MAX_REVIEW - len(body))
    assert read_review(body)[1] is None
    _, denial = read_review(body + b" ")
    assert denial
    assert "larger than 4 MiB" in denial.message


def test_what_kind_a_review_is_of_is_not_checked_b20() -> None:
    body = json.loads(review(object=pod()))
    body |= {"kind": "Other", "apiVersion": 5}
    read, denial = read_review(json.dumps(body).encode())
    assert denial is None
    assert read.api_version == V1


@PATHS
@each_case(("version", "echoed"), [*zip(VERSIONS, VERSIONS, strict=True), ("other/v1", V1)])
def test_the_version_is_echoed_b21(path: str, version: str, echoed: str) -> None:
    objects: list[Any] = [pod(), pod("web-spec", CONTENTS), [], None]
    for each in objects:
        answer = answered(path, review(version, object=each))
        assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", echoed)


def test_an_answer_has_these_members_and_no_others_b22() -> None:
    body = review(object=pod("web-spec"))
    answer = answered("mutate", body)["response"]
    assert list(answer) == ["uid", "allowed", "patch", "patchType"]
    assert answer["patchType"] == "JSONPatch"
    (operation,) = json.loads(base64.b64decode(answer["patch"], validate=True))
    assert operation["value"] == CONTENTS
    assert answered("validate", body)["response"] == {"uid": "u-1", "allowed": True}
    denied = answered("validate", review(object=pod(None, "x")))["response"]
    assert list(denied) == ["uid", "allowed", "status"]
    assert list(denied["status"]) == ["metadata", "message", "code"]
    assert (denied["status"]["metadata"], denied["status"]["code"]) == ({}, 422)


def test_a_denial_never_has_a_patch_b22() -> None:
    decision = Decision(False, 500, "no", ({"op": "add", "path": "/x", "value": "y"},))
    read, _ = read_review(review(object=pod()))
    assert set(json.loads(write_review(read, decision))["response"]) == {"uid", "allowed", "status"}


@PATHS
@each_case("kind", ["Deployment", "", "pod", None])
def test_another_kind_is_400_and_its_group_is_not_looked_at_b23(path: str, kind: str | None) -> None:
    answer = answered(path, review(kind={"kind": kind}, object=pod()))["response"]
    assert (answer["uid"], answer["status"]["code"]) == ("u-1", 400)
    assert answer["status"]["message"] == f'expected Pod, got "{kind or ""}"'
    assert code(path, review(kind={"group": "x", "version": "v9", "kind": "Pod"}, object=pod())) == 200


def test_what_is_known_of_a_review_of_another_kind_is_there_for_the_log_b23() -> None:
    read, denial = read_review(review(kind={"kind": "Deployment"}))
    assert denial
    assert (read.request.operation, read.request.namespace, read.request.uid) == ("CREATE", "shop", "u-1")


@PATHS
@each_case("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT", ""])
@each_case("given", [None, [], "x", 5, {"spec": []}, {"spec": {"containers": ["x"]}}])
def test_an_object_that_is_no_pod_is_400_whatever_is_done_to_it_b24(
    path: str, operation: str, given: Any
) -> None:
    body = review(operation=operation, object=given, oldObject=pod())
    assert code(path, body) == 400
    assert "this is not a pod" in answered(path, body)["response"]["status"]["message"]


@PATHS
@each_case("operation", ["DELETE", "CONNECT", "", "create"])
def test_other_operations_are_400_b24_b25(path: str, operation: str) -> None:
    body = review(operation=operation, object=pod("web-spec"), oldObject=pod("web-spec"))
    assert answered(path, body)["response"]["status"]["message"] == f'unexpected operation "{operation}"'
    assert code(path, review(operation="DELETE", oldObject=pod())) == 400


def test_an_update_is_not_mutated_and_is_compared_b25() -> None:
    old = pod("web-spec", "old")
    changed = review(operation="UPDATE", object=pod("other"), oldObject=old)
    known = cluster()
    assert answered("mutate", changed, known)["response"] == {"uid": "u-1", "allowed": True}
    assert answered("validate", changed, known)["response"]["status"]["code"] == 403
    assert code("validate", review(operation="UPDATE", object=old, oldObject=old)) == 200
    assert code("validate", changed, Policy(codes="seed")) == 400
    assert not known.was_asked


@each_case("old", [None, [], "x", {"spec": []}])
def test_an_update_needs_the_old_pod_b25(old: Any) -> None:
    body = review(operation="UPDATE", object=pod(), oldObject=old)
    assert code("validate", body) == 400
    assert code("mutate", body) == 200


def test_who_asks_and_what_the_pod_says_do_not_count_b26() -> None:
    known = cluster()
    document = pod("web-spec")
    document["metadata"]["namespace"] = "elsewhere"
    body = review(object=document, dryRun=True, userInfo=None)
    assert answered("validate", body, known)["response"]["allowed"]
    assert [(each.namespace, each.user.name) for each in known.reviewed] == [
        ("shop", "system:serviceaccount:shop:robot")
    ]


def test_who_asks_is_checked_if_that_is_wanted_b45() -> None:
    known = cluster()
    known.refusals["alice"] = "no"
    body = review(object=pod("web-spec"))
    assert answered("validate", body, known)["response"]["allowed"]
    answer = answered("validate", body, known, Policy(check_requesting_user=True))["response"]
    assert 'user "alice"' in answer["status"]["message"]


@each_case(
    "wrong",
    [{"uid": 5}, {"operation": []}, {"namespace": {}}, {"kind": "Pod"}, {"kind": {"kind": 5}}, {"userInfo": []},
     {"userInfo": {"username": 5}}, {"userInfo": {"groups": "x"}}, {"userInfo": {"groups": [5]}}, {"userInfo": {"extra": {"a": "b"}}}],
)  # fmt: skip
def test_fields_of_another_type_are_400(wrong: dict[str, Any]) -> None:
    answer = answered("validate", review(object=pod(), **wrong))["response"]
    assert (answer["uid"], answer["status"]["code"]) == ("" if "uid" in wrong else "u-1", 400)
    assert f"request.{next(iter(wrong))}" in answer["status"]["message"]


def test_a_mutated_pod_gets_its_hostname_from_whoever_is_given() -> None:
    read, denial = read_review(review(object=pod("web-spec")))
    assert denial is None
    known = cluster()
    steps = mutation(read.request, Policy(random_hostname=True), lambda: "mine")
    decision = settled(steps, known.lookup, known.review)
    assert decision.patch[-1]["value"] == "mine"


def test_what_cannot_be_written_is_not_in_an_answer() -> None:
    """Halves of characters; in names, in a uid, in what an authoriser says."""
    document = pod("web-spec")
    document["metadata"]["name"] = "\udfff"
    body = review(uid="\ud800", object=document).replace(b"alice", b"\\ud800")
    known = cluster()
    known.refusals["web-spec"] = "\ud800 and \udfff"
    answer = answered("validate", body, known)["response"]
    assert answer["uid"] == "\ufffd"
    assert "U+D800 and U+DFFF" in answer["status"]["message"]


def test_pods_are_not_printed_b83() -> None:
    read = read_review(review(object=pod("n", SENTINEL), oldObject=pod("n", SENTINEL)))
    assert SENTINEL not in repr(read)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_body_gets_an_answer(body: bytes) -> None:
    assert read_review(body)[1]


SCRAP = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["uid", "kind", "operation", "object", "oldObject", "spec", "containers", "securityContext",
                         "windowsOptions", "gmsaCredentialSpecName", "gmsaCredentialSpec", "userInfo", "metadata"]),
        inner, max_size=5),
    max_leaves=30,
)  # fmt: skip


@given(SCRAP, st.sampled_from(["CREATE", "UPDATE"]), st.sampled_from(["mutate", "validate"]))
def test_any_pod_gets_a_decision(scrap: Any, operation: str, path: str) -> None:
    for mode in ("fields", "alpha"):
        policy = Policy(mode=mode)
        answer = answered(path, review(operation=operation, object=scrap, oldObject=scrap), policy=policy)
        assert answer["response"]["allowed"] in (True, False)
    answered(path, json.dumps({"request": scrap}).encode())
