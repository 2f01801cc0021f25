"""The kubelet's image credential providers (v1alpha1, v1beta1, v1): configuration, request and response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from kubeauth._parsing.models import MAX_PROBLEMS, Model, OneOf, Origin, iter_details, to_camel_case
from kubeauth._parsing.types import AllStrings, Duration, Items, SecretText, StringMap, mapping_to
from kubeauth._secret import FrozenDict, Secret

CONFIG_GROUP = "kubelet.config.k8s.io"
CONFIG_KIND = "CredentialProviderConfig"
CONFIG_VERSIONS = tuple(f"{CONFIG_GROUP}/{version}" for version in ("v1", "v1alpha1", "v1beta1"))
GROUP = "credentialprovider.kubelet.k8s.io"
VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1", "v1alpha1", "v1beta1"))
REQUEST_KIND = "CredentialProviderRequest"
RESPONSE_KIND = "CredentialProviderResponse"


# Not as Field(alias=...), which type checkers would take for the name of the constructor's parameter.
_FIELD_NAMES = {
    "audience": "serviceAccountTokenAudience",
    "required_annotations": "requiredServiceAccountAnnotationKeys",
    "optional_annotations": "optionalServiceAccountAnnotationKeys",
}


class TokenAttributes(Model):
    """How a provider receives a token of the pod's service account."""

    model_config = ConfigDict(alias_generator=lambda name: _FIELD_NAMES.get(name) or to_camel_case(name))

    audience: str = ""
    """Audience of the token."""
    cache_type: str = ""
    """`ServiceAccount`: pods of a service account share credentials. `Token`: pods with the same token."""
    require_service_account: bool | None = None
    """Whether the provider is only run for pods with a service account. Required by the kubelet."""
    required_annotations: AllStrings = ()
    """Annotations that the service account must have. The provider receives them."""
    optional_annotations: AllStrings = ()
    """Annotations that the provider receives if the service account has them."""


class ProviderEnvVar(Model):
    """An environment variable of a provider."""

    name: str = ""
    value: SecretText = Field(default_factory=lambda: Secret(""))


class CredentialProvider(Model):
    """A provider: a program that returns credentials for images."""

    name: str = ""
    """Name of the program."""
    match_images: AllStrings = ()
    """The images that the provider is run for, as patterns: `*.dkr.ecr.*.amazonaws.com`."""
    default_cache_duration: Duration = None
    """How long credentials are cached, if the provider does not return a duration (in Python: seconds)."""
    api_version: str = ""
    """Version of the request and response: `credentialprovider.kubelet.k8s.io/v1`."""
    args: AllStrings = Field(default=(), repr=False)
    env: Items[ProviderEnvVar] = Field(default=(), repr=False)
    token_attributes: TokenAttributes | None = None
    """Only in `kubelet.config.k8s.io/v1`."""

    _path: str = PrivateAttr("")

    @property
    def path(self) -> str:
        """Path of the file that the provider came from; empty if it came from no file."""
        return self._path


@dataclass(frozen=True, slots=True)
class PatternWarning:
    """A pattern that the kubelet accepts, but that does not match what it seems to."""

    provider: str
    pattern: str
    message: str
    is_useless: bool
    """Whether it can never match."""
    path: str = ""

    def __str__(self) -> str:
        never = "can never match an image" if self.is_useless else "may surprise"
        return f"provider {self.provider!r}: matchImages {self.pattern!r} {never}: {self.message}"


