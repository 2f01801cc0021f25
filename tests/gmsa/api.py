"""A cluster that knows credential specs and who may use them, on a real server."""

from __future__ import annotations

import json
from typing import Any

from kubeauth.testing import Answer, APIServer, Received
from tests.gmsa.pods import CREDSPEC, Document, spec_of

SPECS = "/apis/windows.k8s.io/v1/gmsacredentialspecs"
REVIEWS = "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews"
ROBOT = "system:serviceaccount:shop:robot"


class KnownSpecs:
    """Teaches a server the credential spec `web-spec`, and that the service account `robot` may use it."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.granted = {(ROBOT, "web-spec")}
        self.put("web-spec", CREDSPEC)
        self.forget("missing")
        server.on("POST", REVIEWS, self.reviewed)

    def put(self, name: str, credspec: Any) -> None:
        body = {**spec_of(credspec), "metadata": {"name": name}}
        self.server.on("GET", f"{SPECS}/{name}", Answer(body=body))

    def forget(self, name: str) -> None:
        status = {
            "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": f'gmsacredentialspecs.windows.k8s.io "{name}" not found',
            "details": {"name": name, "group": "windows.k8s.io", "kind": "gmsacredentialspecs"},
        }  # fmt: skip
        self.server.on("GET", f"{SPECS}/{name}", Answer(404, status))

    def reviewed(self, request: Received) -> Answer:
        document: Document = json.loads(request.body)
        spec = document["spec"]
        allowed = (spec["user"], spec["resourceAttributes"]["name"]) in self.granted
        status = {"allowed": allowed} if allowed else {"allowed": False, "reason": "no binding of 100% use"}
        return Answer(201, {**document, "status": status})

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(each.method, each.path) for each in self.server.requests]
