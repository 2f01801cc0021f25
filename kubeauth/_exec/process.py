"""Run a child process until it exits, and never leave one behind (X15-X18).

Interactive: in our session and process group, with our stdin and stderr, without a timeout, so that the
terminal works. Otherwise: in a session of its own, with limits on time and output.
"""

from __future__ import annotations

import atexit
import errno
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
from kubeauth._exec.lookup import escape_terminal
from kubeauth._exec.pipes import OutputReader, StdinData, drain, open_reader
from kubeauth._runtime import no_fork

# On POSIX the environment is bytes, independent of the locale.
Text = TypeVar("Text", str, bytes)

MAX_OUTPUT = 2**20
MAX_STDERR_TAIL = 4096
# How long to wait for EOF on stdout after exit: a grandchild may hold it open.
_EOF_GRACE = 1.0
# Between SIGTERM and SIGKILL.
_TERM_GRACE = 0.5
_POLL_INTERVAL = 0.1
# How many Ctrl-C are ignored while a process is being killed.
_MAX_INTERRUPTS = 100


@dataclass(frozen=True, slots=True)
class Program(Generic[Text]):
    """A program to start. Arguments and environment may contain secrets."""

    path: str
    arguments: Sequence[Text] = field(repr=False)
    """The first is argv[0]."""
    environment: Mapping[Text, Text] = field(repr=False)
    input: bytes | None = field(default=None, repr=False)
    """Written to its stdin, which is then closed. None: stdin is empty."""


def build_program(
    path: str,
    arguments: Sequence[str],
    host: Mapping[str, str] | None,
    added: Mapping[str, str],
    input: bytes | None = None,
) -> Program[str] | Program[bytes]:
    """Return a program with the variables of `host`, or of this process, overridden by `added`."""
    if not os.supports_bytes_environ:
        return Program(path, arguments, {**(os.environ if host is None else host), **added}, input)
    here = os.environb if host is None else _encode_all(host)
    return Program(path, [_encode(each) for each in arguments], {**here, **_encode_all(added)}, input)


