"""Somebody's client, in a process of its own, past several expiries of its credential on the real API server.

A program under test lists and watches the ConfigMaps of a namespace until it is told to stop, and says what it
sees through `Report`:

    # tests/e2e/with_my_client.py, run as a module
    report = Report()
    config = kubeauth.load_config(report.kubeconfig)
    ... list report.namespace; then report.watching(), and watch from the list's resourceVersion
    ... report.event(type, name) for each event; report.listed() for each list; report.failed(error)
    ... until report.is_over

The test runs it while it makes ConfigMaps, and looks at what came of it:

    def test_past_expiries(cluster, tmp_path):
        past_expiries(cluster, tmp_path, "with_my_client")

All programs that it names run at once, and each twice, by what the plugin gives: a `certificate` that the server looks at on every request, or an ID `token`, of
which it remembers for 10 seconds that it was good: a run lasts longer than that after the first has expired.
Most of that is waiting, so they wait together.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster import ControlPlane
from tests.support.issuer import Issuer

# Longer than a busy machine stands still.
LIFETIMES = {"certificate": 6.0, "token": 6.0}
KINDS = tuple(LIFETIMES)
# The first, and one after each of three expiries, and one more so that the last of them was past for sure.
CREDENTIALS = 5
ROOT = Path(__file__).parent.parent.parent


class Report:
    """For the program under test: what it is given, and what it says. Its methods may be called in any thread."""

    def __init__(self) -> None:
        self.kubeconfig, self.namespace = sys.argv[1:]
        # Guards stdout.
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def watching(self) -> None:
        """From here on nothing may be missed."""
        self._say(what="watching")

    def listed(self) -> None:
        self._say(what="listed")

    def event(self, kind: str, name: str) -> None:
        self._say(what="event", kind=kind, name=name)

    def failed(self, error: BaseException) -> None:
        self._say(what="failed", error=f"{type(error).__name__}: {error}"[:500])

    def _say(self, **said: str) -> None:
        with self._lock:
            print(json.dumps(said), flush=True)

    def _hear(self) -> None:
        # Until the test closes it: read by its number, or the end of this program would wait for the file.
        while os.read(0, 1024):
            pass
        self._over.set()


@dataclass
class Outcome:
    """What the program said, and what was done meanwhile."""

    made: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])
    listed: int = 0
    issued: int = 0
    exit_code: int | None = None

    def check(self) -> None:
        """Nobody noticed anything: no failure, no event lost or repeated."""
        assert self.failures == [], self.failures[:5]
        added, made = Counter(self.added), Counter(self.made)
        assert added == made, f"lost {made - added}, too many {added - made}"
        assert self.issued >= CREDENTIALS, self.issued
        # One that runs its plugin for every request would be through with this in no time.
        assert self.listed > 20 * CREDENTIALS, self.listed
        assert self.exit_code == 0, self.exit_code


class _Plugin(Issuer):
    """A real program that asks this process for a credential which the real API server takes."""

    def __init__(self, directory: Path, cluster: ControlPlane, kind: str, user: str) -> None:
        self._cluster, self._kind, self._user = cluster, kind, user
        super().__init__(directory, cluster.client_ca, lifetime=LIFETIMES[kind])

    def _credential(self) -> dict[str, Any]:
        ends = datetime.datetime.fromtimestamp(int(time.time() + self._lifetime), datetime.UTC)
        status = {"expirationTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}
        if self._kind == "token":
            seconds = ends.timestamp() - time.time()
            status["token"] = self._cluster.issuer.id_token(self._user, seconds, jti=secrets.token_hex(8))
        else:
            pair = self._cluster.client_ca.client(self._user, not_after=ends)
            status |= {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
        return {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}


def past_expiries(
    cluster: ControlPlane, directory: Path, *programs: str, kinds: Sequence[str] = KINDS
) -> None:
    """Runs modules of tests.e2e past three expiries and more, with each kind of credential, all at once."""
    runs = list(product(programs, kinds))
    with ThreadPoolExecutor(len(runs)) as pool:
        outcomes = [
            pool.submit(_past_expiries, cluster, directory / str(number), *run)
            for number, run in enumerate(runs)
        ]
    for run, outcome in zip(runs, outcomes, strict=True):
        try:
            outcome.result().check()
        except BaseException as error:
            error.add_note(f"{run[0]}, with each {run[1]}")
            raise


def _past_expiries(cluster: ControlPlane, directory: Path, program: str, kind: str) -> Outcome:
    outcome = Outcome()
    directory.mkdir()
    name = f"{program}-{kind}".replace("_", "-")
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster.allow("view", user=f"oidc:{name}" if kind == "token" else name, namespace=name)
    with ExitStack() as stack:
        plugin = _Plugin(directory, cluster, kind, name)
        stack.callback(plugin.close)
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(cluster.kubeconfig({"exec": plugin.exec_config()})))
        process = stack.enter_context(_started(f"tests.e2e.{program}", str(path), name))
        ready = threading.Event()
        reader = threading.Thread(target=_hear, args=(process, outcome, ready))
        reader.start()
        try:
            assert ready.wait(60), "the program does not watch"
            while (plugin.runs < CREDENTIALS or not outcome.made) and not outcome.failures:
                outcome.made.append(f"m-{len(outcome.made)}")
                cluster.apply(_config_map(name, outcome.made[-1]))
                time.sleep(0.2)  # or the machine would do nothing but start kubectl
            _wait_for_all(outcome)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            reader.join(60)
            outcome.exit_code = process.wait(60)
        outcome.issued = plugin.runs
    return outcome


@contextmanager
def _started(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _hear(process: subprocess.Popen[str], outcome: Outcome, ready: threading.Event) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line)
        if said["what"] == "watching":
            ready.set()
        elif said["what"] == "listed":
            outcome.listed += 1
        elif said["what"] == "failed":
            outcome.failures.append(said["error"])
        elif said["name"].startswith("m-"):  # there are others, which the control plane makes
            outcome.added.append(
                said["name"] if said["kind"] == "ADDED" else f"{said['kind']} {said['name']}"
            )


def _wait_for_all(outcome: Outcome) -> None:
    """The last events are on their way. If one does not come, `check` says which."""
    for _ in range(1200):
        if len(outcome.added) >= len(outcome.made):
            return
        time.sleep(0.05)


def _config_map(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"k": "v"},
    }
