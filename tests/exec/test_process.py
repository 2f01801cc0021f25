"""One run of a plugin: its output, what is copied to stderr, and how the process is terminated."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kubeauth._exec import process
from kubeauth._exec.pipes import PollReader
from kubeauth._exec.plugin import Plugin
from kubeauth.errors import PluginFailed, PluginOutputError, PluginTimeout
from tests.support.misbehaving import Misbehaving, document, expire_timeout_when
from tests.support.observers import NullObserver
from tests.support.residue import is_alive, no_residue, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the plugins are POSIX scripts")


# KeyboardInterrupt is raised while the exit handler waits for the plugins.
_INTERRUPTED_AT_EXIT = """
import os, sys, threading, time, types
from kubeauth._exec import process

def run(path):
    program = process.build_program(path, [path], None, {})
    process.run(program, interactive=False, timeout=None, children=set(), is_cancelled=lambda: False)

for path in sys.argv[1:]:
    threading.Thread(target=run, args=(path,), daemon=True).start()
while not all(os.path.exists(path + ".ready") for path in sys.argv[1:]):
    time.sleep(0.01)

def sleep(seconds):
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    time.sleep(600)  # the plugin must be killed by the exit handler

process.time = types.SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
"""


class CountingObserver(NullObserver):
    def __init__(self) -> None:
        self.runs: list[tuple[str, int]] = []

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        self.runs.append((status, code))


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Misbehaving]:
    script = Misbehaving(tmp_path)
    with no_residue():
        yield script
    wait_until(lambda: not any(map(is_alive, script.processes)))


def fetch_token(
    script: Misbehaving, *, timeout: float = 60.0, observer: CountingObserver | None = None
) -> str | None:
    """Run the plugin and return its token."""
    credential = Plugin(script.exec(timeout=timeout), None, observer or CountingObserver()).fetch()
    return None if credential.token is None else credential.token.reveal()


@contextmanager
def replace_stderr(descriptor: int | None) -> Iterator[None]:
    """Descriptor 2 is a duplicate of `descriptor`, or closed."""
    saved = os.dup(2)
    try:
        if descriptor is None:
            os.close(2)
        else:
            os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class TestStderr:
    def test_stderr_is_copied_and_its_tail_is_in_the_error(
        self, script: Misbehaving, capfd: pytest.CaptureFixture[str]
    ) -> None:
        script.does("for n in range(40_000): os.write(2, b'line %6d\\n' % n)\nsys.exit(1)")
        with pytest.raises(PluginFailed) as caught:
            fetch_token(script)

        output = "".join(f"line {n:6}\n" for n in range(40_000))
        assert capfd.readouterr().err == output
        assert caught.value.stderr_tail == output[-4096:].partition("\n")[2].strip()
        assert len(str(caught.value)) < 8192

    def test_stderr_is_read_after_the_process_has_exited(
        self, script: Misbehaving, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is still in the pipe then, on a slow machine even after the grace period."""
        read = PollReader.read

        def read_late(reader: PollReader, seconds: float) -> bool:
            wait_until(lambda: not is_alive(reader._popen.pid))
            return read(reader, seconds)

        monkeypatch.setattr(PollReader, "read", read_late)
        monkeypatch.setattr(process, "_EOF_GRACE", -1.0)
        script.does("os.write(2, b'last line\\n'); sys.exit(1)")

        with pytest.raises(PluginFailed) as caught:
            fetch_token(script)

        assert capfd.readouterr().err == "last line\n"
        assert caught.value.stderr_tail == "last line"

    def test_too_much_output_is_rejected_after_the_process_has_exited(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read, may_read = PollReader.read, iter([False])

        def read_late(reader: PollReader, seconds: float) -> bool:
            if next(may_read, True):
                return read(reader, seconds)
            wait_until(lambda: not is_alive(reader._popen.pid))
            return False

        monkeypatch.setattr(PollReader, "read", read_late)
        monkeypatch.setattr(process, "_EOF_GRACE", -1.0)
        monkeypatch.setattr(process, "MAX_OUTPUT", 1000)
        script.does("os.write(1, b' ' * 2000)")

        with pytest.raises(PluginOutputError, match="more than"):
            fetch_token(script)

    def test_terminal_escapes_are_escaped_in_the_error(
        self, script: Misbehaving, capfd: pytest.CaptureFixture[str]
    ) -> None:
        script.does("os.write(2, b'\\x1b]0;title\\x07 \\xff\\x9b\\n'); sys.exit(1)")
        with pytest.raises(PluginFailed) as caught:
            fetch_token(script)
        assert caught.value.stderr_tail.startswith("U+001B]0;titleU+0007")
        assert "\x1b" not in str(caught.value)

    def test_stderr_is_copied_while_the_plugin_runs(self, script: Misbehaving) -> None:
        """The user may have to read it before the plugin can continue."""
        script.does(
            "os.write(2, b'open the browser\\n')\n"
            "while not os.path.exists(here + '.go'): time.sleep(0.01)\n"
            "give(token='t')"
        )
        reader, writer = os.pipe()
        with replace_stderr(writer):
            tokens: list[str | None] = []
            thread = threading.Thread(target=lambda: tokens.append(fetch_token(script)))
            thread.start()
            assert os.read(reader, 100) == b"open the browser\n"
            script.release()
            thread.join()
        os.close(reader)
        os.close(writer)

        assert tokens == ["t"]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
    def test_a_full_stderr_blocks_the_plugin_until_its_timeout(self, kind: str, script: Misbehaving) -> None:
        """As if the plugin wrote to it directly."""
        if kind == "terminal":
            read_end, write_end = pty.openpty()
        else:
            read_end, write_end = os.pipe() if kind == "pipe" else _socketpair()
        try:
            with replace_stderr(write_end):
                _fill(write_end)
                script.does("os.write(2, b'x' * 300_000); give(token='t')")
                with pytest.raises(PluginTimeout):
                    fetch_token(script, timeout=1.0)

                # Output that fits into the pipe of the plugin does not block.
                script.does("os.write(2, b'x' * 3_000); give(token='t')")
                assert fetch_token(script) == "t"
        finally:
            os.close(read_end)
            os.close(write_end)

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["pipe", "terminal"])
    def test_a_stderr_that_fills_up_blocks_the_plugin_until_its_timeout(
        self, kind: str, script: Misbehaving
    ) -> None:
        read_end, write_end = os.pipe() if kind == "pipe" else pty.openpty()
        try:
            with replace_stderr(write_end):
                script.does("for n in range(3_000): os.write(2, b'x' * 101)\ngive(token='t')")
                with pytest.raises(PluginTimeout):
                    fetch_token(script, timeout=1.0)
        finally:
            os.close(read_end)
            os.close(write_end)

    def test_stderr_is_a_broken_pipe(self, script: Misbehaving) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        script.does("os.write(2, b'x' * 300_000); give(token='t')")
        with replace_stderr(writer):
            assert fetch_token(script) == "t"
        os.close(writer)

    @pytest.mark.parametrize("also_closed", [(), (0,), (0, 1)], ids=str)
    def test_stderr_is_closed(self, also_closed: tuple[int, ...], script: Misbehaving) -> None:
        """Then a pipe of the plugin may get descriptor 2."""
        script.does("os.write(2, b'x' * 300_000); give(token='t')")
        saved = [(number, os.dup(number)) for number in also_closed]
        try:
            with replace_stderr(None):
                for number in also_closed:
                    os.close(number)
                token = fetch_token(script)
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
        assert token == "t"

    def test_stderr_is_on_a_full_disk(self, script: Misbehaving) -> None:
        script.does("os.write(2, b'x' * 300_000); give(token='t')")
        full = os.open("/dev/full", os.O_WRONLY)
        with replace_stderr(full):
            assert fetch_token(script) == "t"
        os.close(full)


