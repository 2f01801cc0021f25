"""Stands before a plugin on PATH: runs the real one, and remembers how it was run and what it said."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeauth.testing._programs import build_shebang

# Without site-packages, so it starts quickly.
_SCRIPT = r"""{shebang}
import json, os, subprocess, sys
if os.isatty(0):
    stdin = "terminal"
elif os.path.samestat(os.fstat(0), os.stat(os.devnull)):
    stdin = "null"
else:
    stdin = "something else"
environment = dict(os.environ)
run = subprocess.run([{program!r}, *sys.argv[1:]], stdout=subprocess.PIPE)
line = json.dumps({{
    "info": environment.pop("KUBERNETES_EXEC_INFO", None),
    "arguments": sys.argv[1:],
    "environment": environment,
    "stdin": stdin,
    "said": run.stdout.decode(),
}}).encode() + b"\n"
runs = os.open({runs!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(runs, line)
os.close(runs)
sys.stdout.buffer.write(run.stdout)
sys.exit(run.returncode)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the plugin, as it saw it."""

    info: Any
    """KUBERNETES_EXEC_INFO, parsed."""
    arguments: list[str]
    environment: Mapping[str, str] = field(repr=False)
    """All of it, but KUBERNETES_EXEC_INFO."""
    stdin: str
    """`terminal`, `null` or `something else`."""
    said: str

    @property
    def token(self) -> str:
        return str(json.loads(self.said)["status"]["token"])

    @property
    def expires(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(json.loads(self.said)["status"]["expirationTimestamp"])


class Recorder:
    """A program of this name in this directory, for PATH."""

    def __init__(self, directory: Path, name: str, program: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._runs = directory / f".{name}.runs"
        script = _SCRIPT.format(
            shebang=build_shebang(sys.executable), program=str(program), runs=str(self._runs)
        )
        self.path = directory / name
        self.path.write_text(script)
        self.path.chmod(0o700)

    @property
    def runs(self) -> list[Run]:
        """Every run that has ended, in that order."""
        if not self._runs.exists():
            return []
        return [_run(json.loads(line)) for line in self._runs.read_text().splitlines()]


def _run(line: dict[str, Any]) -> Run:
    return Run(**(line | {"info": json.loads(line["info"] or "null")}))


def first_on_path(directory: Path) -> str:
    """A PATH on which that directory comes first."""
    return f"{directory}{os.pathsep}{os.environ['PATH']}"
