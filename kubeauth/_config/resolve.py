"""From kubeconfigs to a ClientConfig: merge, resolve paths, select and override entries (K17-K34).

Reads no files.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kubeauth._config.auth_provider import OidcConfig
from kubeauth._config.client_config import ClientConfig, Impersonation
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.urls import uses_tls
from kubeauth._exec.config import ExecConfig, ExecOptions, PluginPolicy
from kubeauth._exec.lookup import escape_terminal
from kubeauth._parsing.models import replace_fields
from kubeauth._secret import Secret
from kubeauth.errors import Problem
from kubeauth.schemas._kubeconfig import (
    NO_CLUSTER,
    NO_CONTEXT,
    NO_USER,
    Cluster,
    Context,
    ExecEntry,
    Kubeconfig,
    User,
)

_T = TypeVar("_T")
_Entry = TypeVar("_Entry", Cluster, User)


def merge_kubeconfigs(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """Merge kubeconfigs. The first entry of a name wins as a whole, and the first current-context (K17)."""
    configs = list(configs)
    current = next((config for config in configs if config.current_context), Kubeconfig())
    # Not validated again.
    merged = Kubeconfig.model_construct(
        clusters=_merge_entries(config.clusters for config in configs),
        users=_merge_entries(config.users for config in configs),
        contexts=_merge_entries(config.contexts for config in configs),
        current_context=current.current_context,
    )
    origins = tuple(origin for config in configs for origin in config.origins)
    return merged.with_origins(origins, current.current_context_origin)


def _merge_entries(mappings: Iterable[Mapping[str, _T]]) -> Mapping[str, _T]:
    merged: dict[str, _T] = {}
    for mapping in mappings:
        for name, entry in mapping.items():
            merged.setdefault(name, entry)
    return merged


def override(entry: _Entry, overrides: _Entry) -> _Entry:
    """Return `entry` with every field that is set in `overrides` replaced (K31, K32)."""
    changes = {name: value for name in type(overrides).model_fields if (value := getattr(overrides, name))}
    return replace_fields(entry, changes).with_origin(overrides.origin or entry.origin)


def resolve_cluster_paths(cluster: Cluster, cwd: str) -> Cluster:
    """Make paths absolute, against the directory of the file the entry came from, else `cwd` (K20, K23)."""
    base = _find_base_directory(cluster.origin, cwd)
    path = _join_path(base, cluster.certificate_authority)
    return replace_fields(cluster, {"certificate_authority": path})


def resolve_user_paths(user: User, cwd: str) -> User:
    """Do the same for a user, including the plugin's command if it is a path (K20, K21)."""
    base = _find_base_directory(user.origin, cwd)
    entry = user.exec
    # A bare name is looked up on PATH. In an entry that came from no file (K23) a path is not changed.
    if entry and user.origin and os.sep in entry.command:
        entry = replace_fields(entry, {"command": _join_path(base, entry.command)})
    return replace_fields(
        user,
        {
            "client_certificate": _join_path(base, user.client_certificate),
            "client_key": _join_path(base, user.client_key),
            "token_file": _join_path(base, user.token_file),
            "exec": entry,
        },
    )


def _find_base_directory(origin: str, cwd: str) -> str:
    return os.path.dirname(origin) if origin else cwd


