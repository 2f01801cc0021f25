"""Exec plugins that misbehave: real programs that do what they are told to, and remember that they ran."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeauth import ClientConfig, ExecConfig, ExecOptions
from kubeauth._exec import process
from kubeauth.testing import APIServer
from kubeauth.testing._programs import build_shebang
from tests.support.kubeconfigs import V1
from tests.support.residue import wait_until

# What to do is in a file beside it: a program that is replaced while another thread forks may be busy.
_SCRIPT = f"""{build_shebang(sys.executable)}
import json, os, signal, subprocess, sys, time
here = os.path.abspath(__file__)
def note(what, number):
    file = os.open(here + what, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, b"%d\\n" % number)
    os.close(file)
def give(**status):
    print(json.dumps({{"apiVersion": "{V1}", "kind": "ExecCredential", "status": status}}), flush=True)
def fork():
    # A child that is noted too. Whether we are it.
    child = os.fork()
    if child:
        note(".runs.children", child)
    return not child
with open(here + ".does") as file:
    source = file.read()
note(".runs", os.getpid())
exec(compile(source, here, "exec"))
"""


class Misbehaving:
    """A plugin that does what `does` says, in Python; at first it gives a token that is good."""

    def __init__(self, directory: Path, name: str = "plugin") -> None:
        self.path = directory / name
        self.write()
        self.gives(token="alices-token")

    def write(self) -> None:
        self.path.write_text(_SCRIPT)
        self.path.chmod(0o700)

    def does(self, source: str) -> None:
        new = Path(f"{self.path}.new")
        new.write_text(source)
        new.replace(f"{self.path}.does")

    def gives(self, *, expires: float | None = None, **status: str) -> None:
        """A credential, whose `expires` is in seconds since 1970."""
        if expires is not None:
            status["expirationTimestamp"] = datetime.fromtimestamp(expires, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
        self.does(f"give(**{status!r})")

    def prints(self, text: str) -> None:
        self.does(f"print({text!r}, flush=True)")

    @property
    def runs(self) -> int:
        return len(self._noted(".runs"))

    @property
    def is_ready(self) -> bool:
        """Whether it has noted `.ready`: it is as far as it is to get."""
        return bool(self._noted(".ready"))

    @property
    def processes(self) -> list[int]:
        """Everything that it ever was, with what it has forked."""
        return self._noted(".runs") + self._noted(".runs.children")

    def _noted(self, what: str) -> list[int]:
        try:
            return [int(line) for line in Path(f"{self.path}{what}").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def exec(self, *, timeout: float | None = 60.0, refresh_ahead: bool = True, **fields: Any) -> ExecConfig:
        given: dict[str, Any] = {
            "command": str(self.path),
            "api_version": V1,
            "interactive_mode": "Never",
            "options": ExecOptions(timeout=timeout, refresh_ahead=refresh_ahead),
        }
        return ExecConfig(**(given | fields))

    def config(self, server: APIServer, **fields: Any) -> ClientConfig:
        """For a client of `server` that asks this plugin."""
        return server.config(exec=self.exec(**fields))


def document(status: Mapping[str, object] | None, **top: Any) -> str:
    """An ExecCredential as a plugin prints it."""
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status} | top)


class _Clock:
    """Stands in for the module `time` where programs are waited for."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@contextmanager
def time_is_up_when(claim: Callable[[], bool]) -> Iterator[None]:
    """However long a plugin may take, its time is up when `claim` has come true, and no sooner.

    So it is as far as it is to get by then, on a machine that stalls too. Whoever is run after that has all of it.
    """
    clock = _Clock()

    def wait() -> None:
        wait_until(claim)
        clock.ahead = 1e6

    waits = threading.Thread(target=wait)
    waits.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "time", clock)
        try:
            yield
        finally:
            waits.join()


def repository() -> str:
    """Where a program that a test starts finds the code under test."""
    return str(Path(__file__).parents[2])
