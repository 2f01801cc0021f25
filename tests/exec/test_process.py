"""One run of a program: what is heard of it, what is passed on, and how it is ended."""

from __future__ import annotations

import os
import pty
import signal
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

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these plugins are for POSIX")


# Ctrl-C comes when it waits for programs to end by themselves.
_INTERRUPTED_AT_ITS_END = """
import os, sys, threading, time, types
from kubeauth._exec import process

def run(path):
    program = process.build_program(path, [path], None, {})
    process.run(program, interactive=False, timeout=None, children=set(), is_cancelled=lambda: False)

for path in sys.argv[1:]:
    threading.Thread(target=run, args=(path,), daemon=True).start()
while not all(os.path.exists(path + ".deaf") for path in sys.argv[1:]):
    time.sleep(0.01)

def sleep(seconds):
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    time.sleep(600)  # no other code stops it

process.time = types.SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
"""


class Counts(NullObserver):
    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        self.ran.append((status, code))


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Misbehaving]:
    script = Misbehaving(tmp_path)
    with no_residue():
        yield script
    wait_until(lambda: not any(map(is_alive, script.processes)))


def asked(script: Misbehaving, *, timeout: float = 60.0, counts: Counts | None = None) -> str | None:
    """The token that it gives."""
    credential = Plugin(script.exec(timeout=timeout), None, counts or Counts()).fetch()
    return None if credential.token is None else credential.token.reveal()


@contextmanager
def stderr_is(descriptor: int | None) -> Iterator[None]:
    """Descriptor 2 is another, or closed, for a while."""
    before = os.dup(2)
    try:
        if descriptor is None:
            os.close(2)
        else:
            os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


