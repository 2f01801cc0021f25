"""Configurations that run exec plugins, and what their runs are counted as."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubeauth
from kubeauth import ClientConfig, ExecOptions, PluginPolicy
from kubeauth._exec.config import ExecCluster, ExecConfig
from kubeauth._exec.plugin import Plugin
from kubeauth.metrics._recorder import RECORDER
from kubeauth.testing import APIServer
from tests.support.kubeconfigs import V1
from tests.support.shell_plugin import ShellPlugin

V1BETA1 = "client.authentication.k8s.io/v1beta1"
Call = tuple[str, int]


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


def plugin_config(server: APIServer, script: ShellPlugin, **fields: Any) -> ClientConfig:
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
