"""Requests to 1,000 contexts from Dask workers: one plugin run per worker, and no secret on the network."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeauth.testing import APIServer, Authority, PluginScript
from tests.support.ports import free_ports
from tests.support.recording import Forwarder, Recording, forms

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
WORKERS = 3
CONTEXTS = 1000
SECRETS = {
    name: f"s3ntinel-{name}-0123456789"
    for name in ("plugin", "token", "password", "proxy", "argument", "variable", "extension", "unused")
}
# A secret in compressed data would not be found.
UNCOMPRESSED = {"DASK_DISTRIBUTED__COMM__COMPRESSION": "None"}


@pytest.fixture
def servers(authority: Authority) -> Iterator[list[APIServer]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                APIServer(
                    authority=authority,
                    tokens={SECRETS["plugin"]: "alice", SECRETS["token"]: "bob"},
                    passwords={"dora": SECRETS["password"]},
                )
            )
            for _ in range(3)
        ]


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    script = PluginScript(tmp_path)
    script.answer(token=SECRETS["plugin"], expires_in=7200)
    return script


@pytest.fixture
def key(authority: Authority, tmp_path: Path) -> bytes:
    pair = authority.client("carol")
    pair.write(tmp_path / "carol.pem", tmp_path / "carol.key")
    return pair.key


@pytest.fixture
def kubeconfig(servers: list[APIServer], plugin: PluginScript, key: bytes, tmp_path: Path) -> str:
    """1,000 contexts for three servers, most with the plugin, the others with every other kind of secret."""
    exec_config = plugin.exec_config(
        [SECRETS["argument"]], env=[{"name": "VARIABLE", "value": SECRETS["variable"]}]
    )
    certificate = (tmp_path / "carol.pem").read_bytes()
    users = {
        "alice": {"exec": exec_config},
        "bob": {"token": SECRETS["token"]},
        "carol": {
            "client-certificate-data": base64.b64encode(certificate).decode(),
            "client-key-data": base64.b64encode(key).decode(),
        },
        "carol-files": {"client-certificate": "carol.pem", "client-key": "carol.key"},
        "dora": {"username": "dora", "password": SECRETS["password"]},
        "unused": {"token": SECRETS["unused"]},
    }
    clusters = {
        str(number): server.kubeconfig({})["clusters"][0]["cluster"] for number, server in enumerate(servers)
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"key": SECRETS["extension"]}}
    clusters["unused"] = {
        "server": "https://h", "proxy-url": f"http://me:{SECRETS['proxy']}@p:1", "extensions": [extension]
    }  # fmt: skip
    other_users = {0: "bob", 1: "carol", 2: "carol-files", 3: "dora"}
    contexts = {
        f"context-{number:04}": {"cluster": str(number % 3), "user": other_users.get(number % 20, "alice")}
        for number in range(CONTEXTS - 1)
    } | {"by-token": {"cluster": "0", "user": "bob"}}
    document = {"current-context": "context-0005"} | {
        f"{kind}s": [{"name": name, kind: entry} for name, entry in entries.items()]
        for kind, entries in (("context", contexts), ("cluster", clusters), ("user", users))
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


class Dask:
    """A scheduler and workers as processes; their traffic with each other and with drivers is recorded."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.recording = Recording()
        self._directory = directory
        self._stack = stack
        scheduler, *workers = free_ports(WORKERS + 1)
        self._start("scheduler", "--host", "127.0.0.1", "--port", str(scheduler))
        self.address = f"tcp://127.0.0.1:{self._forward_to(scheduler)}"
        for number, port in enumerate(workers):
            contact = f"tcp://127.0.0.1:{self._forward_to(port)}"
            listen = ["--listen-address", f"tcp://127.0.0.1:{port}", "--contact-address", contact]
            options = ["--nthreads", "8", "--no-nanny", "--name", str(number)]
            self._start("worker", self.address, *listen, *options, WORKER=str(number))

    def _forward_to(self, port: int) -> int:
        return self._stack.enter_context(Forwarder(port, self.recording)).port

    def _start(self, kind: str, *options: str, **environ: str) -> None:
        log = self._stack.enter_context((self._directory / f"{kind}.log").open("a"))
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options, "--no-dashboard"],
                env={**os.environ, **UNCOMPRESSED, **environ},
                cwd=self._directory,
                stdout=log,
                stderr=log,
            )
        )
        self._stack.callback(process.kill)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            env={**os.environ, **UNCOMPRESSED},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    with ExitStack() as stack:
        yield Dask(tmp_path, stack)


@pytest.mark.slow
def test_a_thousand_contexts_run_the_plugin_once_per_worker_and_send_no_secret(
    dask: Dask, kubeconfig: str, plugin: PluginScript, servers: list[APIServer], key: bytes
) -> None:
    marker = "m4rker-0123456789"

    driver = dask.run("-m", "tests.support.dask_driver", dask.address, kubeconfig, str(WORKERS), marker)

    assert driver.returncode == 0, driver.stderr
    results: dict[str, Any] = json.loads(driver.stdout)
    # A config is pickled without secrets, and loaded again by the worker.
    assert results["results"] == [[["web", "context-0005", 200]] * 8] * WORKERS
    # Sending a client, or a config that contains a secret, is an error that says what to send instead.
    for case in ("live", "closure"):
        assert "ConfigError: Client cannot be pickled or copied" in results[case]
        assert "Send its ClientConfig" in results[case]
    assert "cannot pickle this ClientConfig: it contains secrets (token)" in results["inline"]
    assert "Pass the path of a kubeconfig" in results["inline"]

    example = dask.run("examples/dask_fleet.py", "--scheduler", dask.address, kubeconfig)

    assert (example.returncode, example.stdout.split("\n")) == (
        0,
        [f"{CONTEXTS:6} v1.36.0", f"{CONTEXTS} of {CONTEXTS} contexts answered", ""],
    ), example.stderr
    # Each worker ran the plugin once, for hundreds of contexts and for the configs of the driver.
    runs = Counter(run.environment.get("WORKER") for run in plugin.runs)
    assert runs == {str(number): 1 for number in range(WORKERS)}
    users = Counter(request.user for server in servers for request in server.requests)
    assert set(users) == {"alice", "bob", "carol", "dora"}
    assert users.total() >= CONTEXTS

    # The recording is complete: the path, the names and the markers of the driver are in it.
    recording = dask.recording
    for text in (kubeconfig, "context-0998", f"{marker}-as-it-is", f"{marker}-in-base64"):
        assert recording.has(text), text
    # No secret and no line of a key is, in plain text or in base64.
    for secret in SECRETS.values():
        assert not recording.has(secret), secret
    for line in key.decode().splitlines()[1:-1]:
        assert not recording.has(line)


def test_a_secret_in_base64_is_found_at_any_offset() -> None:
    secret = SECRETS["token"]
    for before in ("", "x", "xy", "xyz"):
        for after in ("", "z"):
            encoded = base64.b64encode(f"{before}{secret}{after}".encode())
            assert any(form in encoded for form in forms(secret))
    assert all(len(form) > 12 for form in forms(secret))
