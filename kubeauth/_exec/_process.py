"""One run of a program: started, heard, and never left behind (X15-X18).

Interactive: our session and group, our stdin and stderr, no time limit, so that a terminal works as it
should. Otherwise: a session of its own, no stdin but what it is told, and an end to everything.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from typing import Generic, TypeVar

from kubeauth._compat import is_out_of_threads
from kubeauth._exec._pump import Pump, Told, hear_the_rest, pump_for
from kubeauth._fork import no_fork

# The environment is bytes where the system has bytes: no locale can spoil what a kubeconfig says.
Text = TypeVar("Text", str, bytes)

MAX_OUTPUT = 2**20
KEPT_STDERR = 4096
# How long a run waits for whoever else holds its stdout when it has ended.
_LINGER = 1.0
# How long a program has to end by itself when it is told to.
_PATIENCE = 0.5
_SLICE = 0.1
# Nobody is that impatient: how often Ctrl-C may come while a program is being ended.
_MOST_SIGNALS = 100


@dataclass(frozen=True, slots=True)
class Program(Generic[Text]):
    """What to start. Arguments and environment may hold secrets."""

    path: str
    arguments: Sequence[Text] = field(repr=False)
    """The first is the name it is called by."""
    environment: Mapping[Text, Text] = field(repr=False)
    input: bytes | None = field(default=None, repr=False)
    """What it is given on stdin, which is then closed. None: there is nothing to read."""


def program_of(
    path: str,
    arguments: Sequence[str],
    host: Mapping[str, str] | None,
    added: Mapping[str, str],
    input: bytes | None = None,
) -> Program[str] | Program[bytes]:
    """With the variables of `host`, or of this process as they are now, and those `added`, which win."""
    if not os.supports_bytes_environ:
        return Program(path, arguments, {**(os.environ if host is None else host), **added}, input)
    here = os.environb if host is None else _all_bytes(host)
    return Program(path, [_bytes(each) for each in arguments], {**here, **_all_bytes(added)}, input)


def _all_bytes(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {_bytes(name): _bytes(value) for name, value in variables.items()}


def _bytes(text: str) -> bytes:
    # UTF-8, as configuration files are; what came from elsewhere in another encoding goes back as it was.
    return text.encode("utf-8", "surrogateescape")


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
        self._stdin: FileIO | None = None
        self._starter: threading.Thread | None = None

    def start(self) -> subprocess.Popen[bytes] | None:
        """None if it is to be ended already. OSError, or ValueError for a NUL byte, if it cannot be."""
        if self.is_stopped:
            return None
        if threading.current_thread() is threading.main_thread():
            self._start_undisturbed()
        else:
            self._start()
        return self._popen

    def _start_undisturbed(self) -> None:
        """In a thread, where no signal handler raises anything.

        In this one, Ctrl-C could come when the program runs already, and nobody knows its number yet. Nobody
        could end it then.
        """
        failures: list[BaseException] = []

        def work() -> None:
            try:
                self._start()
            except BaseException as error:
                failures.append(error)

        # Kept: what a handler raises while a thread is forgotten is lost, and many a signal comes just then.
        self._starter = thread = threading.Thread(target=work, name="kubeauth-start", daemon=True)
        try:
            thread.start()
            thread.join()
        except BaseException as error:
            if is_out_of_threads(error):
                self._start()  # as when the interpreter ends
            else:
                self._stopped = True  # should it not have begun yet; whoever ends it waits for the lock
                raise
        for failure in failures:
            raise failure

    def _start(self) -> None:
        program, interactive = self._program, self._interactive
        # A process that is forked in the middle of it would hold the pipe that Popen reads to its end.
        with no_fork, self._lock:
            if self._popen is None and not self._stopped and self._is_wanted():
                _check_room()
                with self._stdin_for_it() as stdin:
                    self._popen = subprocess.Popen(  # noqa: S603 -- this is what we are for
                        program.arguments,
                        executable=program.path,
                        env=program.environment,
                        stdin=None if interactive else stdin,
                        stdout=subprocess.PIPE,
                        stderr=None if interactive else subprocess.PIPE,
                        start_new_session=not interactive,
                    )

    @contextmanager
    def _stdin_for_it(self) -> Generator[FileIO | int]:
        """Its end. Ours is there before it starts, so that a process forked meanwhile finds its copy."""
        if self._program.input is None:
            yield subprocess.DEVNULL
            return
        theirs, ours = os.pipe()
        self._stdin = FileIO(ours, "w")
        with FileIO(theirs) as stdin:
            yield stdin

    @property
    def told(self) -> Told | None:
        """What it is to read, if it is to read something."""
        if self._stdin is None or self._program.input is None:
            return None
        return Told(self._stdin, self._program.input)

    def close_stdin(self) -> None:
        """Ours. It reads no more than it was told; or, in a forked child, it is not ours to hold open."""
        if self._stdin is not None:
            self._stdin.close()

    def close_output(self) -> None:
        """Should nobody have begun to listen."""
        if self._popen is not None:
            for stream in (self._popen.stdout, self._popen.stderr):
                if stream is not None:
                    stream.close()

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants it to end."""
        return self._stopped or not self._is_wanted() or _is_too_late()

    def forbid(self) -> None:
        """If it has not been started yet, it will not be."""
        self._stopped = True

    def stop(self) -> None:
        """Ends it and everything in its process group; first gently, so that it can tidy up.

        From another thread too: whoever waits for it is told.
        """
        _stop([self])

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

    def signal(self, number: int) -> None:
        """Sends it, if the program still runs, to its group."""
        if self._owner != os.getpid():
            return  # a forked child's copy: the program is the parent's
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
    _stop(list(_running))


