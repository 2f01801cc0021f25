"""Asks the GMSA webhook about two pods. The service account of one may use what it names, and the other not.

Starts a cluster on loopback that knows a credential spec, and who may use it. The webhook is the one that
`kubeauth gmsa serve` serves; here it is asked in memory, as the API server would ask it.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import anyio
import httpx

from kubeauth import AsyncClient
from kubeauth.gmsa import app, effective_credential_specs
from kubeauth.testing import Answer, APIServer, Received

TOKEN = "token-of-the-webhook"  # noqa: S105 -- of a server that this program starts
SPEC = {"metadata": {"name": "webapp1"}, "credspec": {"CmsPlugins": ["ActiveDirectory"]}}


def pod(account: str) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "serviceAccountName": account,
            "securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "webapp1"}},
            "containers": [{"name": "app"}, {"name": "sidecar"}],
        },
    }


def may_use(request: Received) -> Answer:
    """The access review of an API server: of all service accounts, `web` may."""
    review = json.loads(request.body)
    review["status"] = {"allowed": review["spec"]["user"] == "system:serviceaccount:shop:web"}
    return Answer(201, review)


async def ask(webhook: httpx.AsyncClient, path: str, document: dict[str, Any]) -> dict[str, Any]:
    request = {
        "uid": "1",
        "kind": {"kind": "Pod"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": document,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer: dict[str, Any] = (await webhook.post(path, json=review)).json()["response"]
    return answer


async def create(webhook: httpx.AsyncClient, document: dict[str, Any]) -> None:
    """What an API server does with a new pod: it has it changed, and then asks whether it may be."""
    answer = await ask(webhook, "/mutate", document)
    for operation in json.loads(base64.b64decode(answer.get("patch", "W10="))):
        print(f"  {operation['op']} {operation['path']}")
        options = document["spec"]["securityContext"]["windowsOptions"]
        options["gmsaCredentialSpec"] = operation["value"]
    answer = await ask(webhook, "/validate", document)
    if answer["allowed"]:
        for name, contents in effective_credential_specs(document).items():
            print(f"  {name} runs with {contents}")
    else:
        print(f"  denied, {answer['status']['code']}: {answer['status']['message']}")


async def main() -> None:
    with APIServer(tokens={TOKEN: "webhook"}) as server:
        server.on("GET", "/apis/windows.k8s.io/v1/gmsacredentialspecs/webapp1", Answer(body=SPEC))
        reviews = "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews"
        server.on("POST", reviews, may_use)
        async with (
            AsyncClient(server.config(token=TOKEN)) as client,
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app(client)), base_url="https://webhook"
            ) as webhook,
        ):
            for account in ("web", "somebody"):
                print(f"a pod of the service account {account}:")
                await create(webhook, pod(account))


if __name__ == "__main__":
    anyio.run(main)
