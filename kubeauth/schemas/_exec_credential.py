"""ExecCredential, v1 and v1beta1: what an exec plugin receives and prints."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from kubeauth._parsing.models import Model, OneOf
from kubeauth._parsing.types import Base64, SecretText, Time
from kubeauth._secret import Secret

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_KIND = "ExecCredential"
_HINT = "A plugin must print one ExecCredential."


class ExecCluster(Model):
    """`spec.cluster` of an ExecCredential: the cluster that the credential is for."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    # URLs may contain a password, so they are not printed.
    server: str = Field(default="", repr=False)
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: Base64 = Field(default=b"", repr=False)
    proxy_url: str = Field(default="", repr=False)
    disable_compression: bool = False
    config: Any = Field(default=None, repr=False)
    """The cluster extension `client.authentication.k8s.io/exec` of the kubeconfig."""


class ExecCredentialSpec(Model):
    """What a plugin receives in KUBERNETES_EXEC_INFO."""

    cluster: ExecCluster | None = None
    """The cluster, if the kubeconfig sets `provideClusterInfo`."""
    interactive: bool = False
    """Whether the plugin may prompt the user."""


class ExecCredentialStatus(Model):
    """The credential: a token, or a client certificate with its key, or both."""

    expiration_timestamp: Time = None
    """When the credential expires; without it, it is used until the server rejects it."""
    token: SecretText = Field(default_factory=lambda: Secret(""))
    client_certificate_data: str = Field(default="", repr=False)
    """Client certificate (PEM, not base64)."""
    client_key_data: SecretText = Field(default_factory=lambda: Secret(""))
    """Private key of the client certificate (PEM, not base64)."""


class ExecCredential(Model):
    """What an exec plugin receives (`spec`) and prints (`status`)."""

    api_version: Annotated[str, OneOf(*_VERSIONS, hint=_HINT)] = _VERSIONS[0]
    kind: Annotated[str, OneOf(_KIND, hint=_HINT)] = _KIND
    spec: ExecCredentialSpec = Field(default_factory=ExecCredentialSpec)
    status: ExecCredentialStatus | None = None
