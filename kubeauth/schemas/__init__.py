"""Models of the Kubernetes documents that kubeauth reads, for programs that read or write them too.

    from kubeauth.schemas import Cluster, Context, Kubeconfig, User

    config = Kubeconfig.model_validate(yaml.safe_load(text))
    print(config.contexts[config.current_context].namespace)
    print(yaml.safe_dump(config.to_document(reveal_secrets=True)))

They are pydantic models: see `Model` for what they have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeauth._parsing.models import Model as Model
    from kubeauth.schemas._admission import AdmissionRequest as AdmissionRequest
    from kubeauth.schemas._admission import AdmissionReview as AdmissionReview
    from kubeauth.schemas._admission import GroupVersionKind as GroupVersionKind
    from kubeauth.schemas._admission import UserInfo as UserInfo
    from kubeauth.schemas._core import BoundObjectReference as BoundObjectReference
    from kubeauth.schemas._core import ConfigMap as ConfigMap
    from kubeauth.schemas._core import Container as Container
    from kubeauth.schemas._core import ObjectMeta as ObjectMeta
    from kubeauth.schemas._core import PartialObjectMetadata as PartialObjectMetadata
    from kubeauth.schemas._core import Pod as Pod
    from kubeauth.schemas._core import PodOS as PodOS
    from kubeauth.schemas._core import PodSpec as PodSpec
    from kubeauth.schemas._core import ResourceAttributes as ResourceAttributes
    from kubeauth.schemas._core import SecretObject as SecretObject
    from kubeauth.schemas._core import SecurityContext as SecurityContext
    from kubeauth.schemas._core import Status as Status
    from kubeauth.schemas._core import StatusDetails as StatusDetails
    from kubeauth.schemas._core import SubjectAccessReview as SubjectAccessReview
    from kubeauth.schemas._core import SubjectAccessReviewSpec as SubjectAccessReviewSpec
    from kubeauth.schemas._core import SubjectAccessReviewStatus as SubjectAccessReviewStatus
    from kubeauth.schemas._core import TokenRequest as TokenRequest
    from kubeauth.schemas._core import TokenRequestSpec as TokenRequestSpec
    from kubeauth.schemas._core import TokenRequestStatus as TokenRequestStatus
    from kubeauth.schemas._core import WindowsSecurityContextOptions as WindowsSecurityContextOptions
    from kubeauth.schemas._credential_provider import AuthConfig as AuthConfig
    from kubeauth.schemas._credential_provider import CredentialProvider as CredentialProvider
    from kubeauth.schemas._credential_provider import CredentialProviderConfig as CredentialProviderConfig
    from kubeauth.schemas._credential_provider import CredentialProviderRequest as CredentialProviderRequest
    from kubeauth.schemas._credential_provider import CredentialProviderResponse as CredentialProviderResponse
    from kubeauth.schemas._credential_provider import ProviderEnvVar as ProviderEnvVar
    from kubeauth.schemas._credential_provider import TokenAttributes as TokenAttributes
    from kubeauth.schemas._docker_config import DockerAuth as DockerAuth
    from kubeauth.schemas._docker_config import DockerConfig as DockerConfig
    from kubeauth.schemas._exec_credential import ExecCluster as ExecCluster
    from kubeauth.schemas._exec_credential import ExecCredential as ExecCredential
    from kubeauth.schemas._exec_credential import ExecCredentialSpec as ExecCredentialSpec
    from kubeauth.schemas._exec_credential import ExecCredentialStatus as ExecCredentialStatus
    from kubeauth.schemas._gmsa import ActiveDirectoryConfig as ActiveDirectoryConfig
    from kubeauth.schemas._gmsa import CredentialSpec as CredentialSpec
    from kubeauth.schemas._gmsa import DomainJoinConfig as DomainJoinConfig
    from kubeauth.schemas._gmsa import GMSACredentialSpec as GMSACredentialSpec
    from kubeauth.schemas._gmsa import GroupManagedServiceAccount as GroupManagedServiceAccount
    from kubeauth.schemas._gmsa import HostAccountConfig as HostAccountConfig
    from kubeauth.schemas._kubeconfig import AuthProvider as AuthProvider
    from kubeauth.schemas._kubeconfig import Cluster as Cluster
    from kubeauth.schemas._kubeconfig import Context as Context
    from kubeauth.schemas._kubeconfig import ExecEntry as ExecEntry
    from kubeauth.schemas._kubeconfig import ExecEnvVar as ExecEnvVar
    from kubeauth.schemas._kubeconfig import Kubeconfig as Kubeconfig
    from kubeauth.schemas._kubeconfig import Preferences as Preferences
    from kubeauth.schemas._kubeconfig import User as User
    from kubeauth.schemas._kuberc import AliasOverride as AliasOverride
    from kubeauth.schemas._kuberc import AllowlistEntry as AllowlistEntry
    from kubeauth.schemas._kuberc import CommandDefaults as CommandDefaults
    from kubeauth.schemas._kuberc import CommandOptionDefault as CommandOptionDefault
    from kubeauth.schemas._kuberc import CommandOverride as CommandOverride
    from kubeauth.schemas._kuberc import Preference as Preference
    from kubeauth.schemas._oidc import OIDCProviderMetadata as OIDCProviderMetadata
    from kubeauth.schemas._oidc import TokenResponse as TokenResponse

# Public names, and the modules that define them: each is imported when it is first used.
_EXPORTS = {
    "ActiveDirectoryConfig": "kubeauth.schemas._gmsa",
    "AdmissionRequest": "kubeauth.schemas._admission",
    "AdmissionReview": "kubeauth.schemas._admission",
    "AliasOverride": "kubeauth.schemas._kuberc",
    "AllowlistEntry": "kubeauth.schemas._kuberc",
    "AuthConfig": "kubeauth.schemas._credential_provider",
    "AuthProvider": "kubeauth.schemas._kubeconfig",
    "BoundObjectReference": "kubeauth.schemas._core",
    "Cluster": "kubeauth.schemas._kubeconfig",
    "CommandDefaults": "kubeauth.schemas._kuberc",
    "CommandOptionDefault": "kubeauth.schemas._kuberc",
    "CommandOverride": "kubeauth.schemas._kuberc",
    "ConfigMap": "kubeauth.schemas._core",
    "Container": "kubeauth.schemas._core",
    "Context": "kubeauth.schemas._kubeconfig",
    "CredentialProvider": "kubeauth.schemas._credential_provider",
    "CredentialProviderConfig": "kubeauth.schemas._credential_provider",
    "CredentialProviderRequest": "kubeauth.schemas._credential_provider",
    "CredentialProviderResponse": "kubeauth.schemas._credential_provider",
    "CredentialSpec": "kubeauth.schemas._gmsa",
    "DockerAuth": "kubeauth.schemas._docker_config",
    "DockerConfig": "kubeauth.schemas._docker_config",
    "DomainJoinConfig": "kubeauth.schemas._gmsa",
    "ExecCluster": "kubeauth.schemas._exec_credential",
    "ExecCredential": "kubeauth.schemas._exec_credential",
    "ExecCredentialSpec": "kubeauth.schemas._exec_credential",
    "ExecCredentialStatus": "kubeauth.schemas._exec_credential",
    "ExecEntry": "kubeauth.schemas._kubeconfig",
    "ExecEnvVar": "kubeauth.schemas._kubeconfig",
    "GMSACredentialSpec": "kubeauth.schemas._gmsa",
    "GroupManagedServiceAccount": "kubeauth.schemas._gmsa",
    "GroupVersionKind": "kubeauth.schemas._admission",
    "HostAccountConfig": "kubeauth.schemas._gmsa",
    "Kubeconfig": "kubeauth.schemas._kubeconfig",
    "Model": "kubeauth._parsing.models",
    "OIDCProviderMetadata": "kubeauth.schemas._oidc",
    "ObjectMeta": "kubeauth.schemas._core",
    "PartialObjectMetadata": "kubeauth.schemas._core",
    "Pod": "kubeauth.schemas._core",
    "PodOS": "kubeauth.schemas._core",
    "PodSpec": "kubeauth.schemas._core",
    "Preference": "kubeauth.schemas._kuberc",
    "Preferences": "kubeauth.schemas._kubeconfig",
    "ProviderEnvVar": "kubeauth.schemas._credential_provider",
    "ResourceAttributes": "kubeauth.schemas._core",
    "SecretObject": "kubeauth.schemas._core",
    "SecurityContext": "kubeauth.schemas._core",
    "Status": "kubeauth.schemas._core",
    "StatusDetails": "kubeauth.schemas._core",
    "SubjectAccessReview": "kubeauth.schemas._core",
    "SubjectAccessReviewSpec": "kubeauth.schemas._core",
    "SubjectAccessReviewStatus": "kubeauth.schemas._core",
    "TokenAttributes": "kubeauth.schemas._credential_provider",
    "TokenRequest": "kubeauth.schemas._core",
    "TokenRequestSpec": "kubeauth.schemas._core",
    "TokenRequestStatus": "kubeauth.schemas._core",
    "TokenResponse": "kubeauth.schemas._oidc",
    "User": "kubeauth.schemas._kubeconfig",
    "UserInfo": "kubeauth.schemas._admission",
    "WindowsSecurityContextOptions": "kubeauth.schemas._core",
}

__all__ = [
    "ActiveDirectoryConfig",
    "AdmissionRequest",
    "AdmissionReview",
    "AliasOverride",
    "AllowlistEntry",
    "AuthConfig",
    "AuthProvider",
    "BoundObjectReference",
    "Cluster",
    "CommandDefaults",
    "CommandOptionDefault",
    "CommandOverride",
    "ConfigMap",
    "Container",
    "Context",
    "CredentialProvider",
    "CredentialProviderConfig",
    "CredentialProviderRequest",
    "CredentialProviderResponse",
    "CredentialSpec",
    "DockerAuth",
    "DockerConfig",
    "DomainJoinConfig",
    "ExecCluster",
    "ExecCredential",
    "ExecCredentialSpec",
    "ExecCredentialStatus",
    "ExecEntry",
    "ExecEnvVar",
    "GMSACredentialSpec",
    "GroupManagedServiceAccount",
    "GroupVersionKind",
    "HostAccountConfig",
    "Kubeconfig",
    "Model",
    "OIDCProviderMetadata",
    "ObjectMeta",
    "PartialObjectMetadata",
    "Pod",
    "PodOS",
    "PodSpec",
    "Preference",
    "Preferences",
    "ProviderEnvVar",
    "ResourceAttributes",
    "SecretObject",
    "SecurityContext",
    "Status",
    "StatusDetails",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
    "TokenAttributes",
    "TokenRequest",
    "TokenRequestSpec",
    "TokenRequestStatus",
    "TokenResponse",
    "User",
    "UserInfo",
    "WindowsSecurityContextOptions",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