def _stop(children: list[Child]) -> None:
    """All of them in the time of one."""
    end = time.monotonic() + _PATIENCE
    try:
        for child in children:
            child.forbid()
        for child in children:
            child.signal(signal.SIGTERM)
        while time.monotonic() < end and not all(child.has_ended() for child in children):
            time.sleep(0.01)
    finally:  # also after a second Ctrl-C
        for child in children:
            child.signal(getattr(signal, "SIGKILL", signal.SIGTERM))


atexit.register(_stop_all)


def _in_the_child() -> None:
    """A program that reads to the end of its stdin must not wait for whoever was forked meanwhile."""
    for child in list(_running):
        child.close_stdin()
    _running.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_in_the_child)


def run(
    program: Program[str] | Program[bytes],
    *,
    interactive: bool,
    timeout: float | None,
    children: set[Child],
    is_wanted: Callable[[], bool],
    passes_on: bool = True,
) -> Ended:
    """Runs `program` to its end. While it runs it is in `children`, for whoever wants to stop it.

    What it writes to stderr goes on to ours, unless `passes_on` is false. It is stopped too, or not even
    started, when it is not wanted any more. OSError or ValueError if it cannot be started. Whatever else
    happens, it does not outlive this call.
    """
    child = Child(program, interactive=interactive, is_wanted=is_wanted)
    try:
        # Before it is started: who looks for it in between must find it.
        _running.add(child)
        children.add(child)
        popen = child.start()
        if popen is None:
            _running.discard(child)
            return Ended(-1, b"", b"", "stopped")
        with pump_for(
            popen, max_output=MAX_OUTPUT, kept=KEPT_STDERR, passes_on=passes_on, told=child.told
        ) as pump:
            killed = "interrupted"
            try:
                killed = _waited(child, pump, None if interactive else timeout)
            finally:
                if killed:
                    # While it can still be heard: else a word of it while it tidies up would be its last.
                    child.stop()
            hear_the_rest(pump)
            code = child.reap()
            _running.discard(child)
            if not killed and pump.too_much:  # which was heard only now
                killed = "output"
            return Ended(-1 if killed else max(code, -1), pump.output(), pump.stderr_tail(), killed)
    except BaseException:  # Ctrl-C, above all
        _end(child)
        raise
    finally:
        children.discard(child)


def _end(child: Child) -> None:
    """In a thread, where Ctrl-C does not come however often it is pressed. That it came at all is known."""
    has_begun, is_done = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        try:
            child.stop()
            child.reap()
            child.close_stdin()
            child.close_output()
            _running.discard(child)
        finally:
            is_done.set()

    for _ in range(_MOST_SIGNALS):
        with suppress(BaseException):
            if not has_begun.is_set():  # two of them do no harm
                _begin(work)
            # Not `join`: CPython 3.11 takes a thread for ended when that is interrupted.
            is_done.wait()
            return


def _begin(work: Callable[[], None]) -> None:
    try:
        threading.Thread(target=work, name="kubeauth-end", daemon=True).start()
    except RuntimeError as error:
        if not is_out_of_threads(error):
            raise
        work()


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
