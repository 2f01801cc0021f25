"""A kubeconfig with an OIDC user, and authentication by the tokens of its issuer."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeauth.testing import APIServer, Received
from tests.support.oidc_issuer import Issuer


def claims(token: str) -> dict[str, Any]:
    """Return the claims of an id-token."""
    payload = token.split(".")[1]
    result: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return result


def authenticate(request: Received) -> str | None:
    """Return the subject of an id-token that has not expired."""
    scheme, _, token = (request.header("Authorization") or "").partition(" ")
    if scheme != "Bearer" or token.count(".") != 2:
        return None
    payload = claims(token)
    return str(payload["sub"]) if payload["exp"] > time.time() else None


def settings(issuer: Issuer, **more: str | None) -> dict[str, str]:
    """`auth-provider.config`. Names have underscores for dashes; None removes a setting."""
    result: dict[str, str | None] = {
        "idp-issuer-url": issuer.url,
        "client-id": issuer.client_id,
        "idp-certificate-authority-data": base64.b64encode(issuer.ca).decode(),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    if issuer.client_secret:
        result.setdefault("client-secret", issuer.client_secret)
    return {name: value for name, value in result.items() if value is not None}


@dataclass
class Kubeconfig:
    """A kubeconfig file and its user."""

    path: Path
    user: str = "tester"

    def entry(self) -> dict[str, Any]:
        (entry,) = [entry for entry in self.document()["users"] if entry["name"] == self.user]
        provider: dict[str, Any] = entry["user"]["auth-provider"]["config"]
        return provider

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = yaml.safe_load(self.path.read_text())
        return document

    def change(self, **more: str) -> None:
        """Write other settings, as a new login does."""
        document = self.document()
        for each in document["users"]:
            each["user"]["auth-provider"]["config"].update({k.replace("_", "-"): v for k, v in more.items()})
        self.path.write_text(yaml.safe_dump(document))


def write_kubeconfig(server: APIServer, path: Path, config: Mapping[str, str]) -> Kubeconfig:
    """Write a kubeconfig with one user, who has this auth provider."""
    document = server.kubeconfig({"auth-provider": {"name": "oidc", "config": dict(config)}})
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return Kubeconfig(path, document["users"][0]["name"])
