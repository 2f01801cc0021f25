"""pykube-ng: objects around parsed JSON, on requests."""

from __future__ import annotations

import pykube
from pykube.http import KubernetesHTTPAdapter

from benchmarks.clients.opened import Opened


def sync(kubeconfig: str) -> Opened:
    config = pykube.KubeConfig.from_file(kubeconfig)
    # By default it keeps ten connections: 64 callers would spend their time in handshakes.
    client = pykube.HTTPClient(config, http_adapter=KubernetesHTTPAdapter(config, pool_maxsize=100))
    return Opened(lambda: sum(1 for _ in pykube.Namespace.objects(client)), client.session.close)


def load(kubeconfig: str) -> object:
    return pykube.KubeConfig.from_file(kubeconfig).user
