"""AdmissionReview, v1 and v1beta1: what a webhook is asked, and what it answers (B20-B26). Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from kubeauth._parsing import DocumentError, Fields, Findings, Json, read_json
from kubeauth._parsing.go import go_json
from kubeauth.gmsa._authorize import creation, update
from kubeauth.gmsa._decision import ALLOWED, Decision, Policy, denied
from kubeauth.gmsa._expand import expansion, new_hostname
from kubeauth.gmsa._places import Pod, read_pod
from kubeauth.gmsa._steps import Steps, User
from kubeauth.gmsa._words import quoted

KIND = "AdmissionReview"
V1 = "admission.k8s.io/v1"
VERSIONS = (V1, "admission.k8s.io/v1beta1")

MAX_REVIEW = 4 * 2**20
"""Bytes (B19). The API server itself takes 3 MiB of a pod."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a webhook is asked. Printing it hides the pods."""

    uid: str
    api_version: str
    """Of the review: the answer has the same (B21)."""
    operation: str
    namespace: str
    """That of the request: what the pod says does not count (B26)."""
    user: User
    pod: Json = field(repr=False)
    old_pod: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """A review that cannot be understood, as far as it was."""

    uid: str
    api_version: str
    decision: Decision


def read_review(body: bytes) -> Request | Refused:
    """What is asked in a review, or the denial that it is answered with."""
    document = _mapping(body)
    if isinstance(document, str):
        return Refused("", V1, denied(400, f"this is not an {KIND}: {document}"))
    version = document.get("apiVersion")
    if version not in VERSIONS:
        version = V1  # which nobody checks (B20)
    findings = Findings()
    fields = findings.root(document).within("request")
    request = Request(
        uid=fields.string("uid"),
        api_version=version,
        operation=fields.string("operation"),
        namespace=fields.string("namespace"),
        user=_user(fields.within("userInfo")),
        pod=fields.raw("object"),
        old_pod=fields.raw("oldObject"),
    )
    kind = fields.within("kind").string("kind")
    problem = next((f"{each.field}: {each.message}" for each in findings.schema_problems), "")
    if not fields.is_present:
        problem = problem or "it has no request"
    if problem:
        return Refused(request.uid, version, denied(400, f"this is not an {KIND}: {problem}"))
    if kind != "Pod":
        return Refused(request.uid, version, denied(400, f"expected Pod, got {quoted(kind)}"))
    return request


def mutation(request: Request, policy: Policy, hostname: Callable[[], str] = new_hostname) -> Steps[Decision]:
    """What the expander answers. No I/O here."""
    pod = read_pod(request.pod, policy)
    if isinstance(pod, Decision):
        return pod
    if request.operation == "CREATE":
        return (yield from expansion(pod, policy, hostname))
    return ALLOWED if request.operation == "UPDATE" else _unexpected(request)


def validation(request: Request, policy: Policy) -> Steps[Decision]:
    """What the authorizer answers. No I/O here."""
    pod = read_pod(request.pod, policy)
    if isinstance(pod, Decision):
        return pod
    if request.operation == "CREATE":
        return (yield from creation(pod, request.namespace, request.user, policy))
    if request.operation != "UPDATE":
        return _unexpected(request)
    old = read_pod(request.old_pod, policy)
    return update(pod, old, policy) if isinstance(old, Pod) else old


def write_review(to: Request | Refused, decision: Decision) -> bytes:
    """The answer, with the members and in the order that Go gives them (B22)."""
    response: dict[str, Json] = {"uid": to.uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = {"metadata": {}, "message": decision.message, "code": decision.code}
    elif decision.patch:
        patch = go_json([{key: each[key] for key in ("op", "path", "value")} for each in decision.patch])
        response["patch"] = b64encode(patch.encode()).decode()
        response["patchType"] = "JSONPatch"
    return go_json({"kind": KIND, "apiVersion": to.api_version, "response": response}).encode()


def _unexpected(request: Request) -> Decision:
    return denied(400, f"unexpected operation {quoted(request.operation)}")


def _user(fields: Fields) -> User:
    extra = fields.within("extra")
    return User(
        fields.string("username"),
        fields.strings("groups"),
        fields.string("uid"),
        tuple((key, extra.strings(key)) for key in extra.names()),
    )


def _mapping(body: bytes) -> dict[str, Json] | str:
    if len(body) > MAX_REVIEW:
        return f"it is larger than {MAX_REVIEW // 2**20} MiB"
    try:
        document = read_json(body, finite=True)
    except DocumentError as error:
        return str(error)
    return document if isinstance(document, dict) else "it must be a mapping"
