"""The kubelet's image credential providers (v1alpha1, v1beta1, v1): configuration, request and response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from kubeauth._parsing.models import Model, one_of
from kubeauth._parsing.types import AllStrings, Duration, Items, SecretText, StringMap, mapping_to
from kubeauth._secret import FrozenDict, Secret

CONFIG_GROUP = "kubelet.config.k8s.io"
CONFIG_KIND = "CredentialProviderConfig"
CONFIG_VERSIONS = tuple(f"{CONFIG_GROUP}/{version}" for version in ("v1", "v1alpha1", "v1beta1"))
GROUP = "credentialprovider.kubelet.k8s.io"
VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1", "v1alpha1", "v1beta1"))
REQUEST_KIND = "CredentialProviderRequest"
RESPONSE_KIND = "CredentialProviderResponse"


class TokenAttributes(Model):
    """How a provider receives a token of the pod's service account."""

    audience: str = Field(default="", alias="serviceAccountTokenAudience")
    """Audience of the token."""
    cache_type: str = ""
    """`ServiceAccount`: pods of a service account share credentials. `Token`: pods with the same token."""
    require_service_account: bool | None = None
    """Whether the provider is only run for pods with a service account. Required, so None is invalid."""
    required_annotations: AllStrings = Field(default=(), alias="requiredServiceAccountAnnotationKeys")
    """Annotations that the service account must have. The provider receives them."""
    optional_annotations: AllStrings = Field(default=(), alias="optionalServiceAccountAnnotationKeys")
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
    """Seconds that credentials are cached, if the provider does not return a duration."""
    api_version: str = ""
    """Version of the request and response: `credentialprovider.kubelet.k8s.io/v1`."""
    args: AllStrings = Field(default=(), repr=False)
    env: Items[ProviderEnvVar] = Field(default=(), repr=False)
    token_attributes: TokenAttributes | None = None


class CredentialProviderConfig(Model):
    """The configuration that the kubelet reads from `--image-credential-provider-config`."""

    api_version: Annotated[str, AfterValidator(one_of("apiVersion", CONFIG_VERSIONS))] = CONFIG_VERSIONS[0]
    kind: Annotated[str, AfterValidator(one_of("kind", (CONFIG_KIND,)))] = CONFIG_KIND
    providers: Items[CredentialProvider] = ()


class CredentialProviderRequest(Model):
    """What a provider reads from stdin."""

    api_version: Annotated[str, AfterValidator(one_of("apiVersion", VERSIONS))] = VERSIONS[0]
    kind: Annotated[str, AfterValidator(one_of("kind", (REQUEST_KIND,)))] = REQUEST_KIND
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

    api_version: Annotated[str, AfterValidator(one_of("apiVersion", VERSIONS))] = VERSIONS[0]
    kind: Annotated[str, AfterValidator(one_of("kind", (RESPONSE_KIND,)))] = RESPONSE_KIND
    cache_key_type: str = ""
    """What the credentials are cached for: `Image`, `Registry` or `Global`."""
    cache_duration: Duration = None
    """Seconds that they are cached; 0: not cached; None: as long as the configuration says."""
    auth: Annotated[Mapping[str, AuthConfig], mapping_to(AuthConfig)] = Field(
        default_factory=FrozenDict[str, AuthConfig], repr=False
    )
    """Credentials by image pattern: `gcr.io`, `*.azurecr.io/path`."""
