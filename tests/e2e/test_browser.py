"""Pages of another origin in a real browser, which try to use `kubeauth proxy` on loopback."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from tests.cli.programs import KUBEAUTH
from tests.e2e import tools
from tests.e2e.browser import FOREIGN_HOST, HostilePage, browsing, dump_dom
from tests.e2e.cluster import ControlPlane
from tests.e2e.test_proxy import serving
from tests.support.ports import free_ports
from tests.support.residue import wait_until

# Attacks that create, change or delete something, of those in tests/e2e/browser.py.
WRITES = {
    "post-no-cors",
    "post-text",
    "post-cors",
    "post-preflight",
    "put",
    "delete",
    "beacon",
    "form-text",
    "form",
}
READS = {"get-cors", "get-no-cors", "image", "script", "stylesheet", "frame", "events", "websocket"}


class Proxied:
    """A proxy in front of the control plane, and what reached the API server from one browser."""

    def __init__(self, cluster: ControlPlane, address: str, metrics: str = "") -> None:
        self._cluster = cluster
        self.port = address.rpartition(":")[2]
        self.targets = {"address": f"http://127.0.0.1:{self.port}", "name": f"http://localhost:{self.port}"}
        self._metrics = metrics
        self.user_agent = f"kubeauth-e2e-browser/{uuid.uuid4()}"

    def arrived(self) -> list[dict[str, Any]]:
        """Every request of this browser that reached the API server, as its audit log has it."""
        return [each for each in self._cluster.audit() if each.get("userAgent") == self.user_agent]

    def rejected(self) -> int:
        """How many requests the proxy has rejected because of where they came from."""
        with urlopen(f"http://{self._metrics}/metrics", timeout=60) as answer:
            found = re.search(r'kubeauth_proxy_refused_total{reason="origin"} (\d+)', answer.read().decode())
        return int(found[1]) if found else 0


@pytest.fixture
def admin(cluster: ControlPlane, tmp_path: Path) -> Path:
    path = tmp_path / "admin"
    path.write_text(yaml.safe_dump(cluster.admin()))
    return path


@pytest.fixture
def ours(cluster: ControlPlane, admin: Path) -> Iterator[Proxied]:
    (port,) = free_ports(1)
    flags = ["--kubeconfig", str(admin), "--port", "0", "--metrics-port", str(port)]
    with serving(*KUBEAUTH, "proxy", *flags) as address:
        yield Proxied(cluster, address, f"127.0.0.1:{port}")


@pytest.fixture
def theirs(cluster: ControlPlane, admin: Path) -> Iterator[Proxied]:
    command = [str(tools.kubectl()), "proxy", "--kubeconfig", str(admin), "--port", "0"]
    with serving(*command) as address:
        yield Proxied(cluster, address)


@pytest.fixture
def victim(cluster: ControlPlane) -> None:
    """A ConfigMap for a page to delete."""
    metadata = {"name": "victim", "namespace": "default"}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def config_maps(cluster: ControlPlane) -> set[str]:
    listed = cluster.kubectl("get", "configmaps", "-n", "default", "-o", "name")
    assert listed.returncode == 0, listed.stderr
    return {line.partition("/")[2] for line in listed.stdout.splitlines()}


@pytest.mark.usefixtures("victim")
@pytest.mark.parametrize("page_host", ["127.0.0.1", "localhost", FOREIGN_HOST])
def test_a_page_of_another_origin_can_neither_read_nor_write(
    cluster: ControlPlane, ours: Proxied, page_host: str
) -> None:
    """Not one of its requests reaches the API server, by whichever name it requests the proxy."""
    before = config_maps(cluster)
    with HostilePage(ours.targets) as page:
        with browsing(f"http://{page_host}:{page.port}/", user_agent=ours.user_agent):
            results = page.results()
            assert set(results) == {f"{each}-{target}" for each in READS | WRITES for target in ours.targets}
            assert {name: result for name, result in results.items() if "READ" in result} == {}
            assert ours.arrived() == []
            # All of them came as far as the proxy: also the beacons, whose answers no page waits for.
            wait_until(lambda: ours.rejected() >= len(results))
    assert ours.arrived() == []
    assert config_maps(cluster) == before
    assert "victim" in before


@pytest.mark.usefixtures("victim")
def test_the_same_page_writes_and_reads_through_kubectl_proxy(cluster: ControlPlane, theirs: Proxied) -> None:
    """So it is the proxy that keeps it from that, and neither the page nor the browser."""
    with HostilePage(theirs.targets) as page:
        with browsing(f"http://127.0.0.1:{page.port}/", user_agent=theirs.user_agent):
            results = page.results()
            created = {f"{each}-{target}" for each in ("post-no-cors", "beacon") for target in theirs.targets}
            wait_until(lambda: created <= config_maps(cluster))
    cluster.kubectl("delete", "configmap", "-n", "default", *created)
    assert results["websocket-address"].startswith("READ ")
    assert {each["verb"] for each in theirs.arrived()} >= {"create", "list", "watch"}


def test_a_user_can_open_the_proxy_in_a_browser(ours: Proxied) -> None:
    for target in ours.targets.values():
        assert "gitVersion" in dump_dom(f"{target}/version", user_agent=ours.user_agent)
    assert {each["requestURI"] for each in ours.arrived()} >= {"/version"}


def test_a_name_that_was_rebound_to_loopback_is_rejected(ours: Proxied) -> None:
    """The page would be of the proxy's own origin, to the browser; but not by a name of the proxy."""
    shown = dump_dom(f"http://{FOREIGN_HOST}:{ours.port}/version", user_agent=ours.user_agent)
    assert "--accept-hosts" in shown
    assert "gitVersion" not in shown
    assert ours.arrived() == []
