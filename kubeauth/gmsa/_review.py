"""AdmissionReview, v1 and v1beta1: what a webhook is asked, and what it answers (B20-B26). Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._parsing.go import go_json
from kubeauth._parsing.models import Invalid, validate_document
from kubeauth.gmsa._authorize import creation, update
from kubeauth.gmsa._decision import ALLOWED, Decision, Policy, denied
from kubeauth.gmsa._expand import expansion, new_hostname
from kubeauth.gmsa._places import Pod, read_pod
from kubeauth.gmsa._registration import V1, VERSIONS
from kubeauth.gmsa._steps import Steps, User
from kubeauth.gmsa._words import quoted
from kubeauth.schemas import AdmissionRequest, AdmissionReview

KIND = "AdmissionReview"

MAX_REVIEW = 4 * 2**20
"""Bytes (B19). The API server itself takes 3 MiB of a pod."""


def read_review(body: bytes) -> tuple[AdmissionReview, Decision | None]:
    """Return the review, as far as it can be read, and the denial if it is invalid.

    The namespace is that of the request, not of the pod (B26).
    """
    document = _mapping(body)
    if isinstance(document, str):
        return _invalid(document)
    version = document.get("apiVersion")
    if version not in VERSIONS:
        version = V1  # it is not checked, and neither is the kind (B20)
    review = validate_document(
        AdmissionReview, {"apiVersion": version, "kind": KIND, "request": document.get("request")}
    )
    if isinstance(review, Invalid):
        problem = review.problems[0]
        return _invalid(f"{problem.field}: {problem.message}", version, document["request"])
    if "request" not in review.model_fields_set:
        return _invalid("it has no request", version)
    kind = review.request.kind.kind
    return review, None if kind == "Pod" else denied(400, f"expected Pod, got {quoted(kind)}")


def _invalid(reason: str, version: str = V1, request: Json = None) -> tuple[AdmissionReview, Decision]:
    uid = request.get("uid") if isinstance(request, dict) else None
    known = AdmissionRequest(uid=uid if isinstance(uid, str) else "")
    review = AdmissionReview(api_version=version, request=known)
    return review, denied(400, f"this is not an {KIND}: {reason}")


def mutation(
    request: AdmissionRequest, policy: Policy, hostname: Callable[[], str] = new_hostname
) -> Steps[Decision]:
    """What the expander answers. No I/O here."""
    pod = read_pod(request.object, policy)
    if isinstance(pod, Decision):
        return pod
    if request.operation == "CREATE":
        return (yield from expansion(pod, policy, hostname))
    return ALLOWED if request.operation == "UPDATE" else _unexpected(request)


def validation(request: AdmissionRequest, policy: Policy) -> Steps[Decision]:
    """What the authorizer answers. No I/O here."""
    pod = read_pod(request.object, policy)
    if isinstance(pod, Decision):
        return pod
    if request.operation == "CREATE":
        info = request.user_info
        user = User(info.username, info.groups, info.uid, tuple(info.extra.items()))
        return (yield from creation(pod, request.namespace, user, policy))
    if request.operation != "UPDATE":
        return _unexpected(request)
    old = read_pod(request.old_object, policy)
    return update(pod, old, policy) if isinstance(old, Pod) else old


def write_review(review: AdmissionReview, decision: Decision) -> bytes:
    """Return the response, in the version of the review (B21), with the fields in the order of Go (B22)."""
    response: dict[str, Json] = {"uid": review.request.uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = {"metadata": {}, "message": decision.message, "code": decision.code}
    elif decision.patch:
        patch = go_json([{key: each[key] for key in ("op", "path", "value")} for each in decision.patch])
        response["patch"] = b64encode(patch.encode()).decode()
        response["patchType"] = "JSONPatch"
    return go_json({"kind": KIND, "apiVersion": review.api_version, "response": response}).encode()


def _unexpected(request: AdmissionRequest) -> Decision:
    return denied(400, f"unexpected operation {quoted(request.operation)}")


def _mapping(body: bytes) -> dict[str, Json] | str:
    if len(body) > MAX_REVIEW:
        return f"it is larger than {MAX_REVIEW // 2**20} MiB"
    try:
        document = read_json(body, finite=True)
    except DocumentError as error:
        return str(error)
    return document if isinstance(document, dict) else "it must be a mapping"