def _reject_token_attributes(
    value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> tuple[CredentialProvider, ...]:
    """Older versions do not have the field (1.4)."""
    is_list = isinstance(value, list | tuple)
    if not is_list or info.data.get("api_version", CONFIG_VERSIONS[0]) == CONFIG_VERSIONS[0]:
        return validate(value)  # type: ignore[no-any-return]
    # The kubelet rejects even null, which model_dump() writes.
    null_allowed = not isinstance(info.context, Origin)
    items: list[Any] = []
    failures: list[InitErrorDetails] = []
    for index, item in enumerate(value):
        is_set = getattr(item, "token_attributes", None) is not None
        for alias in ("tokenAttributes", "token_attributes"):  # the latter only from constructors
            if isinstance(item, dict) and alias in item:
                is_set = item[alias] is not None or not null_allowed
                item = {name: each for name, each in item.items() if name != alias}
        if is_set and len(failures) < MAX_PROBLEMS:
            failures.append(
                InitErrorDetails(type="extra_forbidden", loc=(index, "tokenAttributes"), input=None)
            )
        items.append(item)
    try:
        providers: tuple[CredentialProvider, ...] = validate(items)
    except ValidationError as error:
        failures = [*iter_details(error), *failures]
    else:
        if not failures:
            return providers
    raise ValidationError.from_exception_data("providers", failures, hide_input=True)


class CredentialProviderConfig(Model):
    """The configuration that the kubelet reads from `--image-credential-provider-config`."""

    api_version: Annotated[str, OneOf(*CONFIG_VERSIONS)] = CONFIG_VERSIONS[0]
    kind: Annotated[str, OneOf(CONFIG_KIND)] = CONFIG_KIND
    providers: Annotated[Items[CredentialProvider], WrapValidator(_reject_token_attributes)] = ()
    """In the order in which they are run."""

    _paths: tuple[str, ...] = PrivateAttr(())
    _hash: str = PrivateAttr("")
    _warnings: tuple[PatternWarning, ...] = PrivateAttr(())

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the files that it was loaded from, in the order in which they were read."""
        return self._paths

    @property
    def hash(self) -> str:
        """Hash of these files, as in the kubelet's metric."""
        return self._hash

    @property
    def warnings(self) -> tuple[PatternWarning, ...]:
        """Patterns that can never match, or do not match what they seem to."""
        return self._warnings

    def with_files(
        self, paths: tuple[str, ...], *, hash: str, warnings: tuple[PatternWarning, ...] = ()
    ) -> Self:
        """Return a copy that was loaded from these files."""
        copy = self.model_copy()
        copy._paths, copy._hash, copy._warnings = paths, hash, warnings
        return copy

    @model_validator(mode="after")
    def _set_path(self, info: ValidationInfo) -> Self:
        if isinstance(path := info.context, Origin):
            for provider in self.providers:
                provider._path = path
        return self


class CredentialProviderRequest(Model):
    """What a provider reads from stdin."""

    api_version: Annotated[str, OneOf(*VERSIONS)] = VERSIONS[0]
    kind: Annotated[str, OneOf(REQUEST_KIND)] = REQUEST_KIND
    image: str = ""
    """The image, without tag and digest: `docker.io/library/nginx`."""
    service_account_token: SecretText = Field(default_factory=lambda: Secret(""))
    service_account_annotations: StringMap = Field(default_factory=FrozenDict[str, str])


class AuthConfig(Model):
    """User name and password for a registry."""

    username: str = Field(default="", repr=False)
    password: SecretText = Field(default_factory=lambda: Secret(""))


class CredentialProviderResponse(Model):
    """What a provider prints."""

    api_version: Annotated[str, OneOf(*VERSIONS)] = VERSIONS[0]
    kind: Annotated[str, OneOf(RESPONSE_KIND)] = RESPONSE_KIND
    cache_key_type: str = ""
    """What the credentials are cached for: `Image`, `Registry` or `Global`."""
    cache_duration: Duration = None
    """How long they are cached (in Python: seconds). 0: not at all; not set: as the configuration says."""
    auth: Annotated[Mapping[str, AuthConfig], mapping_to(AuthConfig)] = Field(
        default_factory=FrozenDict[str, AuthConfig], repr=False
    )
    """Credentials by image pattern: `gcr.io`, `*.azurecr.io/path`."""