class TestStderr:
    def test_it_is_copied_through_and_its_end_is_kept(
        self, script: Misbehaving, capfd: pytest.CaptureFixture[str]
    ) -> None:
        script.does("for n in range(40_000): os.write(2, b'line %6d\\n' % n)\nsys.exit(1)")
        with pytest.raises(PluginFailed) as caught:
            asked(script)
        said = "".join(f"line {n:6}\n" for n in range(40_000))
        assert capfd.readouterr().err == said
        assert caught.value.stderr_tail == said[-4096:].partition("\n")[2].strip()
        assert len(str(caught.value)) < 8192

    def test_its_last_words_are_heard_however_late_it_is(
        self, script: Misbehaving, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They are in the pipe when it has ended; on a machine that has stalled, for longer than anybody waits."""
        hear = PollReader.read

        def late(pump: PollReader, seconds: float) -> bool:
            wait_until(lambda: not is_alive(pump._popen.pid))
            return hear(pump, seconds)

        monkeypatch.setattr(PollReader, "read", late)
        monkeypatch.setattr(process, "_EOF_GRACE", -1.0)
        script.does("os.write(2, b'last words\\n'); sys.exit(1)")
        with pytest.raises(PluginFailed) as caught:
            asked(script)
        assert capfd.readouterr().err == "last words\n"
        assert caught.value.stderr_tail == "last words"

    def test_nor_is_too_much_taken_for_an_answer_because_we_are_late(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hear, pieces = PollReader.read, iter([False])

        def late(pump: PollReader, seconds: float) -> bool:
            if next(pieces, True):
                return hear(pump, seconds)
            wait_until(lambda: not is_alive(pump._popen.pid))
            return False

        monkeypatch.setattr(PollReader, "read", late)
        monkeypatch.setattr(process, "_EOF_GRACE", -1.0)
        monkeypatch.setattr(process, "MAX_OUTPUT", 1000)
        script.does("os.write(1, b' ' * 2000)")
        with pytest.raises(PluginOutputError, match="more than"):
            asked(script)

    def test_what_could_steer_a_terminal_is_spelled_out_in_the_error(
        self, script: Misbehaving, capfd: pytest.CaptureFixture[str]
    ) -> None:
        script.does("os.write(2, b'\\x1b]0;title\\x07 \\xff\\x9b\\n'); sys.exit(1)")
        with pytest.raises(PluginFailed) as caught:
            asked(script)
        assert caught.value.stderr_tail.startswith("U+001B]0;titleU+0007")
        assert "\x1b" not in str(caught.value)

    def test_it_is_copied_while_the_plugin_runs(self, script: Misbehaving) -> None:
        """A person may have to read it before the plugin can go on."""
        script.does(
            "os.write(2, b'open the browser\\n')\n"
            "while not os.path.exists(here + '.go'): time.sleep(0.01)\n"
            "give(token='t')"
        )
        reader, writer = os.pipe()
        with stderr_is(writer):
            found: list[str | None] = []
            runs = threading.Thread(target=lambda: found.append(asked(script)))
            runs.start()
            assert os.read(reader, 100) == b"open the browser\n"
            Path(f"{script.path}.go").touch()
            runs.join()
        os.close(reader)
        os.close(writer)
        assert found == ["t"]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
    def test_our_stderr_is_not_read(self, kind: str, script: Misbehaving) -> None:
        """A plugin that says much has to wait, as if it wrote there itself; but not longer than it may."""
        if kind == "terminal":
            ours, theirs = pty.openpty()
        else:
            ours, theirs = os.pipe() if kind == "pipe" else _sockets()
        try:
            with stderr_is(theirs):
                _fill(theirs)
                script.does("os.write(2, b'x' * 300_000); give(token='t')")
                with pytest.raises(PluginTimeout):
                    asked(script, timeout=1.0)
                # What fits into the pipe between us does not block.
                script.does("os.write(2, b'x' * 3_000); give(token='t')")
                assert asked(script) == "t"
        finally:
            os.close(ours)
            os.close(theirs)

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["pipe", "terminal"])
    def test_our_stderr_is_no_longer_read_after_a_while(self, kind: str, script: Misbehaving) -> None:
        """It fills up while the plugin speaks."""
        ours, theirs = os.pipe() if kind == "pipe" else pty.openpty()
        try:
            with stderr_is(theirs):
                script.does("for n in range(3_000): os.write(2, b'x' * 101)\ngive(token='t')")
                with pytest.raises(PluginTimeout):
                    asked(script, timeout=1.0)
        finally:
            os.close(ours)
            os.close(theirs)

    def test_the_other_end_of_ours_is_gone(self, script: Misbehaving) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        script.does("os.write(2, b'x' * 300_000); give(token='t')")
        with stderr_is(writer):
            assert asked(script) == "t"
        os.close(writer)

    @pytest.mark.parametrize("also", [(), (0,), (0, 1)], ids=str)
    def test_ours_is_closed(self, also: tuple[int, ...], script: Misbehaving) -> None:
        """Then the plugin's own pipes may have its number."""
        script.does("os.write(2, b'x' * 300_000); give(token='t')")
        saved = [(number, os.dup(number)) for number in also]
        try:
            with stderr_is(None):
                for number in also:
                    os.close(number)
                found = asked(script)
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
        assert found == "t"

    def test_ours_is_full_disk(self, script: Misbehaving) -> None:
        script.does("os.write(2, b'x' * 300_000); give(token='t')")
        full = os.open("/dev/full", os.O_WRONLY)
        with stderr_is(full):
            assert asked(script) == "t"
        os.close(full)


def _sockets() -> tuple[int, int]:
    import socket

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
    @pytest.mark.parametrize(("size", "is_fine"), [(2**20, True), (2**20 + 1, False)])
    def test_up_to_a_mebibyte(self, size: int, is_fine: bool, script: Misbehaving) -> None:
        text = document({"token": "t"})
        script.does(f"os.write(1, {text.encode()!r}.ljust({size}))")
        if is_fine:
            assert asked(script) == "t"
        else:
            with pytest.raises(PluginOutputError, match="more than 1 MiB"):
                asked(script)

    def test_much_of_both_at_once(self, script: Misbehaving, capfd: pytest.CaptureFixture[str]) -> None:
        script.does(
            "for _ in range(500): os.write(2, b'x' * 1000); os.write(1, b' ' * 1000)\ngive(token='t')"
        )
        assert asked(script) == "t"
        assert capfd.readouterr().err == "x" * 500_000

    def test_a_byte_at_a_time(self, script: Misbehaving) -> None:
        script.does(f"for byte in {document({'token': 't'}).encode()!r}: os.write(1, bytes([byte]))")
        assert asked(script) == "t"


def functions_of(thread: int) -> set[str]:
    """That it is in the middle of."""
    frame = sys._current_frames().get(thread)
    return {each.f_code.co_name for each, _ in traceback.walk_stack(frame)}


class TestEnding:
    @pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError])
    def test_a_signal_when_it_runs_and_its_pid_is_not_known_yet(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
    ) -> None:
        """As Ctrl-C, or the SIGTERM of a command: its handler raises whatever it likes, whenever it likes."""
        begun: list[int] = []

        class Interrupted(subprocess.Popen[bytes]):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                begun.append(self.pid)
                signal.raise_signal(signal.SIGUSR1)

        def handler(*_: object) -> None:
            raise raised

        script.does("time.sleep(60)")
        before = signal.signal(signal.SIGUSR1, handler)
        monkeypatch.setattr(subprocess, "Popen", Interrupted)
        try:
            with pytest.raises(raised):
                asked(script)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert len(begun) == 1
        assert not is_alive(begun[0])

    def test_an_impatient_person_does_not_leave_it_running(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C, and again while it is being ended because of the first."""
        begun: list[int] = []
        handled: list[int] = []
        main = threading.get_ident()

        class Interrupted(subprocess.Popen[bytes]):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                begun.append(self.pid)
                for place in ({"_start_uninterrupted", "join"}, {"_terminate_uninterrupted", "wait"}):
                    # When it waits there for another thread.
                    wait_until(lambda place=place: place <= functions_of(main))  # type: ignore[misc]
                    before = len(handled)
                    while len(handled) == before:
                        # One that comes just before it waits would be heard after it: then another wakes it.
                        signal.pthread_kill(main, signal.SIGUSR1)
                        end = time.monotonic() + 5.0
                        while len(handled) == before and time.monotonic() < end:
                            time.sleep(0.01)

        def handler(*_: object) -> None:
            handled.append(1)
            raise KeyboardInterrupt

        script.does("time.sleep(600)")
        before = signal.signal(signal.SIGUSR1, handler)
        monkeypatch.setattr(subprocess, "Popen", Interrupted)
        try:
            with pytest.raises(KeyboardInterrupt):
                asked(script)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert (len(handled), len(begun)) == (2, 1)
        assert not is_alive(begun[0])

    def test_a_handler_that_raises_before_the_thread_has_begun_does_not_start_it_twice(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = threading.Thread.start
        late: list[threading.Thread] = []

        def interrupted(thread: threading.Thread) -> None:
            late.append(thread)
            raise RuntimeError("of a handler")

        script.gives(token="t")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(RuntimeError, match="of a handler"):
                asked(script)
        start(late[0])
        late[0].join()
        assert script.runs == 0

    @pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
    def test_no_process_is_forked_while_it_starts(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A child that is, and lives on, would hold what Popen reads to its end."""
        forked, too_soon = threading.Event(), []

        def fork() -> None:
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            forked.set()

        thread = threading.Thread(target=fork)

        class Slow(subprocess.Popen[bytes]):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                thread.start()
                too_soon.append(forked.wait(0.3))
                super().__init__(*arguments, **options)

        script.gives(token="t")
        monkeypatch.setattr(subprocess, "Popen", Slow)
        assert asked(script) == "t"
        thread.join()
        assert (forked.is_set(), too_soon) == (True, [False])

    def test_at_the_end_of_the_interpreter_ctrl_c_leaves_none_of_them(self, tmp_path: Path) -> None:
        scripts = [Misbehaving(tmp_path, f"plugin-{number}") for number in range(3)]
        for script in scripts:
            script.does("signal.signal(signal.SIGTERM, signal.SIG_IGN); note('.deaf', 1); time.sleep(600)")
        ended = subprocess.run(
            [sys.executable, "-c", _INTERRUPTED_AT_ITS_END, *(str(script.path) for script in scripts)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "KeyboardInterrupt" in ended.stderr
        started = [number for script in scripts for number in script.processes]
        assert len(started) == 3
        wait_until(lambda: not any(map(is_alive, started)))

    def test_without_a_thread_to_be_had_it_is_started_all_the_same(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As when the interpreter ends."""

        def no_thread(_self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        script.gives(token="t")
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        assert asked(script) == "t"

    def test_it_may_be_interrupted_before_it_has_begun(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(_self: threading.Thread) -> None:
            raise KeyboardInterrupt

        script.gives(token="t")
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asked(script)
        assert script.runs == 0

    @pytest.mark.parametrize(
        ("does", "error", "counted"),
        [
            ("give(token='t')", None, ("no_error", 0)),
            ("print('nonsense')", PluginOutputError, ("no_error", 0)),
            ("sys.exit(7)", PluginFailed, ("plugin_execution_error", 7)),
            ("os.kill(os.getpid(), 11)", PluginFailed, ("plugin_execution_error", -1)),
            ("time.sleep(60)", PluginTimeout, ("plugin_execution_error", -1)),
            ("os.write(1, b' ' * 2**21)", PluginOutputError, ("plugin_execution_error", -1)),
        ],
    )
    def test_what_it_is_counted_as(
        self, does: str, error: type[Exception] | None, counted: tuple[str, int], script: Misbehaving
    ) -> None:
        counts = Counts()
        script.does(does)
        if error is None:
            asked(script, counts=counts)
        else:
            with pytest.raises(error):
                asked(script, timeout=1.0 if error is PluginTimeout else 60.0, counts=counts)
        assert counts.ran == [counted]

    def test_it_may_tidy_up(self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch) -> None:
        """SIGTERM comes first."""
        monkeypatch.setattr(process, "_TERM_GRACE", 60.0)
        script.does(
            "def tidy_up(*_):\n"
            "    open(here + '.tidy', 'w').close()\n"
            "    sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, tidy_up)\n"
            "note('.ready', 1)\n"
            "while True: time.sleep(0.02)"  # a signal that comes just before it sleeps is heard after it
        )
        with expire_timeout_when(lambda: script.is_ready), pytest.raises(PluginTimeout):
            asked(script, timeout=600.0)
        assert Path(f"{script.path}.tidy").exists()

    def test_a_child_that_has_left_its_session_and_holds_stdout_does_not_hold_us(
        self, script: Misbehaving
    ) -> None:
        """It cannot be killed; but it is not waited for."""
        script.does(
            "if fork():\n"
            "    os.setsid()\n"
            "    note('.ready', 1)\n"
            "    while not os.path.exists(here + '.end'): time.sleep(0.02)\n"
            "else: time.sleep(600)"
        )
        with expire_timeout_when(lambda: script.is_ready), pytest.raises(PluginTimeout):
            asked(script, timeout=600.0)
        assert is_alive(script.processes[1])
        Path(f"{script.path}.end").touch()

    def test_who_holds_its_stdout_is_waited_for_a_second_and_no_longer(self, script: Misbehaving) -> None:
        script.does(
            "if fork():\n    while not os.path.exists(here + '.end'): time.sleep(0.02)\nelse: give(token='t')"
        )
        start = time.monotonic()
        assert asked(script) == "t"
        assert time.monotonic() - start >= 1.0
        assert is_alive(script.processes[1])
        Path(f"{script.path}.end").touch()

    def test_waiting_for_one_that_has_closed_its_streams_costs_nothing(
        self, script: Misbehaving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The loop that waits for its exit sleeps in between."""
        looks, sleeps = [], []

        def monotonic() -> float:
            looks.append(1)
            return time.monotonic()

        def sleep(seconds: float) -> None:
            sleeps.append(seconds)
            time.sleep(seconds)

        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=monotonic, sleep=sleep))
        script.does("give(token='t'); os.close(1); os.close(2); time.sleep(1)")
        assert asked(script) == "t"
        assert len(sleeps) > 10
        assert min(sleeps) > 0.001
        # Until it has closed them it is listened to, for a tenth of a second at a time.
        assert len(looks) - len(sleeps) < 1000

    def test_a_run_that_has_ended_is_not_remembered(self, script: Misbehaving) -> None:
        """It has arguments and an environment, which may be secrets."""
        plugin = Plugin(script.exec(), None, Counts())
        before = set(process._running)
        plugin.fetch()
        script.does("sys.exit(1)")
        with pytest.raises(PluginFailed):
            plugin.fetch()
        assert process._running <= before
        assert plugin._children == set()

    def test_it_is_stopped_before_it_has_begun(self, script: Misbehaving) -> None:
        plugin = Plugin(script.exec(), None, Counts())
        with pytest.raises(PluginFailed, match="was closed"):
            plugin.fetch(lambda: True)
        assert script.runs == 0
        assert plugin.fetch().token is not None

    def test_stopping_a_run_that_has_ended_does_not_stop_the_next(self, script: Misbehaving) -> None:
        """Who closes the last client says so first and stops after: in between, another may have come."""
        script.does("time.sleep(0.3); give(token='t')")
        plugin = Plugin(script.exec(timeout=60.0), None, Counts())
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(plugin.fetch(lambda: False)))
        thread.start()
        while not script.runs:
            time.sleep(0.005)
        plugin.stop()
        thread.join()
        assert results[0].token is not None

    def test_it_is_stopped_at_any_moment(self, script: Misbehaving) -> None:
        """From the first instruction on: nothing is left, whenever it comes."""
        script.does("signal.signal(signal.SIGTERM, signal.SIG_IGN); fork(); time.sleep(60)")
        for delay in (0.0, 0.0, 0.001, 0.002, 0.005, 0.01, 0.05):
            plugin, cancelled = Plugin(script.exec(timeout=60.0), None, Counts()), threading.Event()
            results: list[Any] = []

            def ask(
                plugin: Plugin = plugin, cancelled: threading.Event = cancelled, results: Any = results
            ) -> None:
                try:
                    plugin.fetch(cancelled.is_set)
                except PluginFailed as error:
                    results.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            time.sleep(delay)
            cancelled.set()
            plugin.stop()
            thread.join()
            assert len(results) == 1
            assert not plugin._children
