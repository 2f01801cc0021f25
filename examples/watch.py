"""Watch pods until the server ends the watch. Files that change meanwhile end nothing.

python examples/watch.py [NAMESPACE]
"""

from __future__ import annotations

import asyncio
import json
import sys

import httpx

import kubeauth


async def main() -> None:
    config = kubeauth.load_config()
    namespace = sys.argv[1] if len(sys.argv) > 1 else config.namespace
    async with kubeauth.AsyncClient(config) as client:
        path = f"/api/v1/namespaces/{namespace}/pods"
        # A watch may be quiet for hours: Client has no read timeout unless you give it one.
        async with client.stream("GET", path, params={"watch": "true"}) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                event = json.loads(line)
                print(event["type"], event["object"]["metadata"]["name"], flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (kubeauth.errors.KubeAuthError, httpx.HTTPError) as error:
        sys.exit(f"error: {error}")
