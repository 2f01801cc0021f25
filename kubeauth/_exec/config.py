"""The configuration of an exec plugin: ExecConfig, ExecOptions, PluginPolicy (P1, P2)."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, cast

from kubeauth._field_types import check_fields, field_types
from kubeauth._parsing import DocumentError, Json, copy_plain
from kubeauth._secret import HIDDEN, HiddenDict
from kubeauth.errors import ConfigError

ALLOW_ALL = "AllowAll"
DENY_ALL = "DenyAll"
ALLOWLIST = "Allowlist"


@dataclass(frozen=True, slots=True)
class PluginPolicy:
    """Which exec plugins may run. Create one with `allow_all()`, `deny_all()` or `allowlist([...])`."""

    kind: str = ALLOW_ALL
    """`AllowAll`, `DenyAll` or `Allowlist`."""
    commands: tuple[str, ...] = ()
    """The commands that an `Allowlist` allows."""

    def __post_init__(self) -> None:
        check_fields(self, _FIELDS)
        object.__setattr__(self, "kind", self.kind or ALLOW_ALL)
        problem = find_policy_problem(
            self.kind, self.commands if self.kind == ALLOWLIST else self.commands or None
        )
        if problem:
            raise ConfigError(f"invalid plugin policy: {problem}")

    @classmethod
    def allow_all(cls) -> Self:
        """Any plugin may run: the default of client-go and kubectl."""
        return cls(ALLOW_ALL)

    @classmethod
    def deny_all(cls) -> Self:
        """No plugin may run."""
        return cls(DENY_ALL)

    @classmethod
    def allowlist(cls, commands: Sequence[str]) -> Self:
        """Only these commands may run: names that are looked up on PATH, or absolute paths."""
        return cls(ALLOWLIST, cast("tuple[str, ...]", commands))  # __post_init__ converts a list


_FIELDS = field_types(PluginPolicy)


def find_policy_problem(kind: str, commands: Sequence[str] | None) -> str | None:
    """Return why a policy is invalid, as client-go reports it; None if it is valid.

    `commands` is None if there is no list, which is not the same as an empty list.
    """
    if kind in ("", ALLOW_ALL, DENY_ALL):
        if commands is not None:
            return (
                "misconfigured credential plugin allowlist: "
                f'plugin policy is "{kind}" but allowlist is non-nil'
            )
        return None
    if kind != ALLOWLIST:
        return f'unknown plugin policy: "{kind}"'
    if commands is None:
        return f'credential plugin policy set to "{ALLOWLIST}", but allowlist is unspecified'
    if not commands:
        return (
            f'credential plugin policy set to "{ALLOWLIST}", but allowlist is empty; '
            f'use "{DENY_ALL}" policy instead'
        )
    for number, command in enumerate(commands, start=1):
        if not command:
            return f"misconfigured credential plugin allowlist: empty allowlist entry #{number}"
        if command != (cleaned := clean_path(command)):
            return f'non-normalized file path: "{command}" vs "{cleaned}"'
    return None


def clean_path(path: str) -> str:
    """Return the shortest equivalent path, as Go's filepath.Clean."""
    cleaned = os.path.normpath(path)
    # In POSIX `//x` may differ from `/x`, so normpath leaves it; Go does not.
    return cleaned[1:] if os.sep == "/" and cleaned.startswith("//") else cleaned


INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

# Every error about getting a credential starts with this, as in kubectl.
ERROR_PREFIX = "getting credentials: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOptions:
    """How a plugin is run: options that a kubeconfig does not have."""

    timeout: float | None = 60.0
    """Seconds that a run may take, unless it is interactive; None means no limit."""
    refresh_ahead: bool = True
    """Whether to refresh in the background, before the credential expires."""
    stdin_unavailable: bool = False
    """Whether the application uses stdin itself: then no plugin may prompt the user."""
    stdin_unavailable_message: str = ""
    """The reason, for the error of a plugin that must prompt."""

    def __post_init__(self) -> None:
        check_fields(self, _OPTIONS_FIELDS)
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(
                f"ExecOptions.timeout must be more than 0 seconds, or None; it is {self.timeout}"
            )