def _socketpair() -> tuple[int, int]:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def _fill(descriptor: int) -> None:
    os.set_blocking(descriptor, False)
    try:
        while True:
            os.write(descriptor, b"." * 512)
    except BlockingIOError:
        pass
    finally:
        os.set_blocking(descriptor, True)


class TestStdout:
    @pytest.mark.parametrize(("size", "is_accepted"), [(2**20, True), (2**20 + 1, False)])
    def test_output_is_limited_to_one_mebibyte(
        self, size: int, is_accepted: bool, script: Misbehaving
    ) -> None:
        text = document({"token": "t"})
        script.does(f"os.write(1, {text.encode()!r}.ljust({size}))")
        if is_accepted:
            assert fetch_token(script) == "t"
        else:
            with pytest.raises(PluginOutputError, match="more than 1 MiB"):
                fetch_token(script)

    def test_large_stdout_and_stderr_do_not_deadlock(
        self, script: Misbehaving, capfd: pytest.CaptureFixture[str]
    ) -> None:
        script.does(
            "for _ in range(500): os.write(2, b'x' * 1000); os.write(1, b' ' * 1000)\ngive(token='t')"
        )
        assert fetch_token(script) == "t"
        assert capfd.readouterr().err == "x" * 500_000

    def test_output_is_written_one_byte_at_a_time(self, script: Misbehaving) -> None:
        script.does(f"for byte in {document({'token': 't'}).encode()!r}: os.write(1, bytes([byte]))")
        assert fetch_token(script) == "t"