def _join_path(base: str, path: str) -> str:
    if not path or os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(base, path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected entries with overrides applied, and their names."""

    context_name: str
    cluster_name: str
    user_name: str
    context: Context
    cluster: Cluster
    user: User
    namespace: str
    """Empty if neither the caller nor the context sets one."""
    problems: tuple[Problem, ...] = ()
    """References to entries that do not exist; those entries are empty here."""


def select(config: Kubeconfig, overrides: Overrides, *, cwd: str) -> Selection | Problem:
    """Select the entries named by `overrides`, or else by the kubeconfig.

    Return a Problem if `overrides` names an entry that does not exist (K25).
    """
    overrides = replace(
        overrides,
        cluster_info=resolve_cluster_paths(overrides.cluster_info, cwd),
        user_info=resolve_user_paths(overrides.user_info, cwd),
    )
    context_name = overrides.context or config.current_context
    context = config.contexts.get(context_name)
    if context is None and overrides.context:
        return _build_not_found_problem("context", "context", context_name, config.contexts, config)
    problems = _find_missing_context(context_name, config) if context is None else []
    context = context or NO_CONTEXT
    user_name, cluster_name = overrides.user or context.user, overrides.cluster or context.cluster
    if overrides.user and overrides.user not in config.users:
        return _build_not_found_problem("auth info", "user", user_name, config.users, config)
    if overrides.cluster and overrides.cluster not in config.clusters:
        return _build_not_found_problem("cluster", "cluster", cluster_name, config.clusters, config)
    if user_name and user_name not in config.users:
        problems += _build_missing_user_problems(user_name, context_name, context, config)
    cluster = resolve_cluster_paths(config.clusters.get(cluster_name, NO_CLUSTER), cwd)
    user = resolve_user_paths(config.users.get(user_name, NO_USER), cwd)
    return Selection(
        context_name=context_name,
        cluster_name=cluster_name,
        user_name=user_name,
        context=context,
        cluster=_override_cluster(cluster, overrides),
        user=_override_user(user, overrides.user_info),
        namespace=overrides.namespace or context.namespace,
        problems=tuple(problems),
    )


def _build_not_found_problem(
    kind: str, argument: str, name: str, entries: Mapping[str, object], config: Kubeconfig
) -> Problem:
    hint = f"It was requested with {argument}={name!r}. {_list_names(entries)}"
    return Problem(f'{kind} "{name}" does not exist', ", ".join(config.origins) or None, f"{argument}s", hint)


def _find_missing_context(name: str, config: Kubeconfig) -> list[Problem]:
    if not name:
        return []
    message = f"context was not found for specified context: {name}"
    path = config.current_context_origin or None
    return [Problem(message, path, "current-context", _list_names(config.contexts))]


def _build_missing_user_problems(
    name: str, context_name: str, context: Context, config: Kubeconfig
) -> list[Problem]:
    # client-go continues as an anonymous user here (K28).
    message = f'user "{name}" was not found for context "{context_name}"'
    field = f'contexts["{context_name}"].context.user'
    return [Problem(message, context.origin or None, field, _list_names(config.users))]


def _list_names(entries: Mapping[str, object]) -> str:
    names = sorted(entries)
    if not names:
        return "The kubeconfig has none."
    listed = ", ".join(names[:10])
    return f"Available: {listed}" + (f" and {len(names) - 10} more." if len(names) > 10 else ".")


_TRUST_FIELDS = ("insecure_skip_tls_verify", "certificate_authority", "certificate_authority_data")


def _override_cluster(cluster: Cluster, overrides: Overrides) -> Cluster:
    info = overrides.cluster_info
    merged = override(override(overrides.cluster_defaults, cluster), info)
    # Replaced together: an overriding insecure_skip_tls_verify clears the file's CA, and an overriding CA
    # clears the file's insecure_skip_tls_verify.
    if info.insecure_skip_tls_verify or info.certificate_authority or info.certificate_authority_data:
        merged = _take(info, merged, _TRUST_FIELDS)
    # The file's tls-server-name is for the file's server, not for an overriding one.
    if info.server or info.tls_server_name:
        merged = _take(info, merged, ("tls_server_name",))
    return merged


def _take(source: _Entry, entry: _Entry, names: Sequence[str]) -> _Entry:
    """Return `entry` with these fields of `source`, also if they are empty there."""
    return replace_fields(entry, {name: getattr(source, name) for name in names})


def _override_user(user: User, info: User) -> User:
    merged = override(user, info)
    if info.client_key or info.client_key_data:
        merged = _take(info, merged, ("client_key", "client_key_data"))
    if info.client_certificate or info.client_certificate_data:
        merged = _take(info, merged, ("client_certificate", "client_certificate_data"))
    return merged


EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def build_client_config(
    selection: Selection,
    *,
    server: str,
    token: Secret[str] | None,
    namespace: str,
    options: ExecOptions,
    policy: PluginPolicy,
    oidc: OidcConfig | None,
) -> ClientConfig:
    """Build the ClientConfig for entries that have been validated."""
    cluster, user = selection.cluster, selection.user
    # K46: over plain http, the credentials and TLS options are not even read.
    is_tls = uses_tls(server)
    tls_cluster, tls_user = (cluster, user) if is_tls else (NO_CLUSTER, NO_USER)
    # K38: a key without a certificate is not a credential.
    has_certificate = bool(tls_user.client_certificate or tls_user.client_certificate_data)
    certificate = tls_user if has_certificate else NO_USER
    # One call without dataclasses.replace, which would check all fields again.
    return ClientConfig(
        server=server,
        namespace=namespace,
        context=selection.context_name or None,
        proxy_url=cluster.proxy_url or None,
        disable_compression=cluster.disable_compression,
        impersonate=_build_impersonation(user),
        ca_data=tls_cluster.certificate_authority_data or None,
        ca_file=tls_cluster.certificate_authority or None,
        insecure_skip_tls_verify=tls_cluster.insecure_skip_tls_verify,
        tls_server_name=tls_cluster.tls_server_name or None,
        token=token if is_tls else None,
        token_file=tls_user.token_file or None,
        username=tls_user.username or None,
        password=tls_user.password or None,
        exec=_build_exec_config(tls_user.exec, cluster, options, policy) if tls_user.exec else None,
        oidc=oidc if is_tls else None,
        client_cert_data=certificate.client_certificate_data or None,
        client_key_data=certificate.client_key_data or None,
        client_cert_file=certificate.client_certificate or None,
        client_key_file=certificate.client_key or None,
    )


def _build_impersonation(user: User) -> Impersonation | None:
    if not user.impersonate:
        return None
    return Impersonation(
        user=user.impersonate,
        uid=user.impersonate_uid,
        groups=user.impersonate_groups,
        extra=user.impersonate_extra,
    )


def _build_exec_config(
    entry: ExecEntry, cluster: Cluster, options: ExecOptions, policy: PluginPolicy
) -> ExecConfig:
    return ExecConfig(
        command=entry.command,
        args=entry.args,
        env={item.name: item.value.reveal() for item in entry.env},
        api_version=entry.api_version,
        interactive_mode=entry.interactive_mode,
        provide_cluster_info=entry.provide_cluster_info,
        install_hint=escape_terminal(entry.install_hint),
        # From the selected cluster: contexts that share a user can have different clusters (K34).
        cluster_config=cluster.extensions.get(EXEC_EXTENSION),
        options=options,
        policy=policy,
    )