_OPTIONS_FIELDS = field_types(ExecOptions)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecConfig:
    """An exec plugin as configured in a kubeconfig, with the options and policy for running it.

    Arguments, environment and cluster configuration may contain secrets, so its repr hides them. A value of
    the wrong type is a ConfigError; a list is accepted for a tuple.
    """

    command: str
    """A path, or a name that is looked up on PATH."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: HiddenDict[str, str]())
    """Added to the environment of this process."""
    api_version: str
    """`client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`."""
    interactive_mode: str = ""
    """Whether it may prompt the user: `Never`, `IfAvailable` or `Always`."""
    provide_cluster_info: bool = False
    """Whether the cluster is passed to it in KUBERNETES_EXEC_INFO."""
    install_hint: str = ""
    """Shown if the command is not found. Untrusted text."""
    cluster_config: Json = field(default=None, hash=False)
    """The content of the cluster's `client.authentication.k8s.io/exec` extension."""
    options: ExecOptions = field(default_factory=ExecOptions)
    policy: PluginPolicy = field(default_factory=PluginPolicy.allow_all)

    def __post_init__(self) -> None:
        check_fields(self, _CONFIG_FIELDS)
        object.__setattr__(self, "env", HiddenDict[str, str](self.env))
        if self.cluster_config is None:
            return
        try:
            # A copy, so that later changes to the document do not reach a plugin.
            object.__setattr__(self, "cluster_config", copy_plain(self.cluster_config))
        except DocumentError as error:
            reason = error.reason
        except Exception as error:  # raised by an object of the caller; its message may quote a value
            reason = f"reading it raised {type(error).__name__}"
        else:
            return
        raise ConfigError(f"ExecConfig.cluster_config must be JSON: {reason}")

    def list_hidden_fields(self) -> list[str]:
        """Return the names of the fields that are set, and that are neither printed nor pickled."""
        return [name for name in ("args", "env", "cluster_config") if getattr(self, name)]

    def __reduce__(self) -> tuple[object, ...]:
        if hidden := self.list_hidden_fields():
            raise ConfigError(
                f"this ExecConfig may contain secrets ({', '.join(hidden)}), so it cannot be pickled; "
                "send the path of a kubeconfig, and call load_config there"
            )
        return _rebuild, ({field.name: getattr(self, field.name) for field in fields(self)},)

    def __repr__(self) -> str:
        # As in client-go without the install hint, which is untrusted.
        config = HIDDEN if self.cluster_config is not None else "None"
        args = f"<{len(self.args)} hidden>" if self.args else "()"
        return (
            f"ExecConfig(command={self.command!r}, args={args}, env={self.env!r}, "
            f"api_version={self.api_version!r}, interactive_mode={self.interactive_mode!r}, "
            f"provide_cluster_info={self.provide_cluster_info!r}, cluster_config={config}, "
            f"options={self.options!r}, policy={self.policy!r})"
        )


_CONFIG_FIELDS = field_types(ExecConfig, ExecOptions, PluginPolicy, unchecked=("cluster_config",))


def _rebuild(values: dict[str, Any]) -> ExecConfig:
    return ExecConfig(**values)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecCluster:
    """The cluster as a plugin with `provideClusterInfo` receives it (X6)."""

    server: str
    """The API server's URL."""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    """PEM; empty for the system roots."""
    proxy_url: str = ""
    disable_compression: bool = False
    config: Json = field(default=None, hash=False)
    """The content of the cluster's extension `client.authentication.k8s.io/exec`; None if it has none."""

    def __repr__(self) -> str:
        # The URL may contain a password.
        server = HIDDEN if "@" in self.server else repr(self.server)
        return f"ExecCluster(server={server}, ...)"
