"""Several kubeconfigs into one, and the paths in an entry (K17-K23). Pure: it reads no file."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from kubeauth._config.auth_provider import OidcConfig
from kubeauth._config.client_config import ClientConfig, Impersonation
from kubeauth._config.kubeconfig import Cluster, Context, ExecEntry, Kubeconfig, Overrides, User
from kubeauth._config.urls import uses_tls
from kubeauth._exec.config import ExecConfig, ExecOptions, PluginPolicy
from kubeauth._exec.lookup import escape_terminal
from kubeauth._secret import Secret
from kubeauth.errors import Problem

_T = TypeVar("_T")
_Entry = TypeVar("_Entry", Cluster, User)


def merge_kubeconfigs(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """The first file wins, entry by whole entry; the first non-empty current-context (K17)."""
    configs = list(configs)
    current = next((config for config in configs if config.current_context), Kubeconfig())
    return Kubeconfig(
        clusters=_merge_entries(config.clusters for config in configs),
        users=_merge_entries(config.users for config in configs),
        contexts=_merge_entries(config.contexts for config in configs),
        current_context=current.current_context,
        current_context_origin=current.current_context_origin,
        origins=tuple(origin for config in configs for origin in config.origins),
    )


def _merge_entries(mappings: Iterable[Mapping[str, _T]]) -> Mapping[str, _T]:
    merged: dict[str, _T] = {}
    for mapping in mappings:
        for name, entry in mapping.items():
            merged.setdefault(name, entry)
    return merged


def override(below: _Entry, above: _Entry) -> _Entry:
    """`below` with every field that `above` sets (K31, K32)."""
    changes = {f.name: value for f in fields(above) if (value := getattr(above, f.name))}
    return replace(below, **changes)


def resolve_cluster_paths(cluster: Cluster, cwd: str) -> Cluster:
    """Paths joined to the directory of the file the entry came from; else to `cwd` (K20, K23)."""
    base = _base_directory(cluster.origin, cwd)
    return replace(cluster, certificate_authority=_join(base, cluster.certificate_authority))


def resolve_user_paths(user: User, cwd: str) -> User:
    """The same for a user, with the plugin's command if it is a path (K20, K21)."""
    base = _base_directory(user.origin, cwd)
    entry = user.exec
    # A bare name is looked up on PATH. Without a file behind it (K23) a path stays as it is written.
    if entry and user.origin and os.sep in entry.command:
        entry = replace(entry, command=_join(base, entry.command))
    return replace(
        user,
        client_certificate=_join(base, user.client_certificate),
        client_key=_join(base, user.client_key),
        token_file=_join(base, user.token_file),
        exec=entry,
    )


def _base_directory(origin: str, cwd: str) -> str:
    return os.path.dirname(origin) if origin else cwd


