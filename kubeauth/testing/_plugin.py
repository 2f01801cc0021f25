"""Exec plugins for tests: real programs that say what they are told to, and remember how they were run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeauth.testing._script import Script

V1 = "client.authentication.k8s.io/v1"

_PARTICULARS = r"""
import datetime
info = os.environ.pop("KUBERNETES_EXEC_INFO", None)
def run():
    given = {"info": info, "arguments": sys.argv[1:], "environment": dict(os.environ)}
    return {**given, "stdin_is_terminal": os.isatty(0)}
def document(answer):
    status = dict(answer["status"])
    if answer["expires_in"] is not None:
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=answer["expires_in"])
        status["expirationTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    asked = json.loads(info or "{}").get("apiVersion")
    version = answer["api_version"] or asked or "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}
"""


@dataclass(frozen=True, slots=True)
class PluginRun:
    """One run of a plugin: what it was given."""

    info: Any
    """KUBERNETES_EXEC_INFO, parsed; None if it was not set."""
    arguments: list[str]
    environment: Mapping[str, str]
    stdin_is_terminal: bool


class PluginScript(Script):
    """An exec plugin in a directory of yours.

        plugin = PluginScript(tmp_path)
        plugin.answer(token="t1", expires_in=900)
        user = {"exec": plugin.stanza()}
        ...
        assert len(plugin.runs) == 1

    A real program, for this Python without site-packages, so that it starts quickly.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str = "plugin") -> None:
        super().__init__(directory, name, _PARTICULARS)
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
        }
        self._say(answer, stdout=stdout, stderr=stderr, exit_code=exit_code, sleep=sleep)

    def stanza(self, arguments: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
        """`users[].user.exec` for a kubeconfig; `fields` are added, or replace what is there."""
        command, args = str(self.path), list(arguments)
        if os.name == "nt":
            command, args = sys.executable, [str(self.path), *args]
        return {"apiVersion": V1, "command": command, "args": args, "interactiveMode": "Never"} | fields

    @property
    def runs(self) -> list[PluginRun]:
        """Every run so far, in the order they started."""
        return [_run(each) for each in self._remembered()]


def _run(said: dict[str, Any]) -> PluginRun:
    info = json.loads(said["info"]) if said["info"] is not None else None
    return PluginRun(info, said["arguments"], said["environment"], said["stdin_is_terminal"])
