"""Exec plugins as shell scripts, which start in two milliseconds, and the configurations that run them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubeauth
from kubeauth import ClientConfig, ExecOptions, PluginPolicy
from kubeauth._exec.config import ExecCluster, ExecConfig
from kubeauth._exec.plugin import Plugin
from kubeauth.metrics._recorder import RECORDER
from kubeauth.testing import APIServer, KeyPair, PluginScript

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
Call = tuple[str, int]


def format_rfc3339(seconds: float) -> str:
    """A time in the format of expirationTimestamp."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def credential(
    token: str | None = None,
    pair: KeyPair | None = None,
    *,
    expires: float | None = None,
    version: str = V1,
    **more: Any,
) -> str:
    """An ExecCredential as a plugin prints it."""
    status: dict[str, Any] = dict(more)
    if token is not None:
        status["token"] = token
    if pair is not None:
        status |= {
            "clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode(),
        }  # fmt: skip
    if expires is not None:
        status["expirationTimestamp"] = format_rfc3339(expires)
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


class ShellPlugin:
    """A shell script that prints the contents of a file, and records KUBERNETES_EXEC_INFO of each run.

    It does what testdata/test-plugin.sh of client-go does with TEST_OUTPUT and TEST_EXIT_CODE.
    """

    def __init__(self, directory: Path, output: str | bytes | None = None, *, name: str = "plugin") -> None:
        self.path = directory / name
        self._output = directory / f"{name}.output"
        self._code = directory / f"{name}.code"
        self._exec_infos = directory / f"{name}.exec_infos"
        self.path.write_text(
            f'#!/bin/sh\nprintf "%s\\0" "$KUBERNETES_EXEC_INFO" >>"{self._exec_infos}"\n'
            f'cat "{self._output}"\nread -r code <"{self._code}"\nexit "$code"\n'
        )
        self.path.chmod(0o700)
        self.set_output(credential("foo-bar") if output is None else output)

    def set_output(self, output: str | bytes, exit_code: int = 0) -> None:
        """Set the output and the exit code of the runs that start from now on."""
        data = output if isinstance(output, bytes) else output.encode("utf-8", "surrogatepass")
        for path, content in ((self._output, data), (self._code, f"{exit_code}\n".encode())):
            new = path.with_suffix(".new")
            new.write_bytes(content)
            new.replace(path)

    @property
    def exec_infos(self) -> list[str]:
        """KUBERNETES_EXEC_INFO of each run, unparsed."""
        if not self._exec_infos.exists():
            return []
        return self._exec_infos.read_text().split("\0")[:-1]


class RecordingObserver:
    """An Observer that records each event."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.policy_checks: list[bool] = []
        self.refreshes: list[tuple[str, bool]] = []
        self.installs: list[tuple[float | None, float | None]] = []
        self.ages: list[float] = []

    def on_policy_check(self, *, allowed: bool) -> None:
        self.policy_checks.append(allowed)

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        self.calls.append((status, code))

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        self.refreshes.append((reason, succeeded))

    def on_credential(
        self, source: object, *, certificate_expires: float | None, token_expires: float | None
    ) -> None:
        self.installs.append((certificate_expires, token_expires))

    def on_certificate_rotated(self, *, age: float, lifetime: float) -> None:
        self.ages.append(age)


def exec_config(command: str | Path, **fields: Any) -> ExecConfig:
    return ExecConfig(
        **({"command": str(command), "api_version": V1, "interactive_mode": "IfAvailable"} | fields)
    )


def make_plugin(
    config: ExecConfig,
    seen: RecordingObserver | None = None,
    *,
    cluster: ExecCluster | None = None,
    tty: bool = False,
) -> Plugin:
    return Plugin(config, cluster, seen or RecordingObserver(), is_terminal=lambda: tty)


def build_config(
    server: APIServer,
    entry: dict[str, Any],
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    *,
    options: ExecOptions | None = None,
    policy: PluginPolicy | None = None,
) -> ClientConfig:
    """Load a kubeconfig whose user has this exec entry."""
    document = server.kubeconfig({"exec": entry, **(user or {})}, cluster)
    return kubeauth.load_config(document, exec_options=options, plugin_policy=policy)


def exec_entry(command: str | Path, *args: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": V1,
        "command": str(command),
        "args": list(args),
        "interactiveMode": "Never",
    } | fields


def plugin_config(server: APIServer, script: PluginScript | ShellPlugin, **fields: Any) -> ClientConfig:
    return build_config(server, exec_entry(script.path, **fields))


class MetricsDelta:
    """By how much client-go's metrics grew: calls by status and exit code, policy checks by status."""

    calls: dict[tuple[str, str], int]
    policy: dict[str, int]


@contextmanager
def metrics_delta() -> Iterator[MetricsDelta]:
    delta = MetricsDelta()
    before = _totals()
    yield delta
    after = _totals()
    grown = {labels: n - before.get(labels, 0) for labels, n in after.items() if n > before.get(labels, 0)}
    delta.calls = {(labels[2], labels[1]): n for labels, n in grown.items() if "_plugin_call" in labels[0]}
    delta.policy = {labels[1]: n for labels, n in grown.items() if "_policy_call" in labels[0]}


def _totals() -> dict[tuple[str, ...], int]:
    totals = RECORDER.snapshot().totals
    return {
        (counter.name, *labels): value
        for counter, series in totals.items()
        for labels, value in series.items()
    }
