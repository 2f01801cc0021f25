"""Objects of the API that tests are about."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

NOW = 1_800_000_000.0


def date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encoded(values: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


TOKEN = "abc123.tokenSecret"


def secret(token: str = TOKEN, *, version: str = "1", **changes: Any) -> dict[str, Any]:
    """The Secret of a token that is good for both. Changes are of its data, with _ for -; None takes one out.

    Those with a capital are of the object: Name, Type, Namespace, Deleted.
    """
    token_id, _, value = token.partition(".")
    data: dict[str, str | None] = {
        "token-id": token_id,
        "token-secret": value,
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
    }
    metadata = {
        "name": changes.pop("Name", f"bootstrap-token-{token_id}"),
        "namespace": changes.pop("Namespace", "kube-system"),
        "resourceVersion": version,
    }
    if changes.pop("Deleted", False):
        metadata["deletionTimestamp"] = date(NOW)
    kind = changes.pop("Type", "bootstrap.kubernetes.io/token")
    data |= {key.replace("_", "-"): value for key, value in changes.items()}
    kept = {key: value for key, value in data.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded(kept)}


def config_map(version: str = "1", **data: str) -> dict[str, Any]:
    """cluster-info. Keys have _ for -."""
    metadata = {"name": "cluster-info", "namespace": "kube-public", "resourceVersion": version, "uid": "u"}
    values = {key.replace("_", "-"): value for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": values}
