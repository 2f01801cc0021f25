"""Plugins for the tables: real programs, mostly of the shell, which starts in two milliseconds."""

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


def stamp(seconds: float) -> str:
    """A moment as Kubernetes writes it."""
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
        status["expirationTimestamp"] = stamp(expires)
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


class ShellPlugin:
    """A program of the shell that prints what is in the file beside it, and keeps what it was told.

    The fixture of upstream's tables: prints TEST_OUTPUT, ends with TEST_EXIT_CODE.
    """

    def __init__(self, directory: Path, output: str | bytes | None = None, *, name: str = "plugin") -> None:
        self.path = directory / name
        self._output = directory / f"{name}.output"
        self._code = directory / f"{name}.code"
        self._infos = directory / f"{name}.infos"
        self.path.write_text(
            f'#!/bin/sh\nprintf "%s\\0" "$KUBERNETES_EXEC_INFO" >>"{self._infos}"\n'
            f'cat "{self._output}"\nread -r code <"{self._code}"\nexit "$code"\n'
        )
        self.path.chmod(0o700)
        self.says(credential("foo-bar") if output is None else output)

    def says(self, output: str | bytes, exit_code: int = 0) -> None:
        """From the next run on."""
        data = output if isinstance(output, bytes) else output.encode("utf-8", "surrogatepass")
        for path, content in ((self._output, data), (self._code, f"{exit_code}\n".encode())):
            new = path.with_suffix(".new")
            new.write_bytes(content)
            new.replace(path)

    @property
    def infos(self) -> list[str]:
        """KUBERNETES_EXEC_INFO of each run, as it was."""
        if not self._infos.exists():
            return []
        return self._infos.read_text().split("\0")[:-1]


class Seen:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.policy: list[bool] = []
        self.renewals: list[tuple[str, bool]] = []
        self.installs: list[tuple[float | None, float | None]] = []
        self.ages: list[float] = []

    def on_policy_check(self, *, allowed: bool) -> None:
        self.policy.append(allowed)

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        self.calls.append((status, code))

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        self.renewals.append((reason, succeeded))

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


def plugin(
    config: ExecConfig, seen: Seen | None = None, *, cluster: ExecCluster | None = None, tty: bool = False
) -> Plugin:
    return Plugin(config, cluster, seen or Seen(), is_terminal=lambda: tty)


def configured(
    server: APIServer,
    stanza: dict[str, Any],
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    *,
    options: ExecOptions | None = None,
    policy: PluginPolicy | None = None,
) -> ClientConfig:
    """As a kubeconfig with this exec stanza says."""
    document = server.kubeconfig({"exec": stanza, **(user or {})}, cluster)
    return kubeauth.load_config(document, exec_options=options, plugin_policy=policy)


def stanza_of(command: str | Path, *args: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": V1,
        "command": str(command),
        "args": list(args),
        "interactiveMode": "Never",
    } | fields


def config_of(server: APIServer, script: PluginScript | ShellPlugin, **fields: Any) -> ClientConfig:
    return configured(server, stanza_of(script.path, **fields))


class Counted:
    """What this process counted in the meantime, by client-go's metrics."""

    calls: dict[tuple[str, str], int]
    policy: dict[str, int]


@contextmanager
def counted() -> Iterator[Counted]:
    found = Counted()
    before = _totals()
    yield found
    after = _totals()
    grown = {labels: n - before.get(labels, 0) for labels, n in after.items() if n > before.get(labels, 0)}
    found.calls = {(labels[2], labels[1]): n for labels, n in grown.items() if "_plugin_call" in labels[0]}
    found.policy = {labels[1]: n for labels, n in grown.items() if "_policy_call" in labels[0]}


def _totals() -> dict[tuple[str, ...], int]:
    totals = RECORDER.snapshot().totals
    return {
        (counter.name, *labels): value
        for counter, series in totals.items()
        for labels, value in series.items()
    }
