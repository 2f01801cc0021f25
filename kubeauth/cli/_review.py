"""Who the API server takes us for: what to ask it, and where it says so in its answer. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kubeauth._parsing import Json

_GROUP = "authentication.k8s.io"


class Review(NamedTuple):
    """A SelfSubjectReview, to be sent with POST."""

    path: str
    body: dict[str, Json]


REVIEWS = tuple(
    Review(
        f"/apis/{_GROUP}/{version}/selfsubjectreviews",
        {"apiVersion": f"{_GROUP}/{version}", "kind": "SelfSubjectReview"},
    )
    # As kubectl: from 1.28, 1.27 and 1.26 of Kubernetes on.
    for version in ("v1", "v1beta1", "v1alpha1")
)
"""In the order to ask them in, as long as the answer is 404: the newest that the server has is the one."""


def user_in(review: Json) -> dict[str, Json] | None:
    """`status.userInfo`; None if the answer is no review."""
    status = review.get("status") if isinstance(review, dict) else None
    user = status.get("userInfo") if isinstance(status, dict) else None
    return user if isinstance(user, dict) else None
