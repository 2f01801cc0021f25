"""The bootstrap tokens of a cluster: the Secrets of kube-system, as an API server has them."""

from __future__ import annotations

import base64
import json
from typing import Any

from kubeauth.testing import Answer, APIServer
from kubeauth.testing._server import Received
from tests.cli.answers import status

PATH = "/api/v1/namespaces/kube-system/secrets"
SECRET = "0123456789abcdef"
TYPE = "bootstrap.kubernetes.io/token"


class Secrets:
    """Lists them, takes new ones, and deletes."""

    def __init__(self, api: APIServer) -> None:
        self._api = api
        self.items: dict[str, dict[str, Any]] = {}
        api.on("GET", PATH, self._list)
        api.on("POST", PATH, self._create)

    def add(self, token_id: str, *, kind: str = TYPE, **values: str) -> None:
        """One that is there; an underscore in a name is a dash."""
        data = {"token-id": token_id, "token-secret": SECRET} | {
            name.replace("_", "-"): value for name, value in values.items()
        }
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        name = f"bootstrap-token-{token_id}"
        self._keep({"metadata": {"name": name, "namespace": "kube-system"}, "type": kind, "data": encoded})

    def values(self, token_id: str) -> dict[str, str]:
        data = self.items[f"bootstrap-token-{token_id}"]["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def _keep(self, document: dict[str, Any]) -> None:
        name = document["metadata"]["name"]
        self.items[name] = document
        self._api.on("DELETE", f"{PATH}/{name}", lambda _request: self._delete(name))

    def _list(self, _request: Received) -> Answer:
        return Answer(body={"kind": "SecretList", "apiVersion": "v1", "items": list(self.items.values())})

    def _create(self, request: Received) -> Answer:
        document = json.loads(request.body)
        name = document["metadata"]["name"]
        if name in self.items:
            return status(409, "AlreadyExists", f'secrets "{name}" already exists')
        self._keep(document)
        return Answer(201, document)

    def _delete(self, name: str) -> Answer:
        if self.items.pop(name, None) is None:
            return status(404, "NotFound", f'secrets "{name}" not found')
        return Answer(body={"kind": "Status", "apiVersion": "v1", "status": "Success"})
