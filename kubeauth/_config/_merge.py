"""Several kubeconfigs into one, and the paths in an entry (K17-K23). Pure: it reads no file."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TypeVar

from kubeauth._config._model import Cluster, Kubeconfig, User

_T = TypeVar("_T")
_Entry = TypeVar("_Entry", Cluster, User)


def merge(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """The first file wins, entry by whole entry; the first non-empty current-context (K17)."""
    configs = list(configs)
    current = next((config for config in configs if config.current_context), Kubeconfig())
    return Kubeconfig(
        clusters=_first_wins(config.clusters for config in configs),
        users=_first_wins(config.users for config in configs),
        contexts=_first_wins(config.contexts for config in configs),
        current_context=current.current_context,
        current_context_origin=current.current_context_origin,
        origins=tuple(origin for config in configs for origin in config.origins),
    )


def _first_wins(mappings: Iterable[Mapping[str, _T]]) -> Mapping[str, _T]:
    merged: dict[str, _T] = {}
    for mapping in mappings:
        for name, entry in mapping.items():
            merged.setdefault(name, entry)
    return merged


def overlaid(below: _Entry, above: _Entry) -> _Entry:
    """`below` with every field that `above` sets (K31, K32)."""
    changes = {f.name: value for f in fields(above) if (value := getattr(above, f.name))}
    return replace(below, **changes)


def with_absolute_cluster_paths(cluster: Cluster, cwd: str) -> Cluster:
    """Paths joined to the directory of the file the entry came from; else to `cwd` (K20, K23)."""
    base = _base(cluster.origin, cwd)
    return replace(cluster, certificate_authority=_joined(base, cluster.certificate_authority))


def with_absolute_user_paths(user: User, cwd: str) -> User:
    """The same for a user, with the plugin's command if it is a path (K20, K21)."""
    base = _base(user.origin, cwd)
    stanza = user.exec
    # A bare name is looked up on PATH. Without a file behind it (K23) a path stays as it is written.
    if stanza and user.origin and os.sep in stanza.command:
        stanza = replace(stanza, command=_joined(base, stanza.command))
    return replace(
        user,
        client_certificate=_joined(base, user.client_certificate),
        client_key=_joined(base, user.client_key),
        token_file=_joined(base, user.token_file),
        exec=stanza,
    )


def _base(origin: str, cwd: str) -> str:
    return os.path.dirname(origin) if origin else cwd


def _joined(base: str, path: str) -> str:
    if not path or os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(base, path))