def _join(base: str, path: str) -> str:
    if not path or os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(base, path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The chosen entries with the overrides on them, and their names."""

    context_name: str
    cluster_name: str
    user_name: str
    context: Context
    cluster: Cluster
    user: User
    namespace: str
    """Empty where nobody named one."""
    problems: tuple[Problem, ...] = ()
    """Names that lead nowhere: the entries are empty then."""


def select(config: Kubeconfig, overrides: Overrides, *, cwd: str) -> Selection | Problem:
    """The entries that `overrides`, or else the file, name.

    A name in `overrides` that does not exist is the one problem there is (K25).
    """
    overrides = replace(
        overrides,
        cluster_info=resolve_cluster_paths(overrides.cluster_info, cwd),
        user_info=resolve_user_paths(overrides.user_info, cwd),
    )
    context_name = overrides.context or config.current_context
    context = config.contexts.get(context_name)
    if context is None and overrides.context:
        return _not_found("context", "context", context_name, config.contexts, config)
    problems = _missing_context(context_name, config) if context is None else []
    context = context or Context()
    user_name, cluster_name = overrides.user or context.user, overrides.cluster or context.cluster
    if overrides.user and overrides.user not in config.users:
        return _not_found("auth info", "user", user_name, config.users, config)
    if overrides.cluster and overrides.cluster not in config.clusters:
        return _not_found("cluster", "cluster", cluster_name, config.clusters, config)
    if user_name and user_name not in config.users:
        problems += _missing_user(user_name, context_name, context, config)
    cluster = resolve_cluster_paths(config.clusters.get(cluster_name, Cluster()), cwd)
    user = resolve_user_paths(config.users.get(user_name, User()), cwd)
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


def _not_found(
    kind: str, argument: str, name: str, entries: Mapping[str, object], config: Kubeconfig
) -> Problem:
    hint = f"It was asked for by name ({argument}={name!r}). {_list_names(entries)}"
    return Problem(f'{kind} "{name}" does not exist', ", ".join(config.origins) or None, f"{argument}s", hint)


def _missing_context(name: str, config: Kubeconfig) -> list[Problem]:
    if not name:
        return []
    message = f"context was not found for specified context: {name}"
    where = config.current_context_origin or None
    return [Problem(message, where, "current-context", _list_names(config.contexts))]


def _missing_user(name: str, context_name: str, context: Context, config: Kubeconfig) -> list[Problem]:
    # client-go goes on anonymously here (K28).
    message = f'user "{name}" was not found for context "{context_name}"'
    field = f'contexts["{context_name}"].context.user'
    return [Problem(message, context.origin or None, field, _list_names(config.users))]


def _list_names(entries: Mapping[str, object]) -> str:
    names = sorted(entries)
    if not names:
        return "There are none in the kubeconfig."
    shown = ", ".join(names[:10])
    return f"There are: {shown}" + (f" and {len(names) - 10} more." if len(names) > 10 else ".")


def _override_cluster(cluster: Cluster, overrides: Overrides) -> Cluster:
    above = overrides.cluster_info
    merged = override(override(overrides.cluster_defaults, cluster), above)
    # Trust is replaced as a block: insecure without a CA must clear the file's CA, and a CA its insecure.
    if above.insecure_skip_tls_verify or above.certificate_authority or above.certificate_authority_data:
        merged = replace(
            merged,
            insecure_skip_tls_verify=above.insecure_skip_tls_verify,
            certificate_authority=above.certificate_authority,
            certificate_authority_data=above.certificate_authority_data,
        )
    # Another server has another name: the file's tls-server-name would no longer fit.
    if above.server or above.tls_server_name:
        merged = replace(merged, tls_server_name=above.tls_server_name)
    return merged


def _override_user(user: User, above: User) -> User:
    merged = override(user, above)
    if above.client_key or above.client_key_data:
        merged = replace(merged, client_key=above.client_key, client_key_data=above.client_key_data)
    if above.client_certificate or above.client_certificate_data:
        merged = replace(
            merged,
            client_certificate=above.client_certificate,
            client_certificate_data=above.client_certificate_data,
        )
    return merged


EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_NO_CLUSTER, _NO_USER = Cluster(), User()


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
    """The config for entries in which nothing is wrong."""
    cluster, user = selection.cluster, selection.user
    # K46: over plain http nothing of the user is read, let alone sent.
    tls = uses_tls(server)
    tls_cluster, tls_user = (cluster, user) if tls else (_NO_CLUSTER, _NO_USER)
    # K38: a key without a certificate is not a credential.
    has_certificate = bool(tls_user.client_certificate or tls_user.client_certificate_data)
    certificate = tls_user if has_certificate else _NO_USER
    # One call and no dataclasses.replace: each of those would check all fields again.
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
        token=token if tls else None,
        token_file=tls_user.token_file or None,
        username=tls_user.username or None,
        password=tls_user.password or None,
        exec=_build_exec_config(tls_user.exec, cluster, options, policy) if tls_user.exec else None,
        oidc=oidc if tls else None,
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
        env=dict(entry.env),
        api_version=entry.api_version,
        interactive_mode=entry.interactive_mode,
        provide_cluster_info=entry.provide_cluster_info,
        install_hint=escape_terminal(entry.install_hint),
        # From the cluster in use: two contexts that share a user do not share this (K34).
        cluster_config=cluster.extensions.get(EXEC_EXTENSION),
        options=options,
        policy=policy,
    )
