"""kubernetes, the official client: models of every object."""

from __future__ import annotations

from typing import Any

from kubernetes import client, config

from benchmarks.clients.opened import Opened


def sync(kubeconfig: str) -> Opened:
    configuration = client.Configuration()
    # By default five per core: 64 callers would spend their time in handshakes.
    configuration.connection_pool_maxsize = 100
    config.load_kube_config(kubeconfig, client_configuration=configuration)
    api = client.ApiClient(configuration)
    core: Any = client.CoreV1Api(api)
    return Opened(lambda: len(core.list_namespace().items), api.close)


def load(kubeconfig: str) -> object:
    configuration = client.Configuration()
    config.load_kube_config(kubeconfig, client_configuration=configuration)
    return configuration
