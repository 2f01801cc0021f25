"""An exec plugin whose output is constant, as a shell script: it starts in two milliseconds, Python in twenty."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubeauth.testing import KeyPair
from tests.support.kubeconfigs import V1


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
    """A shell script that prints a given output, and records KUBERNETES_EXEC_INFO of each run.

    As testdata/test-plugin.sh of client-go does with TEST_OUTPUT and TEST_EXIT_CODE. Use
    `kubeauth.testing.PluginScript` for a plugin that records its arguments and environment too.
    """

    def __init__(self, directory: Path, output: str | bytes | None = None, *, name: str = "plugin") -> None:
        self.path = directory / name
        infos, does = (shlex.quote(f"{self.path}.{suffix}") for suffix in ("exec_infos", "does"))
        self.path.write_text(f'#!/bin/sh\nprintf "%s\\0" "$KUBERNETES_EXEC_INFO" >>{infos}\n. {does}\n')
        self.path.chmod(0o700)
        self.set_output(credential("foo-bar") if output is None else output)

    def set_output(
        self, output: str | bytes, exit_code: int = 0, *, stderr: str = "", sleep: float = 0.0
    ) -> None:
        """Set output and exit code of the runs that start from now on."""
        commands = [f"sleep {sleep}"] if sleep else []
        commands += [self._print_command(output), f"{self._print_command(stderr)} >&2", f"exit {exit_code}"]
        self._does(commands)

    def set_outputs(self, first: str, then: str) -> None:
        """Print `first` in the next run, and `then` in all later ones."""
        has_run = shlex.quote(f"{self.path}.has_run")
        is_first = f"! [ -e {has_run} ] && : >{has_run}"
        self._does(
            [f"if {is_first}; then {self._print_command(first)}; else {self._print_command(then)}; fi"]
        )

    def answer(
        self,
        *,
        token: str | None = None,
        certificate: bytes | None = None,
        key: bytes | None = None,
        expires_in: float | None = None,
        stdout: str | None = None,
        stderr: str = "",
        exit_code: int = 0,
        sleep: float = 0.0,
    ) -> None:
        """As `PluginScript.answer`, but the credential expires in `expires_in` seconds from now."""
        pair = KeyPair(certificate, key) if certificate is not None and key is not None else None
        expires = None if expires_in is None else datetime.now(UTC).timestamp() + expires_in
        if stdout is None:
            stdout = "" if exit_code else credential(token, pair, expires=expires)
        self.set_output(stdout, exit_code, stderr=stderr, sleep=sleep)

    def exec_config(self, arguments: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
        """Return `users[].user.exec` for a kubeconfig; `fields` override or extend it."""
        entry = {"apiVersion": V1, "command": str(self.path), "args": list(arguments)}
        return entry | {"interactiveMode": "Never"} | fields

    @property
    def exec_infos(self) -> list[str]:
        """KUBERNETES_EXEC_INFO of each run, unparsed."""
        try:
            return Path(f"{self.path}.exec_infos").read_text().split("\0")[:-1]
        except FileNotFoundError:
            return []

    @property
    def runs(self) -> list[str]:
        """One item for each run, as `PluginScript.runs` has."""
        return self.exec_infos

    def _does(self, commands: list[str]) -> None:
        # Replaced atomically, since a run may start at any time.
        new = Path(f"{self.path}.new")
        new.write_text("\n".join(commands), encoding="utf-8", errors="surrogateescape")
        new.replace(f"{self.path}.does")

    def _print_command(self, output: str | bytes) -> str:
        if isinstance(output, str):
            output = output.encode("utf-8", "surrogatepass")
        if not output:
            return ":"
        if b"\0" not in output:
            return f"printf %s {shlex.quote(output.decode('utf-8', 'surrogateescape'))}"
        # A shell has no NUL bytes in its arguments.
        path = Path(f"{self.path}.output")
        path.write_bytes(output)
        return f"cat {shlex.quote(str(path))}"
