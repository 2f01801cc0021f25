"""How to test a program of yours without a cluster and without mocks: a real server, on loopback."""

from __future__ import annotations

import httpx

import kubeauth
from kubeauth.testing import Answer, APIServer, Received


def scale(client: httpx.Client, name: str, replicas: int) -> int:
    """The code under test."""
    path = f"/apis/apps/v1/namespaces/default/deployments/{name}/scale"
    response = client.patch(
        path,
        json={"spec": {"replicas": replicas}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    response.raise_for_status()
    found: int = response.json()["spec"]["replicas"]
    return found


def test_scale() -> None:
    def answer(request: Received) -> Answer:
        return Answer(200, request.body, {"Content-Type": "application/json"})

    with APIServer(tokens={"secret": "alice"}) as server:
        server.on("PATCH", "/apis/apps/v1/namespaces/default/deployments/web/scale", answer)
        with kubeauth.Client(server.config(token="secret")) as client:  # noqa: S106 -- not one
            assert scale(client, "web", 3) == 3
        (request,) = server.requests
        assert request.user == "alice"
        assert request.header("content-type") == "application/merge-patch+json"


if __name__ == "__main__":
    test_scale()
    print("ok")