def _encode_all(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {_encode(name): _encode(value) for name, value in variables.items()}


def _encode(text: str) -> bytes:
    # UTF-8, as configuration files are; surrogateescape restores bytes in other encodings.
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a run. `killed` is why we killed it, if we did: `timeout`, `output` or `stopped`."""

    exit_code: int
    """-1 if it was killed by a signal."""
    stdout: bytes = field(repr=False)
    stderr_tail: bytes = field(repr=False)
    killed: str = ""


class PluginProcess:
    """A child process, before and while it runs. Can be killed from any thread, at any time."""

    def __init__(
        self, program: Program[str] | Program[bytes], *, interactive: bool, is_cancelled: Callable[[], bool]
    ) -> None:
        self._program = program
        self._interactive = interactive
        self._is_cancelled = is_cancelled
        # Guards start and reap: no signal is sent to a process or group whose number was reused, and `signal`
        # waits for a start in progress.
        self._lock = threading.Lock()
        self._stopped = False
        self._owner = os.getpid()
        self._popen: subprocess.Popen[bytes] | None = None
        self._stdin: FileIO | None = None
        self._starter: threading.Thread | None = None

    def start(self) -> subprocess.Popen[bytes] | None:
        """Start it; None if it was cancelled. OSError, or ValueError for a NUL byte, if that fails."""
        if self.is_stopped:
            return None
        if threading.current_thread() is threading.main_thread():
            self._start_uninterrupted()
        else:
            self._start()
        return self._popen

    def _start_uninterrupted(self) -> None:
        """Start it in a thread, where no signal handler raises.

        In the main thread, Ctrl-C could come after the fork and before Popen has returned the pid: then the
        process could not be killed.
        """
        failures: list[BaseException] = []

        def work() -> None:
            try:
                self._start()
            except BaseException as error:
                failures.append(error)

        # Retained: an exception of a signal handler is lost while a thread object is being deleted.
        self._starter = thread = threading.Thread(target=work, name="kubeauth-start", daemon=True)
        try:
            thread.start()
            thread.join()
        except BaseException as error:
            if is_out_of_threads(error):
                self._start()  # as when the interpreter is exiting
            else:
                self._stopped = True  # in case it has not started yet
                raise
        for failure in failures:
            raise failure

    def _start(self) -> None:
        program, interactive = self._program, self._interactive
        # A process forked meanwhile would inherit the pipe on which Popen waits for EOF.
        with no_fork, self._lock:
            if self._popen is None and not self._stopped and not self._is_cancelled():
                _check_descriptors()
                with self._open_stdin() as stdin:
                    self._popen = subprocess.Popen(  # noqa: S603 -- the user configured this command
                        program.arguments,
                        executable=program.path,
                        env=program.environment,
                        stdin=None if interactive else stdin,
                        stdout=subprocess.PIPE,
                        stderr=None if interactive else subprocess.PIPE,
                        start_new_session=not interactive,
                    )

    @contextmanager
    def _open_stdin(self) -> Generator[FileIO | int]:
        """Yield the plugin's end. Ours is stored before, so that a process forked meanwhile can close it."""
        if self._program.input is None:
            yield subprocess.DEVNULL
            return
        theirs, ours = os.pipe()
        self._stdin = FileIO(ours, "w")
        with FileIO(theirs) as stdin:
            yield stdin

    @property
    def stdin_data(self) -> StdinData | None:
        """The data for its stdin, if there is any."""
        if self._stdin is None or self._program.input is None:
            return None
        return StdinData(self._stdin, self._program.input)

    def close_stdin(self) -> None:
        """Close our end; in a forked process, so that the plugin does not wait for this process."""
        if self._stdin is not None:
            self._stdin.close()

    def close_output(self) -> None:
        """Close its output if no reader was opened."""
        if self._popen is not None:
            for stream in (self._popen.stdout, self._popen.stderr):
                if stream is not None:
                    stream.close()

    @property
    def is_stopped(self) -> bool:
        """Whether it has been cancelled."""
        return self._stopped or self._is_cancelled() or _is_exiting()

    def cancel_start(self) -> None:
        """Prevent a start that has not happened yet."""
        self._stopped = True

    def stop(self) -> None:
        """Terminate its process group: SIGTERM, then SIGKILL. From any thread; `run` returns then."""
        _terminate([self])

    def has_exited(self) -> bool:
        """Whether it has exited. It stays a zombie until `reap`, so that its group number is not reused."""
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
        """Return its exit code after it has exited or was killed; -1 if it was never started."""
        with self._lock:
            return -1 if self._popen is None else self._popen.wait()

    def signal(self, number: int) -> None:
        """Send a signal to its group, if it still runs."""
        if self._owner != os.getpid():
            return  # in a forked process: the process belongs to the parent
        with self._lock, suppress(OSError):
            popen = self._popen
            if popen is None or popen.returncode is not None:
                return
            if os.name != "posix":  # Windows has no signals
                popen.kill()
            elif self._interactive:
                os.kill(popen.pid, number)  # its group is ours
            else:
                os.killpg(popen.pid, number)


def _check_descriptors() -> None:
    """Raise OSError if there are not enough descriptors to start a process.

    Before 3.11.4, Popen leaks descriptors when it runs out of them (CPython 87474).
    """
    if sys.version_info < (3, 11, 4):
        with ExitStack() as stack:
            for _ in range(4):
                for descriptor in os.pipe():
                    stack.callback(os.close, descriptor)


_running: set[PluginProcess] = set()
_exiting = threading.Event()


def _is_exiting() -> bool:
    """Whether the interpreter is exiting: then only the main thread (atexit handlers) may start processes."""
    return _exiting.is_set() and threading.current_thread() is not threading.main_thread()


def _terminate_all() -> None:
    _exiting.set()
    _terminate(list(_running))


def _terminate(processes: list[PluginProcess]) -> None:
    """Terminate all at the same time: wait for them together."""
    deadline = time.monotonic() + _TERM_GRACE
    try:
        for process in processes:
            process.cancel_start()
        for process in processes:
            process.signal(signal.SIGTERM)
        while time.monotonic() < deadline and not all(process.has_exited() for process in processes):
            time.sleep(0.01)
    finally:  # also after a second Ctrl-C
        for process in processes:
            process.signal(getattr(signal, "SIGKILL", signal.SIGTERM))


atexit.register(_terminate_all)


def _after_fork() -> None:
    """In a forked process: a plugin that reads stdin to EOF must not wait for this process."""
    for process in list(_running):
        process.close_stdin()
    _running.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def run(
    program: Program[str] | Program[bytes],
    *,
    interactive: bool,
    timeout: float | None,
    children: set[PluginProcess],
    is_cancelled: Callable[[], bool],
    on_started: Callable[[], None] = lambda: None,
    copy_stderr: bool = True,
) -> ProcessResult:
    """Run `program` until it exits. While it runs it is in `children`, so that callers can stop it.

    `on_started` is called when it has started, for work to do meanwhile. Its stderr is copied to ours if
    `copy_stderr`. When `is_cancelled` becomes true, it is killed, or not started. OSError or ValueError if it
    cannot be started. The process never outlives this call.
    """
    process = PluginProcess(program, interactive=interactive, is_cancelled=is_cancelled)
    try:
        # Before it starts, so that it can be stopped at any time.
        _running.add(process)
        children.add(process)
        popen = process.start()
        if popen is None:
            _running.discard(process)
            return ProcessResult(-1, b"", b"", "stopped")
        with open_reader(
            popen,
            max_output=MAX_OUTPUT,
            max_tail=MAX_STDERR_TAIL,
            copy_stderr=copy_stderr,
            stdin_data=process.stdin_data,
        ) as reader:
            killed = "interrupted"
            try:
                on_started()
                killed = _wait(process, reader, None if interactive else timeout)
            finally:
                if killed:
                    # Before its pipes are closed: it may write on SIGTERM, and must not get SIGPIPE.
                    process.stop()
            drain(reader)
            code = process.reap()
            _running.discard(process)
            if not killed and reader.is_too_large:  # in what was drained
                killed = "output"
            return ProcessResult(
                -1 if killed else max(code, -1), reader.output(), reader.stderr_tail(), killed
            )
    except BaseException:  # mostly Ctrl-C
        _terminate_uninterrupted(process)
        raise
    finally:
        children.discard(process)


def _terminate_uninterrupted(process: PluginProcess) -> None:
    """Kill the process in a thread, where no Ctrl-C is raised, however often it is pressed."""
    has_begun, is_done = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        try:
            process.stop()
            process.reap()
            process.close_stdin()
            process.close_output()
            _running.discard(process)
        finally:
            is_done.set()

    for _ in range(_MAX_INTERRUPTS):
        with suppress(BaseException):
            if not has_begun.is_set():  # a second thread would be harmless
                _start_thread(work)
            # Not `join`: in CPython 3.11 an interrupted join marks the thread as finished.
            is_done.wait()
            return


def _start_thread(work: Callable[[], None]) -> None:
    try:
        threading.Thread(target=work, name="kubeauth-stop", daemon=True).start()
    except RuntimeError as error:
        if not is_out_of_threads(error):
            raise
        work()


def _wait(process: PluginProcess, reader: OutputReader, timeout: float | None) -> str:
    """Wait until it has exited and its output is read; return why it must be killed, or an empty string."""
    start = time.monotonic()
    eof_deadline: float | None = None
    while True:
        at_eof = reader.read(_POLL_INTERVAL)
        now = time.monotonic()
        if process.is_stopped:
            return "stopped"
        if reader.is_too_large:
            return "output"
        if process.has_exited():
            if eof_deadline is None:
                eof_deadline = now + _EOF_GRACE
            if at_eof or now >= eof_deadline:
                return ""
        elif timeout is not None and now - start >= timeout:
            return "timeout"
        elif at_eof:
            # It has closed its output and still runs.
            time.sleep(0.005)


_START_ADVICE = {
    errno.EACCES: "Make the file executable (chmod +x), and check the permissions of its directory.",
    errno.ENOENT: "The file exists: check that the interpreter in its first line does, too.",
    errno.ENOEXEC: "It is not an executable program. A script must start with #! and its interpreter.",
    errno.E2BIG: "Arguments and environment are too long for this system: shorten args and env.",
    errno.EMFILE: "This process has too many files open: raise its limit (ulimit -n), or look for a leak.",
    errno.ENFILE: "This machine has too many files open.",
    errno.EAGAIN: "No more processes are allowed: raise the limit (ulimit -u), or look for a leak.",
    errno.ENOMEM: "There is not enough memory to start another process.",
}


def start_advice(error: OSError) -> str:
    """Return what to do about a program that cannot be started; empty if unknown."""
    return _START_ADVICE.get(error.errno or 0, "")


def stderr_text(tail: bytes) -> str:
    """Return the end of its stderr as text that cannot control a terminal."""
    return escape_terminal(tail.decode("utf-8", "replace")).strip()


def stderr_suffix(tail: bytes) -> str:
    """Return its stderr as the continuation of an error message; empty if there is none."""
    text = stderr_text(tail)
    return "\nstderr:\n" + "\n".join(f"  {line}" for line in text.splitlines()) if text else ""
