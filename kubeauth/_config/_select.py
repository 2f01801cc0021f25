"""Which context, cluster, user and namespace are meant (K24-K33). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kubeauth._config._merge import overlaid, with_absolute_cluster_paths, with_absolute_user_paths
from kubeauth._config._model import Cluster, Context, Kubeconfig, Overrides, User
from kubeauth.errors import Problem


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


@dataclass(frozen=True, slots=True)
class NotSelected:
    """Why nothing could be selected."""

    problem: Problem
    invalid: bool = False
    """Whether client-go would call the configuration invalid, rather than a name wrong."""


def select(config: Kubeconfig, overrides: Overrides, *, cwd: str) -> Selection | NotSelected:
    """The entries that `overrides`, or else the file, name; or what is missing."""
    overrides = replace(
        overrides,
        cluster_info=with_absolute_cluster_paths(overrides.cluster_info, cwd),
        user_info=with_absolute_user_paths(overrides.user_info, cwd),
    )
    context_name = overrides.context or config.current_context
    context = config.contexts.get(context_name)
    if context is None and overrides.context:
        return _missing("context", "context", context_name, config.contexts)
    if context is None and context_name:
        known = _known(config.contexts)
        message = f"context was not found for specified context: {context_name}"
        return NotSelected(Problem(message, field="current-context", hint=known), invalid=True)
    context = context or Context()

    user_name = overrides.user or context.user
    user = config.users.get(user_name)
    if user is None and overrides.user:
        return _missing("auth info", "user", user_name, config.users)
    if user is None and user_name:
        # client-go goes on anonymously here (K28).
        problem = Problem(
            f'user "{user_name}" was not found for context "{context_name}"',
            context.origin or None,
            f'contexts["{context_name}"].context.user',
            _known(config.users),
        )
        return NotSelected(problem, invalid=True)

    cluster_name = overrides.cluster or context.cluster
    cluster = config.clusters.get(cluster_name)
    if cluster is None and overrides.cluster:
        return _missing("cluster", "cluster", cluster_name, config.clusters)
    return Selection(
        context_name=context_name,
        cluster_name=cluster_name,
        user_name=user_name,
        context=context,
        cluster=_with_cluster_overrides(with_absolute_cluster_paths(cluster or Cluster(), cwd), overrides),
        user=_with_user_overrides(with_absolute_user_paths(user or User(), cwd), overrides.user_info),
        namespace=overrides.namespace or context.namespace,
    )


def _missing(kind: str, argument: str, name: str, entries: Mapping[str, object]) -> NotSelected:
    hint = f"It was asked for by name ({argument}={name!r}). {_known(entries)}"
    return NotSelected(Problem(f'{kind} "{name}" does not exist', hint=hint))


def _known(entries: Mapping[str, object]) -> str:
    names = sorted(entries)
    if not names:
        return "There are none in the kubeconfig."
    shown = ", ".join(names[:10])
    return f"There are: {shown}" + (f" and {len(names) - 10} more." if len(names) > 10 else ".")


def _with_cluster_overrides(cluster: Cluster, overrides: Overrides) -> Cluster:
    above = overrides.cluster_info
    merged = overlaid(overlaid(overrides.cluster_defaults, cluster), above)
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


def _with_user_overrides(user: User, above: User) -> User:
    merged = overlaid(user, above)
    if above.client_key or above.client_key_data:
        merged = replace(merged, client_key=above.client_key, client_key_data=above.client_key_data)
    if above.client_certificate or above.client_certificate_data:
        merged = replace(
            merged,
            client_certificate=above.client_certificate,
            client_certificate_data=above.client_certificate_data,
        )
    return merged
