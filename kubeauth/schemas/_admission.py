"""AdmissionReview, v1 and v1beta1: the request that an admission webhook receives."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kubeauth._parsing.models import PartialModel
from kubeauth._parsing.types import Strings
from kubeauth._secret import FrozenDict
from kubeauth.schemas._core import UserExtra


class UserInfo(PartialModel):
    """The user who sent a request to the API server."""

    username: str = ""
    uid: str = ""
    groups: Strings = ()
    extra: UserExtra = Field(default_factory=FrozenDict[str, tuple[str, ...]])


class GroupVersionKind(PartialModel):
    """The kind of an object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(PartialModel):
    """The request that is to be admitted."""

    uid: str = ""
    kind: GroupVersionKind = Field(default_factory=GroupVersionKind)
    operation: str = ""
    """`CREATE`, `UPDATE`, `DELETE` or `CONNECT`."""
    namespace: str = ""
    """Namespace of the request. The object itself may not have one yet."""
    user_info: UserInfo = Field(default_factory=UserInfo)
    object: Any = Field(default=None, repr=False)
    """The new object, as a document: a webhook patches it, and must not lose fields that it does not know."""
    old_object: Any = Field(default=None, repr=False)


class AdmissionReview(PartialModel):
    """What the API server sends to an admission webhook."""

    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"
    request: AdmissionRequest = Field(default_factory=AdmissionRequest)
