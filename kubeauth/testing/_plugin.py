"""Exec plugins for tests: real programs that say what they are told to, and remember how they were run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

V1 = "client.authentication.k8s.io/v1"

# Runs without site-packages, so it starts quickly. Reads what to say from the file beside it.
_SCRIPT = r"""
import datetime, json, os, sys, time
here = os.path.abspath(__file__)
line = json.dumps({
    "info": os.environ.get("KUBERNETES_EXEC_INFO"),
    "arguments": sys.argv[1:],
    "environment": {k: v for k, v in os.environ.items() if k != "KUBERNETES_EXEC_INFO"},
    "stdin_is_terminal": os.isatty(0),
}).encode() + b"\n"
runs = os.open(here + ".runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, line)
os.close(runs)
with open(here + ".answer", encoding="utf-8") as file:
    answer = json.load(file)
time.sleep(answer["sleep"])
sys.stderr.write(answer["stderr"])
sys.stderr.flush()
if answer["stdout"] is not None:
    sys.stdout.write(answer["stdout"])
elif not answer["exit_code"]:
    status = dict(answer["status"])
    if answer["expires_in"] is not None:
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=answer["expires_in"])
        status["expirationTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    info = json.loads(os.environ.get("KUBERNETES_EXEC_INFO") or "{}")
    version = answer["api_version"] or info.get("apiVersion") or "client.authentication.k8s.io/v1"
    json.dump({"apiVersion": version, "kind": "ExecCredential", "status": status}, sys.stdout)
sys.exit(answer["exit_code"])
"""


@dataclass(frozen=True, slots=True)
class PluginRun:
    """One run of a plugin: what it was given."""

    info: Any
    """KUBERNETES_EXEC_INFO, parsed; None if it was not set."""
    arguments: list[str]
    environment: Mapping[str, str]
    stdin_is_terminal: bool


class PluginScript:
    """An exec plugin in a directory of yours.

        plugin = PluginScript(tmp_path)
        plugin.answer(token="t1", expires_in=900)
        user = {"exec": plugin.stanza()}
        ...
        assert len(plugin.runs) == 1

    A real program, for this Python without site-packages, so that it starts quickly.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str = "plugin") -> None:
        self.path = Path(directory, name).absolute()
        self.path.write_text(f"#!{sys.executable} -IS\n{_SCRIPT}", encoding="utf-8")
        self.path.chmod(0o700)
        self.answer(token="token-of-the-plugin")  # noqa: S106 -- a secret to nobody

    def answer(
        self,
        *,
        token: str | None = None,
        certificate: bytes | None = None,
        key: bytes | None = None,
        expires_in: float | None = None,
        api_version: str | None = None,
        stdout: str | None = None,
        stderr: str = "",
        exit_code: int = 0,
        sleep: float = 0.0,
    ) -> None:
        """What it says from the next run on. `stdout` takes the place of the ExecCredential."""
        status = {
            "token": token,
            "clientCertificateData": certificate.decode() if certificate else None,
            "clientKeyData": key.decode() if key else None,
        }
        answer = {
            "status": {name: value for name, value in status.items() if value is not None},
            "expires_in": expires_in,
            "api_version": api_version,
            "stdout": stdout,
            "stderr": stderr,
            "exit_code": exit_code,
            "sleep": sleep,
        }
        new = Path(f"{self.path}.answer.new")
        new.write_text(json.dumps(answer), encoding="utf-8")
        new.replace(f"{self.path}.answer")

    def stanza(self, arguments: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
        """`users[].user.exec` for a kubeconfig; `fields` are added, or replace what is there."""
        command, args = str(self.path), list(arguments)
        if os.name == "nt":
            command, args = sys.executable, [str(self.path), *args]
        return {"apiVersion": V1, "command": command, "args": args, "interactiveMode": "Never"} | fields

    @property
    def runs(self) -> list[PluginRun]:
        """Every run so far, in the order they started."""
        try:
            lines = Path(f"{self.path}.runs").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [_run(json.loads(line)) for line in lines]


def _run(said: dict[str, Any]) -> PluginRun:
    info = json.loads(said["info"]) if said["info"] is not None else None
    return PluginRun(info, said["arguments"], said["environment"], said["stdin_is_terminal"])
