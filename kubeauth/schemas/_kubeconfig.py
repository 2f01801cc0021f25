"""Kubeconfig: clusters, users and contexts (K1-K12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from kubeauth._parsing.models import Model, OneOf, Origin
from kubeauth._parsing.types import (
    Base64,
    FailFastItems,
    HiddenStrings,
    NamedEntries,
    SecretBase64,
    SecretText,
    StringLists,
    Strings,
)
from kubeauth._secret import FrozenDict, HiddenDict, Secret

EXEC_GROUP = "client.authentication.k8s.io"
# interactiveMode is required in v1, and optional in the older versions (K12).
_IF_AVAILABLE_BY_DEFAULT = (f"{EXEC_GROUP}/v1beta1", f"{EXEC_GROUP}/v1alpha1")

Extensions = Annotated[Mapping[str, Any], NamedEntries("extension")]


# Fields that are not simply called like the attribute, with dashes.
_FIELD_NAMES = {
    "api_version": "apiVersion",
    "token_file": "tokenFile",
    "impersonate": "as",
    "impersonate_uid": "as-uid",
    "impersonate_groups": "as-groups",
    "impersonate_extra": "as-user-extra",
}


def _get_field_name(attribute: str) -> str:
    return _FIELD_NAMES.get(attribute) or attribute.replace("_", "-")


class _Entry(Model):
    """A named entry of a kubeconfig."""

    model_config = ConfigDict(alias_generator=_get_field_name)

    _origin: str = PrivateAttr("")

    @property
    def origin(self) -> str:
        """Path of the file that the entry came from; empty if it came from no file."""
        return self._origin

    def with_origin(self, path: str) -> Self:
        """Return a copy that came from the file `path`, to which relative paths in it are relative."""
        copy = self.model_copy()
        copy._origin = path
        return copy


class Cluster(_Entry):
    """`clusters[].cluster`: how to reach an API server."""

    # URLs may contain a password, so they are not printed.
    server: str = Field(default="", repr=False)
    """URL of the API server."""
    tls_server_name: str = ""
    """Server name for SNI and for certificate verification, instead of the host in `server`."""
    insecure_skip_tls_verify: bool = False
    """Skip server certificate verification (insecure: allows man-in-the-middle attacks)."""
    certificate_authority: str = Field(default="", repr=False)
    """Path of a file with CA certificates (PEM)."""
    certificate_authority_data: Base64 = Field(default=b"", repr=False)
    """CA certificates (PEM). Takes precedence over `certificate_authority`."""
    proxy_url: str = Field(default="", repr=False)
    """Proxy for all requests."""
    disable_compression: bool = False
    """Disable response compression."""
    extensions: Extensions = Field(default_factory=dict[str, Any], repr=False)
    """Data of other programs, by name."""


class AuthProvider(Model):
    """`users[].user.auth-provider`: the predecessor of exec plugins, of which only `oidc` is supported."""

    name: str = ""
    config: HiddenStrings = Field(default_factory=HiddenDict[str, str])


class ExecEnvVar(Model):
    """An environment variable of an exec plugin."""

    name: str = ""
    value: SecretText = Field(default_factory=lambda: Secret(""))


class ExecEntry(Model):
    """`users[].user.exec`: the exec plugin that provides the credential."""

    command: str = ""
    """Command to run: a name that is looked up on PATH, or a path."""
    args: Strings = Field(default=(), repr=False)
    env: FailFastItems[ExecEnvVar] = Field(default=(), repr=False)
    api_version: str = ""
    """Version of the ExecCredential: `client.authentication.k8s.io/v1` or `v1beta1`."""
    install_hint: str = Field(default="", repr=False)
    """Text for the user if the command is not found."""
    provide_cluster_info: bool = False
    """Whether the plugin receives the cluster in KUBERNETES_EXEC_INFO."""
    interactive_mode: str = Field(default="", json_schema_extra={"enum": ["Never", "IfAvailable", "Always"]})
    """`Never`, `IfAvailable` or `Always`. Required in v1; `IfAvailable` by default in v1beta1."""

    @model_validator(mode="after")
    def _set_default_mode(self) -> Self:
        if not self.interactive_mode and self.api_version in _IF_AVAILABLE_BY_DEFAULT:
            # Not by assignment, because the model is frozen.
            object.__setattr__(self, "interactive_mode", "IfAvailable")
        return self


class User(_Entry):
    """`users[].user`: the credential of a user."""

    # Paths are not printed either: users sometimes put the key itself in place of its path.
    client_certificate: str = Field(default="", repr=False)
    """Path of a client certificate (PEM)."""
    client_certificate_data: Base64 = Field(default=b"", repr=False)
    """Client certificate (PEM). Takes precedence over `client_certificate`."""
    client_key: str = Field(default="", repr=False)
    """Path of the private key of the client certificate (PEM)."""
    client_key_data: SecretBase64 = Field(default_factory=lambda: Secret(b""))
    """Private key of the client certificate (PEM). Takes precedence over `client_key`."""
    token: SecretText = Field(default_factory=lambda: Secret(""))
    """Bearer token."""
    token_file: str = Field(default="", repr=False)
    """Path of a file with a bearer token."""
    impersonate: str = ""
    """User to impersonate."""
    impersonate_uid: str = ""
    impersonate_groups: Strings = Field(default=())
    impersonate_extra: StringLists = Field(default_factory=FrozenDict[str, tuple[str, ...]])
    username: str = ""
    password: SecretText = Field(default_factory=lambda: Secret(""))
    auth_provider: AuthProvider | None = None
    exec: ExecEntry | None = None
    extensions: Extensions = Field(default_factory=dict[str, Any], repr=False)
    """Data of other programs, by name."""


class Context(_Entry):
    """`contexts[].context`: a cluster, a user and a default namespace."""

    cluster: str = ""
    """Name of the cluster entry."""
    user: str = ""
    """Name of the user entry."""
    namespace: str = ""
    extensions: Extensions = Field(default_factory=dict[str, Any], repr=False)
    """Data of other programs, by name."""


# Not by the constructors, which would build a validator for each class: a kubeconfig has one for all of them.
NO_CLUSTER, NO_USER, NO_CONTEXT = Cluster.model_construct(), User.model_construct(), Context.model_construct()

NOT_A_KUBECONFIG_HINT = "Is this the right file? A kubeconfig starts with apiVersion: v1 and kind: Config."


_NOT_A_KUBECONFIG = "not a kubeconfig: apiVersion and kind must be v1 and Config"


class Preferences(Model):
    """`preferences`: not used by kubeauth."""

    colors: bool = False
    extensions: Extensions = Field(default_factory=dict[str, Any], repr=False)


class Kubeconfig(Model):
    """A kubeconfig: clusters, users and contexts.

    In Python, they are mappings by name. Several files can be merged into one.

    config = Kubeconfig(
        clusters={"prod": Cluster(server="https://prod.example:6443")},
        users={"alice": User(exec=ExecEntry(command="aws", args=("eks", "get-token"), ...))},
        contexts={"prod": Context(cluster="prod", user="alice")},
        current_context="prod",
    )
    client = kubeauth.Client(kubeauth.load_config(config))
    """

    model_config = ConfigDict(alias_generator=_get_field_name, defer_build=False)

    # As in client-go, both may be empty (K8).
    api_version: Annotated[str, OneOf("v1", message=_NOT_A_KUBECONFIG, hint=NOT_A_KUBECONFIG_HINT)] = "v1"
    kind: Annotated[str, OneOf("Config", message=_NOT_A_KUBECONFIG, hint=NOT_A_KUBECONFIG_HINT)] = "Config"
    preferences: Preferences = Field(default_factory=Preferences)
    clusters: Annotated[Mapping[str, Cluster], NamedEntries("cluster")] = Field(
        default_factory=dict[str, Cluster]
    )
    users: Annotated[Mapping[str, User], NamedEntries("user")] = Field(default_factory=dict[str, User])
    contexts: Annotated[Mapping[str, Context], NamedEntries("context")] = Field(
        default_factory=dict[str, Context]
    )
    current_context: str = Field(default="")
    """Name of the context to use."""
    extensions: Extensions = Field(default_factory=dict[str, Any], repr=False)
    """Data of other programs, by name."""

    _origins: tuple[str, ...] = PrivateAttr(())
    _current_context_origin: str = PrivateAttr("")

    @property
    def origins(self) -> tuple[str, ...]:
        """Paths of the files that it came from."""
        return self._origins

    @property
    def current_context_origin(self) -> str:
        """Path of the file that `current_context` came from."""
        return self._current_context_origin

    def with_origins(self, paths: tuple[str, ...], current_context_origin: str) -> Self:
        """Return a copy that came from these files."""
        copy = self.model_copy()
        copy._origins, copy._current_context_origin = paths, current_context_origin
        return copy

    @model_validator(mode="after")
    def _set_origin(self, info: ValidationInfo) -> Self:
        if isinstance(origin := info.context, Origin):
            self._origins = (origin,)
            self._current_context_origin = origin if self.current_context else ""
            for entries in (self.clusters, self.users, self.contexts):
                for entry in entries.values():
                    entry._origin = origin
        return self

    def __repr__(self) -> str:
        # A constructor that failed has set no fields.
        contexts, current = getattr(self, "contexts", ()), getattr(self, "current_context", "")
        return f"<Kubeconfig: {len(contexts)} contexts, current {current!r}>"

    __str__ = __repr__
