"""The program of test_client_kubernetes: see past_expiries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client, watch

import kubeauth
from kubeauth.adapters import kubernetes
from tests.e2e.past_expiries import Report


def lists(report: Report, core: client.CoreV1Api) -> None:
    while not report.is_over:
        try:
            core.list_namespaced_config_map(report.namespace)
            report.listed()
        except Exception as error:
            report.failed(error)
        time.sleep(0.1)


def watches(report: Report, core: client.CoreV1Api, watcher: Any, version: str) -> None:
    try:
        for event in watcher.stream(
            core.list_namespaced_config_map, report.namespace, resource_version=version, timeout_seconds=300
        ):
            report.event(event["type"], event["object"].metadata.name)
        if not report.is_over:
            report.failed(RuntimeError("the watch was cut"))
    except Exception as error:
        if not report.is_over:
            report.failed(error)


def main(api_client: Callable[[kubeauth.ClientConfig], client.ApiClient] = kubernetes.api_client) -> None:
    report = Report()
    with api_client(kubeauth.load_config(report.kubeconfig)) as api:
        core: Any = client.CoreV1Api(api)
        version = core.list_namespaced_config_map(report.namespace).metadata.resource_version
        report.watching()
        watcher = threading.Thread(target=watches, args=(report, core, watch.Watch(), version), daemon=True)
        watcher.start()
        callers = [threading.Thread(target=lists, args=(report, core)) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()


if __name__ == "__main__":
    main()
