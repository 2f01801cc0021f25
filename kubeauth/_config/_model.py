"""A kubeconfig as values: what was read, before anything is chosen or checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeauth._parsing import Json
from kubeauth._secret import FrozenDict, HiddenDict, Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    # Addresses can hold a password, so they are not printed.
    server: str = field(default="", repr=False)
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = field(default="", repr=False)
    certificate_authority_data: bytes = field(default=b"", repr=False)
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    extensions: Mapping[str, Json] = field(default_factory=dict[str, Json], repr=False)
    origin: str = ""
    """The file the entry came from; empty if it came from bytes, a dict or an override."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthProvider:
    name: str = ""
    config: Mapping[str, str] = field(default_factory=lambda: HiddenDict[str, str]())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecStanza:
    """`users[].user.exec` as it is written; interactive_mode after the default of K12."""

    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = ""
    install_hint: str = field(default="", repr=False)
    provide_cluster_info: bool = False
    interactive_mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    # Paths are not printed either: sometimes the key itself is put where its path belongs.
    client_certificate: str = field(default="", repr=False)
    client_certificate_data: bytes = field(default=b"", repr=False)
    client_key: str = field(default="", repr=False)
    client_key_data: Secret[bytes] = field(default_factory=lambda: Secret(b""))
    token: Secret[str] = field(default_factory=lambda: Secret(""))
    token_file: str = field(default="", repr=False)
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_extra: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: FrozenDict[str, tuple[str, ...]]()
    )
    username: str = ""
    password: Secret[str] = field(default_factory=lambda: Secret(""))
    auth_provider: AuthProvider | None = None
    exec: ExecStanza | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """One file, or several merged."""

    clusters: Mapping[str, Cluster] = field(default_factory=dict[str, Cluster])
    users: Mapping[str, User] = field(default_factory=dict[str, User])
    contexts: Mapping[str, Context] = field(default_factory=dict[str, Context])
    current_context: str = ""
    current_context_origin: str = ""
    origins: tuple[str, ...] = ()
    """The files it came from."""

    def __repr__(self) -> str:
        return f"<Kubeconfig: {len(self.contexts)} contexts, current {self.current_context!r}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What a caller sets over the files, as kubectl's flags do (K24, K31, K32)."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    cluster_info: Cluster = field(default_factory=Cluster)
    user_info: User = field(default_factory=User)
    cluster_defaults: Cluster = field(default_factory=Cluster)
    """Below the file: where a caller opts in to a default server (K57)."""
