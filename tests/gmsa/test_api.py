"""What an API server is asked about credential specs, and what its answers mean."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kubeauth.gmsa import Decision, Review, Unavailable, User, Verdict
from kubeauth.gmsa._api import review_document, review_path, review_verdict, spec_answer, spec_path
from kubeauth.gmsa._authorize import creation
from kubeauth.gmsa._decision import Policy
from kubeauth.gmsa._driver import asettled
from kubeauth.gmsa._places import Pod, pod_of
from tests.gmsa.pods import CONTENTS, cluster, pod
from tests.support.cases import each_case

NOT_FOUND = {
    "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
    "message": 'gmsacredentialspecs.windows.k8s.io "n" not found',
    "details": {"name": "n", "group": "windows.k8s.io", "kind": "gmsacredentialspecs"},
}  # fmt: skip


def test_where_a_spec_is_b53() -> None:
    assert spec_path("web-spec") == "/apis/windows.k8s.io/v1/gmsacredentialspecs/web-spec"
    assert spec_path("a/b?c") == "/apis/windows.k8s.io/v1/gmsacredentialspecs/a%2Fb%3Fc"


def test_a_spec_that_does_not_exist_is_known_by_its_status_b54_b55() -> None:
    assert spec_answer("n", 404, json.dumps(NOT_FOUND).encode()) is None
    # Not by how a text ends.
    other = spec_answer("n", 500, json.dumps({**NOT_FOUND, "code": 500}).encode())
    assert other == Unavailable(f"the API server answered with 500: {NOT_FOUND['message']}")


@each_case(
    "body", [b"404 page not found\n", b"", b"[]", b"not found", json.dumps({**NOT_FOUND, "details": {}}).encode(),
             json.dumps({**NOT_FOUND, "details": {"name": 5}}).encode(), json.dumps({**NOT_FOUND, "details": []}).encode(),
             json.dumps({**NOT_FOUND, "reason": "Other"}).encode()],
)  # fmt: skip
def test_a_resource_that_is_not_installed_is_another_matter_b55(body: bytes) -> None:
    answer = spec_answer("n", 404, body)
    assert isinstance(answer, Unavailable)
    assert "is its custom resource definition installed?" in answer.reason


@each_case(
    ("status", "body", "reason"),
    [
        (500, b"", "the API server answered with 500"),
        (
            403,
            b'{"message":"gmsacredentialspecs is forbidden"}',
            "the API server answered with 403: gmsacredentialspecs is forbidden",
        ),
        (503, b'{"message":5}', "the API server answered with 503"),
        (302, b"<html>", "the API server answered with 302"),
        (200, b"<html>", "the API server's answer is no JSON object"),
        (200, b"[]", "the API server's answer is no JSON object"),
    ],
)
def test_what_else_goes_wrong_has_its_cause_b54(status: int, body: bytes, reason: str) -> None:
    assert spec_answer("n", status, body) == Unavailable(reason)


def test_a_spec_is_what_the_api_server_has() -> None:
    assert spec_answer("n", 200, b'{"credspec":{"a":"b"}}') == {"credspec": {"a": "b"}}


def test_a_review_is_local_and_exact_b58_b60() -> None:
    known = cluster()
    assert known.create(pod("web-spec")).allowed
    (review,) = known.reviewed
    assert review_path(review) == "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews"
    assert review_document(review) == {
        "kind": "LocalSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"namespace": "shop"},
        "spec": {
            "resourceAttributes": {
                "namespace": "shop", "verb": "use", "group": "windows.k8s.io", "version": "v1",
                "resource": "gmsacredentialspecs", "name": "web-spec",
            },
            "user": "system:serviceaccount:shop:robot",
            # And not system:authenticated: what is granted to that group does not count.
            "groups": ["system:serviceaccounts", "system:serviceaccounts:shop"],
        },
    }  # fmt: skip


def test_a_requesting_user_is_asked_about_with_all_they_have_b45() -> None:
    user = User("alice", ("devs",), "uid-1", (("scopes", ("a", "b")),))
    spec = review_document(Review(user, "shop", "n"))["spec"]
    assert (spec["user"], spec["groups"], spec["uid"], spec["extra"]) == (
        "alice",
        ["devs"],
        "uid-1",
        {"scopes": ["a", "b"]},
    )


@each_case(
    ("status", "answer", "verdict"),
    [
        (
            201,
            {"status": {"allowed": True, "reason": "RBAC: allowed by x"}},
            Verdict(True, "RBAC: allowed by x"),
        ),
        (200, {"status": {"allowed": True}}, Verdict(True)),
        (201, {"status": {"allowed": True, "denied": True, "reason": "no"}}, Verdict(False, "no")),
        (
            201,
            {"status": {"allowed": False, "reason": 5}},
            Verdict(False, "the API server's answer is no review"),
        ),
        (201, {"status": {"allowed": "true"}}, Verdict(False, "the API server's answer is no review")),
        (201, {"status": {"allowed": 1}}, Verdict(False, "the API server's answer is no review")),
        (201, {"status": {}}, Verdict(False)),
        (201, {"status": None}, Verdict(False, "the API server's answer is no review")),
        (201, {}, Verdict(False, "the API server's answer is no review")),
        (201, [], Verdict(False, "the API server's answer is no review")),
        (500, {"message": "etcd is away"}, Verdict(False, "the API server answered with 500: etcd is away")),
        (403, {"status": {"allowed": True}}, Verdict(False, "the API server answered with 403")),
    ],
)
def test_what_a_review_says_b59(status: int, answer: Any, verdict: Verdict) -> None:
    assert review_verdict(status, json.dumps(answer).encode()) == verdict


def test_a_review_that_failed_is_a_refusal_b59() -> None:
    known = cluster()
    known.refusals["web-spec"] = review_verdict(500, b"").reason
    decision = known.create(pod("web-spec"))
    assert (decision.code, "names: the API server answered with 500. Bind" in decision.message) == (403, True)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_event_loops_take_the_same_steps(backend: str) -> None:
    known = cluster()

    async def lookup(name: str) -> Any:
        await anyio.lowlevel.checkpoint()
        return known.lookup(name)

    async def review(review: Review) -> Verdict | bool:
        await anyio.lowlevel.checkpoint()
        return known.review(review).allowed

    async def decided(document: dict[str, Any]) -> Decision:
        read = pod_of(document, Policy())
        assert isinstance(read, Pod)
        return await asettled(creation(read, "shop", None, Policy()), lookup, review)

    assert anyio.run(decided, pod("web-spec", CONTENTS), backend=backend).allowed
    assert (known.fetched, len(known.reviewed)) == (["web-spec"], 1)
    assert anyio.run(decided, pod("web-spec", "{}"), backend=backend).code == 422
    known.refusals["web-spec"] = ""
    assert anyio.run(decided, pod("web-spec", CONTENTS), backend=backend).code == 403
