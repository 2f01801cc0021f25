"""Secrets of kube-system from an API server, for `TokenAuthenticator` and `DiscoveryFilter`."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from kubeauth._parsing import Json
from kubeauth.discovery._token import SECRET_NAMESPACE
from kubeauth.discovery._watch import TIMEOUT, APIClient, Reply, document, refusal
from kubeauth.errors import DiscoveryError


class ClusterSecrets:
    """Looks Secrets up in a cluster: `DiscoveryFilter(app, ClusterSecrets(client))`.

    `client` is an `AsyncClient`; whoever it is needs to `get` Secrets in kube-system. DiscoveryError if the
    server refuses. Closing the client is up to you.
    """

    def __init__(self, client: APIClient) -> None:
        self._client = client

    async def __call__(self, name: str) -> Mapping[str, Json] | None:
        """The Secret of that name; None if there is none."""
        path = f"/api/v1/namespaces/{SECRET_NAMESPACE}/secrets/{quote(name, safe='')}"
        found = _secret(path, await self._client.get(path, timeout=TIMEOUT))
        if isinstance(found, DiscoveryError):
            raise found
        return found


def _secret(path: str, reply: Reply) -> Mapping[str, Json] | DiscoveryError | None:
    """Never raises: the answer is a secret."""
    if reply.status_code == 404:
        return None
    found = document(reply.content)
    if reply.status_code != 200:
        return refusal(path, reply.status_code, found)
    if not isinstance(found, dict):
        return DiscoveryError(f"{path}: what the server answers is no Secret", status_code=200)
    return found
