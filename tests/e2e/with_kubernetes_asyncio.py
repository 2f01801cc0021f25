"""The program of test_client_kubernetes_asyncio: see past_expiries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kubernetes_asyncio import client, watch

import kubeauth
from kubeauth.adapters import kubernetes_asyncio
from tests.e2e.past_expiries import Report


async def lists(report: Report, core: Any) -> None:
    while not report.is_over:
        try:
            await core.list_namespaced_config_map(report.namespace)
            report.listed()
        except Exception as error:
            report.failed(error)
        await asyncio.sleep(0.1)


async def watches(report: Report, core: Any, version: str) -> None:
    try:
        async with watch.Watch() as watcher:
            async for event in watcher.stream(
                core.list_namespaced_config_map,
                report.namespace,
                resource_version=version,
                timeout_seconds=300,
            ):
                report.event(event["type"], event["object"].metadata.name)
        report.failed(RuntimeError("the watch was cut"))
    except Exception as error:
        report.failed(error)


async def main(
    api_client: Callable[[kubeauth.ClientConfig], client.ApiClient] = kubernetes_asyncio.api_client,
) -> None:
    report = Report()
    async with api_client(kubeauth.load_config(report.kubeconfig)) as api:
        core: Any = client.CoreV1Api(api)
        version = (await core.list_namespaced_config_map(report.namespace)).metadata.resource_version
        report.watching()
        watcher = asyncio.create_task(watches(report, core, version))
        await asyncio.gather(*(lists(report, core) for _ in range(4)))
        watcher.cancel()
        await asyncio.wait([watcher])


if __name__ == "__main__":
    asyncio.run(main())
