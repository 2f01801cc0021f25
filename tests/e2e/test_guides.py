"""What the guides say about clusters, on a real one."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from kubeauth import Client, ClientConfig
from kubeauth._config.environment import Environment
from kubeauth._config.in_cluster import load_in_cluster
from kubeauth._config.kubeconfig import Overrides
from tests.e2e.cluster import ControlPlane
from tests.project.test_guides import running, until
from tests.support.blocks import ROOT, blocks, find_block


def in_the_pod_of(account: str, cluster: ControlPlane, mounted: Path) -> ClientConfig:
    """What the kubelet mounts into a pod, and what kubeauth makes of it."""
    server = urlsplit(cluster.server)
    (mounted / "token").write_text(cluster.kubectl("create", "token", account).stdout)
    (mounted / "ca.crt").write_bytes(cluster.ca)
    (mounted / "namespace").write_text("default")
    environ = {"KUBERNETES_SERVICE_HOST": server.hostname or "", "KUBERNETES_SERVICE_PORT": str(server.port)}
    return load_in_cluster(Environment(environ=environ, service_account_dir=str(mounted)), Overrides())


def test_in_a_pod_the_manifests_allow_what_they_say_and_no_more(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    (block,) = blocks(ROOT / "docs/guides/in-cluster.md", "yaml")
    cluster.apply(*yaml.safe_load_all(block.code))
    with Client(in_the_pod_of("reader", cluster, tmp_path)) as client:
        pods = "/api/v1/namespaces/default/pods"
        while (listed := client.get(pods)).status_code == 403:
            time.sleep(0.1)  # until the server has heard of the role
        assert listed.status_code == 200
        version = listed.json()["metadata"]["resourceVersion"]
        watch = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
        assert client.get(pods, params=watch).status_code == 200
        for forbidden in (
            "/api/v1/namespaces/default/secrets",
            "/api/v1/namespaces/kube-system/pods",
            "/api/v1/nodes",
        ):
            refused = client.get(forbidden)
            assert refused.status_code == 403
            # The guide: its message names verb, resource and service account.
            assert 'User "system:serviceaccount:default:reader" cannot list' in refused.json()["message"]


def test_the_controller_follows_real_objects(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(yaml.safe_dump(cluster.admin()))
    program = find_block("guides/controller.md", "controller.py")
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
    }
    with running(program, tmp_path, "default", KUBECONFIG=str(kubeconfig)) as (_process, lines):
        until(lines, "default/kube-root-ca.crt is at ")
        cluster.apply(settings)
        until(lines, "default/settings is at ")
        cluster.kubectl("delete", "configmap", "settings")
        until(lines, "default/settings is gone")
