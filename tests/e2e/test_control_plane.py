"""The ground that the others stand on: that it is what it says, and that it goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kubeauth import Client, load_config
from tests.e2e import tools
from tests.e2e.cluster import ControlPlane

_STARTS_ONE = """
import json, time
from tests.e2e.cluster import ControlPlane
with ControlPlane() as cluster:
    pids = [process.pid for process in cluster._running.values()]
    print(json.dumps([str(cluster.directory), pids]), flush=True)
    time.sleep(600)
"""


def test_it_is_the_release_that_it_says(cluster: ControlPlane) -> None:
    with Client(load_config(cluster.admin())) as client:
        assert client.get("/version").json()["gitVersion"] == f"v{tools.KUBERNETES}"
    versions = json.loads(cluster.kubectl("version", "-o", "json").stdout)
    assert versions["clientVersion"]["gitVersion"] == versions["serverVersion"]["gitVersion"]


def test_bootstrap_tokens_are_taken(cluster: ControlPlane) -> None:
    secret = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
    }
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": secret,
        }
    )
    with Client(load_config(cluster.kubeconfig({"token": "abcdef.0123456789abcdef"}))) as client:
        while (answer := client.get("/api/v1/nodes")).status_code == 401:
            time.sleep(0.1)  # until the server has heard of it
    assert 'User \\"system:bootstrap:abcdef\\" cannot' in answer.text


def test_nothing_is_left_when_whoever_started_it_is_killed() -> None:
    starter = subprocess.Popen([sys.executable, "-c", _STARTS_ONE], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    directory, keepers = json.loads(starter.stdout.readline())
    children = [pid for keeper in keepers for pid in _children(keeper)]
    assert len(children) == len(keepers) == 3
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    while any(_is_alive(pid) for pid in [*keepers, *children]) or os.path.exists(directory):
        time.sleep(0.1)  # the time limit of a test ends this


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
