"""Configurations of image credential providers, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GROUP = "kubelet.config.k8s.io"
EXEC = "credentialprovider.kubelet.k8s.io"
VERSIONS = ("v1alpha1", "v1beta1", "v1")


def provider(name: str = "ecr", **changes: Any) -> dict[str, Any]:
    """A provider that is right. None takes a field away."""
    fields = {
        "name": name,
        "matchImages": ["registry.io"],
        "defaultCacheDuration": "10m",
        "apiVersion": f"{EXEC}/v1",
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


def token_attributes(**changes: Any) -> dict[str, Any]:
    fields = {
        "serviceAccountTokenAudience": "audience",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": True,
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


def document(*providers: Any, version: str = "v1", **changes: Any) -> dict[str, Any]:
    return {
        "kind": "CredentialProviderConfig",
        "apiVersion": f"{GROUP}/{version}",
        "providers": list(providers),
        **changes,
    }


def written(path: Path, *providers: Any, **changes: Any) -> Path:
    path.write_text(json.dumps(document(*providers, **changes)))
    return path
