"""`kubeauth proxy` in front of a real API server: kubectl and curl go through it, beside `kubectl proxy`."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.programs import KUBEAUTH
from tests.e2e import tools
from tests.e2e.cluster import ControlPlane
from tests.proxy.serving import Wire, code_of, get
from tests.proxy.test_hostile import POD, post
from tests.support.residue import wait_until

NAMESPACE = "e2e-proxy"
ROOT = Path(__file__).parent.parent.parent
SIDECAR = ROOT / "examples" / "sidecar.yaml"


@pytest.fixture(scope="module")
def admin(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("proxy") / "admin"
    path.write_text(yaml.safe_dump(cluster.admin()))
    return path


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """Where a proxy says that it serves."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().removeprefix("Starting to serve on ").strip()
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def ours(admin: Path) -> Iterator[str]:
    with serving(*KUBEAUTH, "proxy", "--kubeconfig", str(admin), "--port", "0") as address:
        yield address


@pytest.fixture(scope="module")
def theirs(admin: Path) -> Iterator[str]:
    command = [str(tools.kubectl()), "proxy", "--kubeconfig", str(admin), "--port", "0"]
    with serving(*command) as address:
        yield address


@pytest.fixture
def kubectl(cluster: ControlPlane, ours: str) -> Any:
    """kubectl that knows nothing but the proxy's address."""

    def run(*arguments: str, stdin: Mapping[str, Any] | None = None) -> str:
        nobody: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
        text = None if stdin is None else json.dumps(stdin)
        done = cluster.kubectl("--server", f"http://{ours}", *arguments, kubeconfig=nobody, stdin=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_kubectl_goes_through(kubectl: Any, ours: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "empty"
    nowhere.write_text("{}")
    assert "system:masters" in kubectl("auth", "whoami")
    assert "configmaps" in kubectl("api-resources")
    kubectl("create", "namespace", NAMESPACE)
    thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": NAMESPACE}}
    big = {"blob": "x" * 200_000}  # more than is read before it is sent
    assert "created" in kubectl("create", "-f", "-", stdin={**thing, "data": big})
    kubectl("apply", "--server-side", "-f", "-", stdin={**thing, "data": {"k": "v"}})
    found = json.loads(kubectl("get", "configmap", "one", "-n", NAMESPACE, "-o", "json"))
    assert found["data"] == {**big, "k": "v"}
    kubectl("patch", "configmap", "one", "-n", NAMESPACE, "-p", '{"data":{"k":"w"}}')
    server = [str(tools.kubectl()), "--server", f"http://{ours}", "--kubeconfig", str(nowhere)]
    command = [*server, "get", "configmap", "-n", NAMESPACE, "--watch", "-o", "name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout
        seen = {watching.stdout.readline().strip()}
        kubectl("create", "configmap", "two", "-n", NAMESPACE)
        while "configmap/two" not in seen:
            seen.add(watching.stdout.readline().strip())
        watching.terminate()
    assert 'configmap "one" deleted' in kubectl("delete", "configmap", "one", "-n", NAMESPACE)


def test_exec_is_refused_and_port_forward_reaches_the_server(
    cluster: ControlPlane, ours: str, admin: Path
) -> None:
    """There is no kubelet: how far a request comes is seen in who says no."""
    container = {"name": "c", "image": "registry.invalid/c:1"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{NAMESPACE}-pods"}}
    cluster.apply(namespace)
    wait_until(
        lambda: cluster.kubectl("get", "serviceaccount", "default", "-n", f"{NAMESPACE}-pods").returncode == 0
    )
    pod = {"metadata": {"name": "web", "namespace": f"{NAMESPACE}-pods"}, "spec": {"containers": [container]}}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", **pod})
    nobody = {"apiVersion": "v1", "kind": "Config"}
    asked = ["exec", "-n", f"{NAMESPACE}-pods", "web", "--", "true"]
    refused = cluster.kubectl("--server", f"http://{ours}", *asked, kubeconfig=nobody)
    assert "orbidden" in refused.stderr
    flags = ["--kubeconfig", str(admin), "--port", "0", "--reject-paths", "^$"]
    with serving(*KUBEAUTH, "proxy", *flags) as address:
        passed = cluster.kubectl("--server", f"http://{address}", *asked, kubeconfig=nobody)
    direct = cluster.kubectl(*asked)
    assert passed.returncode == direct.returncode != 0
    assert passed.stderr.splitlines()[-1] == direct.stderr.splitlines()[-1]
    assert "does not have a host assigned" in passed.stderr


def curl(*arguments: str) -> str:
    program = shutil.which("curl")
    assert program, "curl is needed: it is in Debian's package of that name"
    done = subprocess.run(
        [program, "-sS", "--max-time", "60", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_curl(ours: str, admin: Path, tmp_path: Path) -> None:
    assert json.loads(curl(f"http://{ours}/version"))["major"] == "1"
    assert json.loads(curl(f"http://{ours}/api/v1/namespaces?limit=1"))["kind"] == "NamespaceList"
    assert (
        curl("-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: evil", f"http://{ours}/version") == "403"
    )
    path = tmp_path / "sock"
    with serving(*KUBEAUTH, "proxy", "--kubeconfig", str(admin), "--unix-socket", str(path)) as where:
        assert where == str(path)
        assert json.loads(curl("--unix-socket", where, "http://kube/version"))["major"] == "1"


# What both say the same to: what is asked, and the code.
ALIKE = {
    "the version": (get(), 200),
    "the root": (get("/"), 200),
    "a list": (get("/api/v1/namespaces?limit=1"), 200),
    "nothing there": (get("/api/v1/nothing"), 404),
    "no such path": (get("/nowhere/at/all"), 404),
    "head": (get(method="HEAD"), 405),
    "a method that is none of its": (get("/api/v1/namespaces", method="FOO"), 405),
    "options": (get("/version", method="OPTIONS"), 405),
    "by address": (get(host="127.0.0.1:8001"), 200),
    "by name and port": (get(host="localhost:1"), 200),
    "by IPv6": (get(host="[::1]"), 200),
    "another host": (get(host="evil.example"), 403),
    "capitals": (get(host="LOCALHOST"), 403),
    "a dot at the end": (get(host="localhost."), 403),
    "an empty host": (get(host=""), 403),
    "no host": (b"GET /version HTTP/1.1\r\n\r\n", 400),
    "no host in 1.0": (b"GET /version HTTP/1.0\r\n\r\n", 403),
    "1.0": (b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
    "two hosts": (get("/version", "localhost", "Host: localhost"), 400),
    "exec": (get(f"{POD}/exec"), 403),
    "exec, escaped": (get(f"{POD}/%65xec"), 403),
    "attach": (get(f"{POD}/attach", method="POST"), 403),
    "exec, in a URL": (get(f"http://localhost{POD}/exec"), 403),
    "a URL of ours": (get("http://localhost/version"), 200),
    "an escape that is none": (get("/%zz"), 400),
    "a fault in the target": (get("version"), 400),
    "their own token": (get("/api", "localhost", "Authorization: Bearer wrong"), 401),
    "impersonated": (get("/api/v1/secrets", "localhost", "Impersonate-User: nobody"), 403),
    "a body": (post("Content-Length: 2", "Content-Type: application/json", "Connection: close", body="{}"), 201),
    "a body in chunks": (post("Transfer-Encoding: chunked", "Content-Type: application/json", "Connection: close", body="2\r\n{}\r\n0\r\n\r\n"), 201),
    "two lengths": (post("Content-Length: 2", "Content-Length: 3", body="{} "), 400),
    "a length with a sign": (post("Content-Length: +2", body="{}"), 400),
    "chunks of another kind": (post("Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"), 501),
    "a header without a colon": (get("/version", "localhost", "nonsense"), 400),
    "a blank before a colon": (get("/version", "localhost", "X : y"), 400),
    "an expectation": (post("Expect: a-miracle", "Content-Length: 2", body="{}"), 417),
    "not HTTP": (b"\x16\x03\x01\x02\r\n\r\n", 400),
    "a stream that nobody wants": (get("/version", "localhost", "Upgrade: websocket"), 200),
    "another HTTP, behind our back": (get("/version", "localhost", "Upgrade: h2c"), 200),
}  # fmt: skip
# What kubectl proxy says otherwise: what is asked, what it says, and what we say. docs/proxy.md has them all.
DIFFERENT = {
    "two slashes": (get("//version"), 307, 400),
    "dots": (get("/api/../version"), 307, 400),
    "escaped dots": (get("/api/%2e%2e/version"), 404, 400),
    "an escaped slash": (get("/api%2fv1"), 200, 400),
    "a semicolon": (get("/version;x"), 404, 400),
    "an origin": (get("/version", "localhost", "Origin: http://evil.example"), 200, 403),
    "another site": (get("/version", "localhost", "Sec-Fetch-Site: cross-site"), 200, 403),
    "another port of this host": (get("/version", "localhost", "Sec-Fetch-Site: same-site"), 200, 403),
    "an origin of another scheme": (get("/version", "localhost", "Origin: evil://localhost"), 200, 403),
    "by IPv6 and port": (get(host="[::1]:8001"), 403, 200),
    "a URL of another host": (get("http://evil.example/version"), 403, 400),
    "connect": (get("kubernetes.default:443", method="CONNECT"), 404, 405),
    "small letters": (get(method="get"), 405, 400),
    "who asks, taken away": (get("/version", "localhost", "Connection: Impersonate-User"), 200, 400),
}  # fmt: skip


def said(address: str, data: bytes) -> int:
    host, _, port = address.rpartition(":")
    with Wire(socket.create_connection((host, int(port)), timeout=60)) as wire:
        wire.say(data)
        return code_of(wire.until(b"\r\n\r\n"))


@pytest.mark.parametrize("case", ALIKE)
def test_as_kubectl_proxy(ours: str, theirs: str, case: str) -> None:
    data, code = ALIKE[case]
    assert (said(theirs, data), said(ours, data)) == (code, code)


@pytest.mark.parametrize("case", DIFFERENT)
def test_unlike_kubectl_proxy(ours: str, theirs: str, case: str) -> None:
    data, their_code, our_code = DIFFERENT[case]
    assert (said(theirs, data), said(ours, data)) == (their_code, our_code)


def test_the_sidecar_is_what_a_cluster_takes(cluster: ControlPlane) -> None:
    done = cluster.kubectl("apply", "--dry-run=server", "-f", str(SIDECAR))
    assert done.returncode == 0, shlex.join(map(str, done.args)) + done.stderr
