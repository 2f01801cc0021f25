"""What an exec plugin is configured with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kubeauth._exec._policy import PluginPolicy
from kubeauth._field_types import check_fields, field_types
from kubeauth._frozen import HiddenDict
from kubeauth._parsing import DocumentError, Json, copy_plain
from kubeauth._secret import HIDDEN
from kubeauth.errors import ConfigError

INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


# What every error about asking for a credential begins with, as kubectl's do.
ASKED = "getting credentials: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOptions:
    """How a plugin is run: what no kubeconfig can say."""

    timeout: float | None = 60.0
    """Seconds that a run may take, unless a person can be asked; None means no limit."""
    refresh_ahead: bool = True
    """Whether to renew in the background, before the credential ends."""
    stdin_unavailable: bool = False
    """Whether the program needs stdin for itself: then no plugin may ask a person."""
    stdin_unavailable_message: str = ""
    """Why, for the error of a plugin that must."""

    def __post_init__(self) -> None:
        check_fields(self, _OPTIONS_FIELDS)
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(
                f"ExecOptions.timeout must be more than 0 seconds, or None; it is {self.timeout}"
            )


_OPTIONS_FIELDS = field_types(ExecOptions)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecConfig:
    """An exec plugin as a kubeconfig names it, with the options and policy it is run under.

    Arguments, environment and cluster configuration may hold secrets: they are not printed. A field of
    another type than it says is a ConfigError; a list is accepted for a tuple.
    """

    command: str
    """A name to be found on PATH, or a path."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: HiddenDict[str, str]())
    """Added to the environment of this process."""
    api_version: str
    """`client.authentication.k8s.io/v1`, or `v1beta1` of it."""
    interactive_mode: str = ""
    """Whether it may ask a person: `Never`, `IfAvailable` or `Always`."""
    provide_cluster_info: bool = False
    """Whether it is told about the cluster."""
    install_hint: str = ""
    """What to show if it is not there. A stranger's text."""
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
            raise ConfigError(f"ExecConfig.cluster_config must be JSON: {error.reason}") from None

    def hidden(self) -> list[str]:
        """The names of what is set here and neither printed nor pickled."""
        return [name for name in ("args", "env", "cluster_config") if getattr(self, name)]

    def __reduce__(self) -> tuple[object, ...]:
        if hidden := self.hidden():
            raise ConfigError(
                f"this ExecConfig may hold secrets ({', '.join(hidden)}), so it cannot be pickled; "
                "send the path of a kubeconfig, and call load_config there"
            )
        return _made, ({field.name: getattr(self, field.name) for field in fields(self)},)

    def __repr__(self) -> str:
        # As client-go: the hint is left out, it is a stranger's text and says nothing here.
        config = HIDDEN if self.cluster_config is not None else "None"
        args = f"<{len(self.args)} hidden>" if self.args else "()"
        # A traceback may print a value whose fields were rejected, before they were converted.
        env = repr(self.env) if isinstance(self.env, HiddenDict) else HIDDEN
        return (
            f"ExecConfig(command={self.command!r}, args={args}, env={env}, "
            f"api_version={self.api_version!r}, interactive_mode={self.interactive_mode!r}, "
            f"provide_cluster_info={self.provide_cluster_info!r}, cluster_config={config}, "
            f"options={self.options!r}, policy={self.policy!r})"
        )


_CONFIG_FIELDS = field_types(ExecConfig, ExecOptions, PluginPolicy, unchecked=("cluster_config",))


def _made(values: dict[str, Any]) -> ExecConfig:
    return ExecConfig(**values)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecCluster:
    """What a plugin is told about the cluster when it asks with `provideClusterInfo` (X6)."""

    server: str
    """The API server's URL."""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    """PEM; empty for the system's roots."""
    proxy_url: str = ""
    disable_compression: bool = False
    config: Json = field(default=None, hash=False)
    """The content of the cluster's extension `client.authentication.k8s.io/exec`; None if it has none."""

    def __repr__(self) -> str:
        # There may be a password in the address.
        server = HIDDEN if "@" in self.server else repr(self.server)
        return f"ExecCluster(server={server}, ...)"
