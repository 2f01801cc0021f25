"""Exec plugins that misbehave: real programs that run given source code and record their runs."""

from __future__ import annotations

import json
import shlex
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

# What the plugin does is in a separate file: replacing a program while another thread forks may fail with
# ETXTBSY. The file is opened once, since it may be replaced at any time. A constant output is printed by the
# shell, which starts faster than Python.
_IN_SHELL = "# sh"
_PROGRAM = f"""#!/bin/sh
exec 3<"$0.does"
read -r first <&3
[ "$first" = "{_IN_SHELL}" ] && . /dev/fd/3
exec {shlex.quote(sys.executable)} -IS "$0.py" "$@"
"""
_RECORD_RUN = f'{_IN_SHELL}\necho $$ >>"$0.runs"\n'
_WAIT_FOR_RELEASE = 'while [ ! -e "$0.go" ]; do sleep 0.01; done\n'
_PYTHON = f"""
import json, os, signal, subprocess, sys, time
here = os.path.abspath(__file__).removesuffix(".py")
def note(what, number):
    file = os.open(here + what, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, b"%d\\n" % number)
    os.close(file)
def give(**status):
    print(json.dumps({{"apiVersion": "{V1}", "kind": "ExecCredential", "status": status}}), flush=True)
def fork():
    # Record the child too. Return whether this is the child.
    child = os.fork()
    if child:
        note(".runs.children", child)
    return not child
with open(3 if __file__.endswith(".py") else here + ".does") as file:
    file.seek(0)
    source = file.read()
note(".runs", os.getpid())
exec(compile(source, here, "exec"))
"""


class Misbehaving:
    """A plugin that runs the Python source passed to `does`. By default it returns a valid token."""

    def __init__(self, directory: Path, name: str = "plugin") -> None:
        self.path = directory / name
        self.write()
        self.gives(token="alices-token")

    def write(self) -> None:
        self.path.write_text(_PROGRAM)
        self.path.chmod(0o700)
        Path(f"{self.path}.py").write_text(_PYTHON)

    def write_without_shell(self) -> None:
        """Run only Python source, for a process with fewer descriptors than a shell needs."""
        self.path.write_text(f"{build_shebang(sys.executable)}\n{_PYTHON}")

    def does(self, source: str) -> None:
        new = Path(f"{self.path}.new")
        new.write_text(source, encoding="utf-8")
        new.replace(f"{self.path}.does")

    def does_in_shell(self, source: str) -> None:
        self.does(f"{_RECORD_RUN}{source}\nexit")

    def gives(self, *, expires: float | None = None, **status: str) -> None:
        """Return a credential; `expires` is in seconds since the epoch."""
        self.prints(_exec_credential(expires, status))

    def gives_after_release(self, *, expires: float | None = None, **status: str) -> None:
        """Return a credential when `release` was called."""
        self.does_in_shell(f"{_WAIT_FOR_RELEASE}{_print_in_shell(_exec_credential(expires, status))}")

    def fails_after_release(self, message: str) -> None:
        """Print `message` to stderr and exit with 1 when `release` was called."""
        self.does_in_shell(f"{_WAIT_FOR_RELEASE}{_print_in_shell(message)} >&2\nexit 1")

    def release(self) -> None:
        Path(f"{self.path}.go").touch()

    def gives_new_tokens(self) -> None:
        """Return another token in each run: token-1, token-2, ..."""
        count = 'runs=0; while read -r _; do runs=$((runs + 1)); done <"$0.runs"'
        self.does_in_shell(f"{count}\nprintf '{document({'token': 'token-%d'})}\\n' $runs")

    def prints(self, text: str) -> None:
        if "\0" in text:  # not possible in a shell
            self.does(f"print({text!r}, flush=True)")
        else:
            self.does_in_shell(_print_in_shell(text))

    def fails(self, message: str = "", exit_code: int = 1) -> None:
        """Print `message` to stderr and exit with `exit_code`."""
        self.does_in_shell(f"{_print_in_shell(message)} >&2\nexit {exit_code}")

    @property
    def runs(self) -> int:
        return len(self._read_numbers(".runs"))

    @property
    def is_ready(self) -> bool:
        """Whether the plugin has recorded `.ready`."""
        return bool(self._read_numbers(".ready"))

    @property
    def processes(self) -> list[int]:
        """The ids of all its processes, with those that it has forked."""
        return self._read_numbers(".runs") + self._read_numbers(".runs.children")

    def _read_numbers(self, what: str) -> list[int]:
        try:
            return [int(line) for line in Path(f"{self.path}{what}").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def exec(self, *, timeout: float | None = 60.0, refresh_ahead: bool = True, **fields: Any) -> ExecConfig:
        defaults: dict[str, Any] = {
            "command": str(self.path),
            "api_version": V1,
            "interactive_mode": "Never",
            "options": ExecOptions(timeout=timeout, refresh_ahead=refresh_ahead),
        }
        return ExecConfig(**(defaults | fields))

    def config(self, server: APIServer, **fields: Any) -> ClientConfig:
        """A config for `server` with this plugin."""
        return server.config(exec=self.exec(**fields))


def document(status: Mapping[str, object] | None, **top: Any) -> str:
    """An ExecCredential as a plugin prints it."""
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status} | top)


def _exec_credential(expires: float | None, status: dict[str, str]) -> str:
    if expires is not None:
        status["expirationTimestamp"] = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return document(status)


def _print_in_shell(text: str) -> str:
    return f"printf '%s\\n' {shlex.quote(text)}" if text else ":"


class _Clock:
    """Replaces the module `time` in kubeauth._exec.process."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.ahead = 0.0
        self.is_started = False
        """Whether a timeout is measured: the plugin may be ready before its caller reads the clock."""

    def monotonic(self) -> float:
        now = time.monotonic() + self.ahead
        self.is_started = True
        return now


@contextmanager
def expire_timeout_when(condition: Callable[[], bool]) -> Iterator[None]:
    """The timeout of a plugin expires when `condition` is true, and not before, also on a busy machine.

    A plugin that is started later has its full timeout.
    """
    clock = _Clock()

    def wait() -> None:
        wait_until(lambda: clock.is_started and condition())
        clock.ahead = 1e6

    waiter = threading.Thread(target=wait)
    waiter.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "time", clock)
        try:
            yield
        finally:
            waiter.join()


def repository() -> str:
    """The directory in which a program that a test starts finds the code under test."""
    return str(Path(__file__).parents[2])
