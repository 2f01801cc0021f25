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
    problems: tuple[Problem, ...] = ()
    """Names that lead nowhere: the entries are empty then."""


def select(config: Kubeconfig, overrides: Overrides, *, cwd: str) -> Selection | Problem:
    """The entries that `overrides`, or else the file, name.

    A name in `overrides` that does not exist is the one problem there is (K25).
    """
    overrides = replace(
        overrides,
        cluster_info=with_absolute_cluster_paths(overrides.cluster_info, cwd),
        user_info=with_absolute_user_paths(overrides.user_info, cwd),
    )
    context_name = overrides.context or config.current_context
    context = config.contexts.get(context_name)
    if context is None and overrides.context:
        return _missing("context", "context", context_name, config.contexts, config)
    problems = _dangling_context(context_name, config) if context is None else []
    context = context or Context()
    user_name, cluster_name = overrides.user or context.user, overrides.cluster or context.cluster
    if overrides.user and overrides.user not in config.users:
        return _missing("auth info", "user", user_name, config.users, config)
    if overrides.cluster and overrides.cluster not in config.clusters:
        return _missing("cluster", "cluster", cluster_name, config.clusters, config)
    if user_name and user_name not in config.users:
        problems += _dangling_user(user_name, context_name, context, config)
    cluster = with_absolute_cluster_paths(config.clusters.get(cluster_name, Cluster()), cwd)
    user = with_absolute_user_paths(config.users.get(user_name, User()), cwd)
    return Selection(
        context_name=context_name,
        cluster_name=cluster_name,
        user_name=user_name,
        context=context,
        cluster=_with_cluster_overrides(cluster, overrides),
        user=_with_user_overrides(user, overrides.user_info),
        namespace=overrides.namespace or context.namespace,
        problems=tuple(problems),
    )


def _missing(
    kind: str, argument: str, name: str, entries: Mapping[str, object], config: Kubeconfig
) -> Problem:
    hint = f"It was asked for by name ({argument}={name!r}). {_known(entries)}"
    return Problem(f'{kind} "{name}" does not exist', ", ".join(config.origins) or None, f"{argument}s", hint)


def _dangling_context(name: str, config: Kubeconfig) -> list[Problem]:
    if not name:
        return []
    message = f"context was not found for specified context: {name}"
    where = config.current_context_origin or None
    return [Problem(message, where, "current-context", _known(config.contexts))]


def _dangling_user(name: str, context_name: str, context: Context, config: Kubeconfig) -> list[Problem]:
    # client-go goes on anonymously here (K28).
    message = f'user "{name}" was not found for context "{context_name}"'
    field = f'contexts["{context_name}"].context.user'
    return [Problem(message, context.origin or None, field, _known(config.users))]


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
