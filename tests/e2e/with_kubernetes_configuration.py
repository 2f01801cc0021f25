"""As with_kubernetes, with an ApiClient of its own on kubeauth's Configuration."""

from __future__ import annotations

from kubernetes import client

from kubeauth.adapters import kubernetes
from tests.e2e.with_kubernetes import main

if __name__ == "__main__":
    main(lambda config: client.ApiClient(kubernetes.configuration(config)))
