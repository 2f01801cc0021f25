"""Credential specs, and who may use them, from an API server (B53-B60)."""

from __future__ import annotations

import logging
from typing import Protocol

from kubeauth._parsing import Json
from kubeauth.errors import KubeAuthError
from kubeauth.gmsa._api import review_document, review_path, review_verdict, spec_answer, spec_path
from kubeauth.gmsa._steps import Answer, Review, Unavailable, Verdict
from kubeauth.gmsa._throttle import Throttle

logger = logging.getLogger("kubeauth.gmsa")

# Connect, read, write, and wait for a connection. A decision has a limit of its own, above all of them.
TIMEOUT = (5.0, 10.0, 10.0, 10.0)
Timeout = tuple[float, float, float, float]


class Reply(Protocol):
    """What is looked at of a response, whichever library it is of."""

    @property
    def status_code(self) -> int: ...
    @property
    def content(self) -> bytes: ...


class APIClient(Protocol):
    """An `AsyncClient` of kubeauth, or of `kubeauth.httpx2`."""

    # Both libraries call it a timeout.
    async def get(self, url: str, /, *, timeout: Timeout) -> Reply: ...  # noqa: ASYNC109 -- as httpx has it
    async def post(self, url: str, /, *, json: Json, timeout: Timeout) -> Reply: ...  # noqa: ASYNC109 -- as httpx has it


class Cluster:
    """Asks an API server. Nothing is kept: who loses a right loses it at once (B57).

    Who cannot be asked is an answer like any other, so that it becomes a denial.
    """

    def __init__(self, client: APIClient, throttle: Throttle | None = None) -> None:
        self._client = client
        self._throttle = throttle

    async def lookup(self, name: str) -> Answer:
        path = spec_path(name)
        await self._turn()
        try:
            reply = await self._client.get(path, timeout=TIMEOUT)
        except Exception as error:
            return Unavailable(_on_the_way(path, error))
        return spec_answer(name, reply.status_code, reply.content)

    async def review(self, review: Review) -> Verdict:
        path = review_path(review)
        await self._turn()
        try:
            reply = await self._client.post(path, json=review_document(review), timeout=TIMEOUT)
        except Exception as error:
            return Verdict(False, _on_the_way(path, error))
        return review_verdict(reply.status_code, reply.content)

    async def _turn(self) -> None:
        if self._throttle is not None:
            await self._throttle.turn()


def _on_the_way(path: str, error: Exception) -> str:
    """What whoever creates a pod is told. The rest may name files: it is for whoever runs the webhook."""
    kinds = {(kind.__module__, kind.__name__) for kind in type(error).__mro__}
    if not isinstance(error, KubeAuthError) and kinds.isdisjoint(
        {("httpx", "HTTPError"), ("httpx2", "HTTPError")}
    ):
        raise error  # a mistake of ours, or of whose client it is
    logger.warning("%s: the API server cannot be asked: %s: %s", path, type(error).__name__, error)
    return f"the API server cannot be asked ({type(error).__name__}); the log of the webhook says more"
