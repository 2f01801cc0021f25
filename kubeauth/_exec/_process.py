"""One run of a program: started, heard, and never left behind (X15-X18).

Interactive: our session and group, our stdin and stderr, no time limit, so that a terminal works as it
should. Otherwise: a session of its own, no stdin, and an end to everything.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kubeauth._exec._pump import Pump, pump_for

# The environment is bytes where the system has bytes: no locale can spoil what a kubeconfig says.
Text = TypeVar("Text", str, bytes)

MAX_OUTPUT = 2**20
KEPT_STDERR = 4096
# How long a run waits for whoever else holds its stdout when it has ended.
_LINGER = 1.0
# How long a program has to end by itself when it is told to.
_PATIENCE = 0.5
_SLICE = 0.1


@dataclass(frozen=True, slots=True)
class Program(Generic[Text]):
    """What to start. Arguments and environment may hold secrets."""

    path: str
    arguments: Sequence[Text] = field(repr=False)
    """The first is the name it is called by."""
    environment: Mapping[Text, Text] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run went. `killed` says why, if it was us who ended it: `timeout`, `output` or `stopped`."""

    exit_code: int
    """-1 for whatever was ended by a signal."""
    stdout: bytes = field(repr=False)
    stderr_tail: bytes = field(repr=False)
    killed: str = ""


class Child:
    """A program that is about to run, or runs. May be killed from any thread, at any time."""

    def __init__(
        self, program: Program[str] | Program[bytes], *, interactive: bool, is_wanted: Callable[[], bool]
    ) -> None:
        self._program = program
        self._interactive = interactive
        self._is_wanted = is_wanted
        # Guards starting and reaping: nothing is sent to a process, or a group, that may be somebody else's
        # by now, and who wants to end it while it starts waits until that can be done.
        self._lock = threading.Lock()
        self._stopped = False
        self._owner = os.getpid()
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes] | None:
        """None if it is to be ended already. OSError, or ValueError for a NUL byte, if it cannot be."""
        program, interactive = self._program, self._interactive
        with self._lock:
            if not self.is_stopped:
                _check_room()
                self._popen = subprocess.Popen(  # noqa: S603 -- this is what we are for
                    program.arguments,
                    executable=program.path,
                    env=program.environment,
                    stdin=None if interactive else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=None if interactive else subprocess.PIPE,
                    start_new_session=not interactive,
                )
            return self._popen

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants it to end."""
        return self._stopped or not self._is_wanted() or _is_too_late()

    def stop(self) -> None:
        """Ends it, from another thread: whoever waits for it is told."""
        self._stopped = True
        self.kill()

    def kill(self) -> None:
        """Ends it and everything in its process group; first gently, so that it can tidy up."""
        if self._owner != os.getpid():
            return  # a forked child's copy: the program is the parent's
        self._signal(signal.SIGTERM)
        end = time.monotonic() + _PATIENCE
        try:
            while not self.has_ended() and time.monotonic() < end:
                time.sleep(0.01)
        finally:  # also after a second Ctrl-C
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    def has_ended(self) -> bool:
        """Whether the program itself has. It stays a zombie until `reap`, so that its group stays its own."""
        with self._lock:
            popen = self._popen
            if popen is None:
                return True
            if popen.returncode is not None or not hasattr(os, "waitid"):
                return popen.poll() is not None
            with suppress(ChildProcessError):
                return os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            return True

    def reap(self) -> int:
        """Its exit code. To be called when it has ended, or was killed; -1 if it was never started."""
        with self._lock:
            return -1 if self._popen is None else self._popen.wait()

    def _signal(self, number: int) -> None:
        with self._lock, suppress(OSError):
            popen = self._popen
            if popen is None or popen.returncode is not None:
                return
            if os.name != "posix":  # there, ending is all that can be said
                popen.kill()
            elif self._interactive:
                os.kill(popen.pid, number)  # its group is ours
            else:
                os.killpg(popen.pid, number)


def _check_room() -> None:
    """OSError if there are not enough descriptors for a program.

    Before 3.11.4, Popen does not close what it has opened when it runs out of them halfway (CPython 87474).
    """
    if sys.version_info < (3, 11, 4):
        with ExitStack() as stack:
            for _ in range(4):
                for descriptor in os.pipe():
                    stack.callback(os.close, descriptor)


_running: set[Child] = set()
_exiting = threading.Event()


def _is_too_late() -> bool:
    """When the interpreter exits, threads that still run start nothing any more; its other handlers may."""
    return _exiting.is_set() and threading.current_thread() is not threading.main_thread()


def _stop_all() -> None:
    _exiting.set()
    for child in list(_running):
        child.stop()


atexit.register(_stop_all)


def run(
    program: Program[str] | Program[bytes],
    *,
    interactive: bool,
    timeout: float | None,
    children: set[Child],
    is_wanted: Callable[[], bool],
) -> Ended:
    """Runs `program` to its end. While it runs it is in `children`, for whoever wants to stop it.

    It is stopped too, or not even started, when it is not wanted any more. OSError or ValueError if it
    cannot be started. Whatever else happens, it does not outlive this call.
    """
    child = Child(program, interactive=interactive, is_wanted=is_wanted)
    try:
        # Before it is started: who looks for it in between must find it.
        _running.add(child)
        children.add(child)
        popen = child.start()
        if popen is None:
            return Ended(-1, b"", b"", "stopped")
        with pump_for(popen, max_output=MAX_OUTPUT, kept=KEPT_STDERR) as pump:
            killed = _waited(child, pump, None if interactive else timeout)
            if killed:
                child.kill()
            code = child.reap()
            return Ended(-1 if killed else max(code, -1), pump.output(), pump.stderr_tail(), killed)
    except BaseException:  # Ctrl-C, above all
        try:
            child.kill()
        finally:
            child.reap()
        raise
    finally:
        _running.discard(child)
        children.discard(child)


def _waited(child: Child, pump: Pump, timeout: float | None) -> str:
    """Until it has ended and said everything; or why it has to be ended."""
    start = time.monotonic()
    lingers_until: float | None = None
    while True:
        heard_all = pump.hear(_SLICE)
        now = time.monotonic()
        if child.is_stopped:
            return "stopped"
        if pump.too_much:
            return "output"
        if child.has_ended():
            if lingers_until is None:
                lingers_until = now + _LINGER
            if heard_all or now >= lingers_until:
                return ""
        elif timeout is not None and now - start >= timeout:
            return "timeout"
        elif heard_all:
            # It has closed its stdout and goes on: nothing is left but to wait for it.
            time.sleep(0.005)
