"""What an API server is asked about credential specs, and what its answers mean (B53-B60). Pure."""

from __future__ import annotations

from urllib.parse import quote

from kubeauth._parsing import DocumentError, Findings, Json, read_json
from kubeauth.gmsa._steps import Answer, Review, Unavailable, Verdict

GROUP = "windows.k8s.io"
VERSION = "v1"
RESOURCE = "gmsacredentialspecs"
VERB = "use"
_REVIEWS = "/apis/authorization.k8s.io/v1/namespaces/{}/localsubjectaccessreviews"


def spec_path(name: str) -> str:
    """Where a credential spec is (B53)."""
    return f"/apis/{GROUP}/{VERSION}/{RESOURCE}/{quote(name, safe='')}"


def spec_answer(name: str, status: int, body: bytes) -> Answer:
    """What came of the look-up of a credential spec (B54, B55)."""
    document = _mapping(body)
    if 200 <= status <= 299:
        return Unavailable("the API server's answer is no JSON object") if document is None else document
    if status != 404:
        return Unavailable(_refusal(status, document))
    # One that does not exist is called by its name there. A resource that is not installed is not.
    found = Findings().root(document or {})
    details = found.within("details")
    if found.string("reason") == "NotFound" and details.string("name") == name:
        return None
    return Unavailable(
        f"the API server has no {RESOURCE}.{GROUP}: is its custom resource definition installed?"
    )


def review_path(review: Review) -> str:
    return _REVIEWS.format(quote(review.namespace, safe=""))


def review_document(review: Review) -> dict[str, Json]:
    """A LocalSubjectAccessReview: so role bindings of the namespace count (B58, B60)."""
    user = review.user
    spec: dict[str, Json] = {
        "resourceAttributes": {
            "namespace": review.namespace,
            "verb": VERB,
            "group": GROUP,
            "version": VERSION,
            "resource": RESOURCE,
            "name": review.name,
        },
        "user": user.name,
        "groups": list(user.groups),
    }
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    return {
        "kind": "LocalSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"namespace": review.namespace},
        "spec": spec,
    }


def review_verdict(status: int, body: bytes) -> Verdict:
    """Allowed, or why not. Who could not be asked has not said yes (B59)."""
    document = _mapping(body)
    if not 200 <= status <= 299:
        return Verdict(False, _refusal(status, document))
    answer = (document or {}).get("status")
    if not isinstance(answer, dict):
        return Verdict(False, "the API server's answer is no review")
    reason = answer.get("reason")
    allowed = answer.get("allowed") is True and not answer.get("denied")
    return Verdict(allowed, reason if isinstance(reason, str) else "")


def _refusal(status: int, document: dict[str, Json] | None) -> str:
    said = (document or {}).get("message")
    return f"the API server answered with {status}" + (f": {said}" if isinstance(said, str) and said else "")


def _mapping(body: bytes) -> dict[str, Json] | None:
    try:
        found = read_json(body)
    except DocumentError:
        return None
    return found if isinstance(found, dict) else None
