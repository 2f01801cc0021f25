"""Kubeconfigs for tests: one cluster `c`, one user `u`, one context `x`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubeauth import ClientConfig
from kubeauth._config.environment import Environment
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader
from kubeauth.schemas import Cluster, User

V1 = "client.authentication.k8s.io/v1"
EXTENSION = "client.authentication.k8s.io/exec"


def document(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    **top: Any,
) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://h:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "current-context": "x",
        **top,
    }


def plugin(**fields: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": V1, "command": "plug", "interactiveMode": "Never", **fields}}


def write(path: Path, content: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def load(
    document: dict[str, Any],
    *,
    cluster: Cluster | None = None,
    user: User | None = None,
    defaults: Cluster | None = None,
    names: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
) -> ClientConfig:
    """Resolve a document with overrides, as the command line does."""
    from kubeauth._config.kubeconfig import decode_mapping

    names = names or {}
    overrides = Overrides(
        context=names.get("context", ""),
        cluster=names.get("cluster", ""),
        user=names.get("user", ""),
        namespace=names.get("namespace", ""),
        cluster_info=cluster or Cluster(),
        user_info=user or User(),
        cluster_defaults=defaults or Cluster(),
    )
    loader = Loader(overrides=overrides, environment=Environment(environ=environ or {}))
    return loader.load_document(decode_mapping(document))
