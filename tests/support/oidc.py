"""A kubeconfig whose user logs in at an issuer, and a server that takes that issuer's tokens alone."""

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
    """What an id-token says."""
    payload = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


def authenticate(request: Received) -> str | None:
    """Who it is by an id-token that is not over, as an API server would say."""
    scheme, _, token = (request.header("Authorization") or "").partition(" ")
    if scheme != "Bearer" or token.count(".") != 2:
        return None
    said = claims(token)
    return str(said["sub"]) if said["exp"] > time.time() else None


def settings(issuer: Issuer, **more: str | None) -> dict[str, str]:
    """`auth-provider.config`, with underscores for dashes; None leaves one out."""
    given: dict[str, str | None] = {
        "idp-issuer-url": issuer.url,
        "client-id": issuer.client_id,
        "idp-certificate-authority-data": base64.b64encode(issuer.ca).decode(),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    if issuer.client_secret:
        given.setdefault("client-secret", issuer.client_secret)
    return {name: value for name, value in given.items() if value is not None}


@dataclass
class Kubeconfig:
    """A file, and what of the user stands in it."""

    path: Path
    user: str = "tester"

    def entry(self) -> dict[str, Any]:
        (found,) = [each for each in self.document()["users"] if each["name"] == self.user]
        provider: dict[str, Any] = found["user"]["auth-provider"]["config"]
        return provider

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.path.read_text())
        return found

    def change(self, **more: str) -> None:
        """As somebody does who logs in anew."""
        document = self.document()
        for each in document["users"]:
            each["user"]["auth-provider"]["config"].update({k.replace("_", "-"): v for k, v in more.items()})
        self.path.write_text(yaml.safe_dump(document))


def written(server: APIServer, path: Path, config: Mapping[str, str]) -> Kubeconfig:
    """A kubeconfig with one user, who has this provider."""
    document = server.kubeconfig({"auth-provider": {"name": "oidc", "config": dict(config)}})
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return Kubeconfig(path, document["users"][0]["name"])
