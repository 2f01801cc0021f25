"""httpx and httpx2 by themselves: a static token, the same trust and the same pool as kubeauth's clients.

Their kubeconfig is JSON, and the user in it has a token.
"""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

from benchmarks.clients.opened import AsyncOpened, Opened


def options(library: Any, kubeconfig: str) -> dict[str, Any]:
    document = json.loads(Path(kubeconfig).read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return {
        "base_url": cluster["server"],
        "headers": {"Authorization": f"Bearer {user['token']}"},
        "verify": ssl.create_default_context(cadata=authority),
        "limits": library.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=90.0),
        "timeout": None,
        "trust_env": False,
    }


def opened(library: Any, kubeconfig: str) -> Opened:
    client = library.Client(**options(library, kubeconfig))

    def ask() -> int:
        return len(client.get("/api/v1/namespaces").raise_for_status().json()["items"])

    return Opened(ask, client.close)


def aopened(library: Any, kubeconfig: str) -> AsyncOpened:
    client = library.AsyncClient(**options(library, kubeconfig))

    async def ask() -> int:
        return len((await client.get("/api/v1/namespaces")).raise_for_status().json()["items"])

    return AsyncOpened(ask, client.aclose)
