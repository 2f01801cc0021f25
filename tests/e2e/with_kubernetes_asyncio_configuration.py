"""As with_kubernetes_asyncio, with an ApiClient of its own on kubeauth's Configuration."""

from __future__ import annotations

import asyncio

from kubernetes_asyncio import client

from kubeauth.adapters import kubernetes_asyncio
from tests.e2e.with_kubernetes_asyncio import main

if __name__ == "__main__":
    asyncio.run(main(lambda config: client.ApiClient(kubernetes_asyncio.configuration(config))))
