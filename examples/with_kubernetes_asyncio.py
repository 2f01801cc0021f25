"""`kubernetes_asyncio` with kubeauth's credentials: many tasks at once, and one run of the plugin.

Starts a local API server and a plugin that gives client certificates, so that it runs anywhere; leave
`config` away, and it is your own cluster. Needs `pip install 'kubeauth[kubernetes_asyncio]'`.
"""

from __future__ import annotations

import asyncio
import tempfile

from kubernetes_asyncio import client

import kubeauth
from kubeauth.adapters import kubernetes_asyncio
from kubeauth.testing import APIServer, PluginScript


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory, APIServer(require_certificate=True) as server:
        plugin = PluginScript(directory)
        pair = server.authority.client("alice")
        plugin.answer(certificate=pair.certificate, key=pair.key, expires_in=900)
        config = kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))

        async with kubernetes_asyncio.api_client(config) as api:
            core = client.CoreV1Api(api)
            found = await asyncio.gather(*(core.list_namespace() for _ in range(50)))
            print("lists of namespaces:", len(found))
            print("namespaces:", ", ".join(item.metadata.name for item in found[0].items))
            print("credential:", api.status().kind)
        print("who asked:", {request.user for request in server.requests})
        print("runs of the plugin:", len(plugin.runs))


if __name__ == "__main__":
    asyncio.run(main())
