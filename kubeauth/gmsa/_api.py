"""What an API server is asked about credential specs, and what its answers mean (B53-B60). Pure."""

from __future__ import annotations

from urllib.parse import quote

from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._parsing.models import Invalid, validate_document
from kubeauth.gmsa._crd import GROUP, RESOURCE, VERSION
from kubeauth.gmsa._steps import Answer, Review, Unavailable, Verdict
from kubeauth.schemas import Status, SubjectAccessReview

VERB = "use"
_REVIEWS = "/apis/authorization.k8s.io/v1/namespaces/{}/localsubjectaccessreviews"


def spec_path(name: str) -> str:
    """Where a credential spec is (B53)."""
    return f"/apis/{GROUP}/{VERSION}/{RESOURCE}/{quote(name, safe='')}"


def spec_answer(name: str, status: int, body: bytes) -> Answer:
    """What came of the look-up of a credential spec (B54, B55)."""
    if 200 <= status <= 299:
        # Not a model: what is put into pods must not lose fields that no model has (B32).
        document = _read(body)
        if isinstance(document, dict):
            return document
        return Unavailable("the API server's answer is no JSON object")
    if status != 404:
        return Unavailable(_refusal(status, body))
    # One that does not exist is called by its name there. A resource that is not installed is not.
    found = _read_status(body)
    if found.reason == "NotFound" and found.details.name == name:
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
    if not 200 <= status <= 299:
        return Verdict(False, _refusal(status, body))
    review = validate_document(SubjectAccessReview, _read(body))
    if isinstance(review, Invalid) or review.status is None:
        return Verdict(False, "the API server's answer is no review")
    return Verdict(review.status.allowed and not review.status.denied, review.status.reason)


def _refusal(status: int, body: bytes) -> str:
    message = _read_status(body).message
    return f"the API server answered with {status}" + (f": {message}" if message else "")


def _read_status(body: bytes) -> Status:
    """Return the Status in a response, or an empty one if there is none."""
    status = validate_document(Status, _read(body))
    return Status() if isinstance(status, Invalid) else status


def _read(body: bytes) -> Json:
    try:
        return read_json(body)
    except DocumentError:
        return None
