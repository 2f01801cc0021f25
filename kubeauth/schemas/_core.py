"""Objects of the Kubernetes API: the fields that kubeauth reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from kubeauth._parsing.models import PartialModel
from kubeauth._parsing.types import (
    FailFastItems,
    SecretBase64,
    SecretText,
    StringMap,
    Strings,
    Time,
    mapping_to,
)
from kubeauth._secret import FrozenDict, Secret


class ObjectMeta(PartialModel):
    """`metadata` of an object."""

    name: str = ""
    generate_name: str = ""
    """Prefix of the name that the API server generates if `name` is empty."""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: StringMap = Field(default_factory=FrozenDict[str, str])
    annotations: StringMap = Field(default_factory=FrozenDict[str, str], repr=False)
    deletion_timestamp: Time = None
    """When the object is deleted, if it is being deleted."""


class _Object(PartialModel):
    # What kind of object it is was decided by the path that it was read from.
    api_version: str = "v1"
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)


class PartialObjectMetadata(_Object):
    """Any object, of which only the metadata is read."""

    api_version: str = "meta.k8s.io/v1"
    kind: str = "PartialObjectMetadata"


class WindowsSecurityContextOptions(PartialModel):
    """`securityContext.windowsOptions` of a pod or container."""

    gmsa_credential_spec_name: str | None = None
    """Name of the GMSACredentialSpec."""
    gmsa_credential_spec: str | None = Field(default=None, repr=False)
    """The credential spec itself, as JSON."""


class SecurityContext(PartialModel):
    """`securityContext` of a pod or container."""

    windows_options: WindowsSecurityContextOptions | None = None


class Container(PartialModel):
    """A container, init container or ephemeral container."""

    name: str = ""
    security_context: SecurityContext = Field(default_factory=SecurityContext)


class PodOS(PartialModel):
    """`spec.os` of a pod."""

    name: str = ""
    """`linux` or `windows`."""


class PodSpec(PartialModel):
    """`spec` of a pod."""

    service_account_name: str = ""
    service_account: str = ""
    """The deprecated name of `service_account_name`."""
    hostname: str = ""
    os: PodOS = Field(default_factory=PodOS)
    security_context: SecurityContext = Field(default_factory=SecurityContext)
    containers: FailFastItems[Container] = ()
    init_containers: FailFastItems[Container] = ()
    ephemeral_containers: FailFastItems[Container] = ()


class Pod(_Object):
    """A pod."""

    kind: str = "Pod"
    spec: PodSpec = Field(default_factory=PodSpec)


class SecretObject(_Object):
    """A Secret.

    Not to be confused with `kubeauth.Secret`, a string or bytes that are not printed.
    """

    kind: str = "Secret"
    type: str = ""
    data: Annotated[Mapping[str, Secret[bytes]], mapping_to(SecretBase64, zero=Secret(b""))] = Field(
        default_factory=FrozenDict[str, Secret[bytes]]
    )
    string_data: Annotated[Mapping[str, Secret[str]], mapping_to(SecretText, zero=Secret(""))] = Field(
        default_factory=FrozenDict[str, Secret[str]]
    )
    """Values that are not base64-encoded. They replace those in `data`; the API server never returns them."""


class ConfigMap(_Object):
    """A ConfigMap."""

    kind: str = "ConfigMap"
    data: StringMap = Field(default_factory=FrozenDict[str, str], repr=False)


class BoundObjectReference(PartialModel):
    """The object that a token is bound to: the token is invalid when it is deleted."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(PartialModel):
    """What kind of token is requested."""

    audiences: Strings = ()
    expiration_seconds: int | None = None
    bound_object_ref: BoundObjectReference | None = None


class TokenRequestStatus(PartialModel):
    """The token."""

    token: SecretText = Field(default_factory=lambda: Secret(""))
    expiration_timestamp: Time = None


class TokenRequest(_Object):
    """A request for a token of a service account, and the response."""

    api_version: str = "authentication.k8s.io/v1"
    kind: str = "TokenRequest"
    spec: TokenRequestSpec = Field(default_factory=TokenRequestSpec)
    status: TokenRequestStatus = Field(default_factory=TokenRequestStatus)


UserExtra = Annotated[Mapping[str, tuple[str, ...]], mapping_to(Strings, zero=())]
"""More about a user: lists of strings by key."""


class ResourceAttributes(PartialModel):
    """An action on a resource."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class SubjectAccessReviewSpec(PartialModel):
    """The user, and the action that the user wants to perform."""

    resource_attributes: ResourceAttributes | None = None
    user: str = ""
    groups: Strings = ()
    uid: str = ""
    extra: UserExtra = Field(default_factory=FrozenDict[str, tuple[str, ...]])


class SubjectAccessReviewStatus(PartialModel):
    """Whether the user may do it."""

    allowed: bool = False
    denied: bool = False
    """Whether an authorizer has denied it, so that no other may allow it."""
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(_Object):
    """Whether a user may perform an action. A LocalSubjectAccessReview has the same fields."""

    api_version: str = "authorization.k8s.io/v1"
    kind: str = "SubjectAccessReview"
    spec: SubjectAccessReviewSpec = Field(default_factory=SubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus | None = None


class StatusDetails(PartialModel):
    """What a Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""


class Status(PartialModel):
    """The response of an API server to a request that failed."""

    api_version: str = "v1"
    kind: str = "Status"
    message: str = ""
    reason: str = ""
    """In one word, such as `NotFound`."""
    code: int = 0
    details: StatusDetails = Field(default_factory=StatusDetails)