def functions_of(thread: int) -> set[str]:
    """The functions on the stack of a thread."""
    frame = sys._current_frames().get(thread)
    return {each.f_code.co_name for each, _ in traceback.walk_stack(frame)}


class TestTermination:
    @pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError])
    def test_a_signal_handler_that_raises_during_popen_does_not_leave_the_process_running(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
    ) -> None:
        """As Ctrl-C, or the SIGTERM handler of a command. The caller has no Popen object yet."""
        started: list[int] = []

        class InterruptedPopen(subprocess.Popen[bytes]):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                started.append(self.pid)
                signal.raise_signal(signal.SIGUSR1)

        def handler(*_: object) -> None:
            raise raised

        script.does("time.sleep(60)")
        previous = signal.signal(signal.SIGUSR1, handler)
        monkeypatch.setattr(subprocess, "Popen", InterruptedPopen)
        try:
            with pytest.raises(raised):
                fetch_token(script)
        finally:
            signal.signal(signal.SIGUSR1, previous)

        assert len(started) == 1
        assert not is_alive(started[0])

    def test_a_second_ctrl_c_does_not_leave_the_process_running(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second comes while the process is terminated because of the first."""
        started: list[int] = []
        handled: list[int] = []
        main = threading.get_ident()

        class InterruptedPopen(subprocess.Popen[bytes]):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                started.append(self.pid)
                for functions in ({"_start_uninterrupted", "join"}, {"_terminate_uninterrupted", "wait"}):
                    wait_until(lambda expected=functions: expected <= functions_of(main))  # type: ignore[misc]
                    before = len(handled)
                    while len(handled) == before:
                        # A signal just before the main thread blocks is handled too late: send another.
                        signal.pthread_kill(main, signal.SIGUSR1)
                        end = time.monotonic() + 5.0
                        while len(handled) == before and time.monotonic() < end:
                            time.sleep(0.01)

        def handler(*_: object) -> None:
            handled.append(1)
            raise KeyboardInterrupt

        script.does("time.sleep(600)")
        previous = signal.signal(signal.SIGUSR1, handler)
        monkeypatch.setattr(subprocess, "Popen", InterruptedPopen)
        try:
            with pytest.raises(KeyboardInterrupt):
                fetch_token(script)
        finally:
            signal.signal(signal.SIGUSR1, previous)

        assert (len(handled), len(started)) == (2, 1)
        assert not is_alive(started[0])

    def test_a_signal_handler_that_raises_in_thread_start_cancels_the_run(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = threading.Thread.start
        threads: list[threading.Thread] = []

        def raise_in_handler(thread: threading.Thread) -> None:
            threads.append(thread)
            raise RuntimeError("in a signal handler")

        script.gives(token="t")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", raise_in_handler)
            with pytest.raises(RuntimeError, match="in a signal handler"):
                fetch_token(script)

        start(threads[0])
        threads[0].join()

        assert script.runs == 0

    @pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
    def test_other_threads_cannot_fork_while_a_process_is_started(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The forked child would inherit the pipe that Popen reads until EOF."""
        forked, was_forked_early = threading.Event(), []

        def fork() -> None:
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            forked.set()

        thread = threading.Thread(target=fork)

        class SlowPopen(subprocess.Popen[bytes]):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                thread.start()
                was_forked_early.append(forked.wait(0.3))
                super().__init__(*arguments, **options)

        script.gives(token="t")
        monkeypatch.setattr(subprocess, "Popen", SlowPopen)
        assert fetch_token(script) == "t"

        thread.join()
        assert (forked.is_set(), was_forked_early) == (True, [False])

    def test_ctrl_c_at_interpreter_exit_kills_all_plugins(self, tmp_path: Path) -> None:
        scripts = [Misbehaving(tmp_path, f"plugin-{number}") for number in range(3)]
        for script in scripts:
            script.does("signal.signal(signal.SIGTERM, signal.SIG_IGN); note('.ready', 1); time.sleep(600)")

        completed = subprocess.run(
            [sys.executable, "-c", _INTERRUPTED_AT_EXIT, *(str(script.path) for script in scripts)],
            capture_output=True,
            text=True,
            check=False,
        )

        assert "KeyboardInterrupt" in completed.stderr
        processes = [number for script in scripts for number in script.processes]
        assert len(processes) == 3
        wait_until(lambda: not any(map(is_alive, processes)))

    def test_a_plugin_is_started_if_no_thread_can_be_started(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As at interpreter exit."""

        def no_thread(_self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        script.gives(token="t")
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        assert fetch_token(script) == "t"

    def test_an_interrupt_before_the_start_cancels_the_run(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_self: threading.Thread) -> None:
            raise KeyboardInterrupt

        script.gives(token="t")
        monkeypatch.setattr(threading.Thread, "start", interrupt)

        with pytest.raises(KeyboardInterrupt):
            fetch_token(script)

        assert script.runs == 0

    @pytest.mark.parametrize(
        ("source", "error", "expected"),
        [
            ("give(token='t')", None, ("no_error", 0)),
            ("print('nonsense')", PluginOutputError, ("no_error", 0)),
            ("sys.exit(7)", PluginFailed, ("plugin_execution_error", 7)),
            ("os.kill(os.getpid(), 11)", PluginFailed, ("plugin_execution_error", -1)),
            ("time.sleep(60)", PluginTimeout, ("plugin_execution_error", -1)),
            ("os.write(1, b' ' * 2**21)", PluginOutputError, ("plugin_execution_error", -1)),
        ],
    )
    def test_the_observer_gets_status_and_exit_code(
        self, source: str, error: type[Exception] | None, expected: tuple[str, int], script: Misbehaving
    ) -> None:
        observer = CountingObserver()
        script.does(source)

        if error is None:
            fetch_token(script, observer=observer)
        else:
            with pytest.raises(error):
                fetch_token(script, timeout=1.0 if error is PluginTimeout else 60.0, observer=observer)

        assert observer.runs == [expected]

    def test_a_plugin_gets_sigterm_before_it_is_killed(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "_TERM_GRACE", 60.0)
        script.does(
            "def clean_up(*_):\n"
            "    open(here + '.cleaned', 'w').close()\n"
            "    sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, clean_up)\n"
            "note('.ready', 1)\n"
            "while True: time.sleep(0.02)"  # the handler runs only after time.sleep() returns
        )
        with expire_timeout_when(lambda: script.is_ready), pytest.raises(PluginTimeout):
            fetch_token(script, timeout=600.0)
        assert Path(f"{script.path}.cleaned").exists()

    def test_a_child_in_another_session_with_the_stdout_of_the_plugin_does_not_block(
        self, script: Misbehaving
    ) -> None:
        """It is not killed with the process group of the plugin."""
        script.does(
            "if fork():\n"
            "    os.setsid()\n"
            "    note('.ready', 1)\n"
            "    while not os.path.exists(here + '.end'): time.sleep(0.02)\n"
            "else: time.sleep(600)"
        )
        with expire_timeout_when(lambda: script.is_ready), pytest.raises(PluginTimeout):
            fetch_token(script, timeout=600.0)
        assert is_alive(script.processes[1])
        Path(f"{script.path}.end").touch()

    def test_eof_of_stdout_is_awaited_for_one_second_after_exit(self, script: Misbehaving) -> None:
        script.does(
            "if fork():\n    while not os.path.exists(here + '.end'): time.sleep(0.02)\nelse: give(token='t')"
        )
        start = time.monotonic()
        assert fetch_token(script) == "t"
        assert time.monotonic() - start >= 1.0
        assert is_alive(script.processes[1])

        Path(f"{script.path}.end").touch()

    def test_waiting_for_a_plugin_that_closed_its_streams_does_not_use_the_cpu(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock_reads, sleeps = [], []

        def monotonic() -> float:
            clock_reads.append(1)
            return time.monotonic()

        def sleep(seconds: float) -> None:
            sleeps.append(seconds)
            time.sleep(seconds)

        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=monotonic, sleep=sleep))
        script.does("give(token='t'); os.close(1); os.close(2); time.sleep(1)")

        assert fetch_token(script) == "t"
        assert len(sleeps) > 10
        assert min(sleeps) > 0.001
        # Until it has closed them, poll() waits for a tenth of a second.
        assert len(clock_reads) - len(sleeps) < 1000

    def test_no_reference_to_a_completed_run_is_retained(self, script: Misbehaving) -> None:
        """Its arguments and environment may be secrets."""
        plugin = Plugin(script.exec(), None, CountingObserver())
        before = set(process._running)
        plugin.fetch()
        script.fails()

        with pytest.raises(PluginFailed):
            plugin.fetch()

        assert process._running <= before
        assert plugin._children == set()

    def test_a_run_that_is_cancelled_before_the_start(self, script: Misbehaving) -> None:
        plugin = Plugin(script.exec(), None, CountingObserver())
        with pytest.raises(PluginFailed, match="was closed"):
            plugin.fetch(lambda: True)
        assert script.runs == 0
        assert plugin.fetch().token is not None

    def test_stop_does_not_affect_a_run_that_is_not_cancelled(self, script: Misbehaving) -> None:
        """A new client may start a run after the last one was closed and before it calls stop()."""
        script.gives_after_release(token="t")
        plugin = Plugin(script.exec(timeout=60.0), None, CountingObserver())
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(plugin.fetch(lambda: False)))
        thread.start()
        wait_until(lambda: script.runs == 1)

        plugin.stop()
        script.release()
        thread.join()

        assert results[0].token is not None

    def test_stop_at_any_time_leaves_no_process(self, script: Misbehaving) -> None:
        script.does("signal.signal(signal.SIGTERM, signal.SIG_IGN); fork(); time.sleep(60)")
        for delay in (0.0, 0.0, 0.001, 0.002, 0.005, 0.01, 0.05):
            plugin, cancelled = Plugin(script.exec(timeout=60.0), None, CountingObserver()), threading.Event()
            results: list[Any] = []

            def fetch(
                plugin: Plugin = plugin, cancelled: threading.Event = cancelled, results: Any = results
            ) -> None:
                try:
                    plugin.fetch(cancelled.is_set)
                except PluginFailed as error:
                    results.append(error)

            thread = threading.Thread(target=fetch)
            thread.start()
            time.sleep(delay)

            cancelled.set()
            plugin.stop()

            thread.join()

            assert len(results) == 1
            assert not plugin._children
