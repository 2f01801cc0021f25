"""How a program is told and heard where pipes cannot be polled. The same is asked of the way used here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from kubeauth._exec.pipes import PollReader, StdinData, ThreadReader
from tests.support.residue import no_residue


@pytest.fixture(params=[PollReader, ThreadReader], ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Iterator[type[PollReader] | type[ThreadReader]]:
    with no_residue():
        yield request.param


def heard(
    kind: type[PollReader] | type[ThreadReader],
    code: str,
    *,
    max_output: int = 1000,
    max_tail: int = 10,
    copy_stderr: bool = True,
    stdin_data: bytes | None = None,
) -> PollReader | ThreadReader:
    theirs, ours = os.pipe()
    popen = subprocess.Popen(
        [sys.executable, "-ISc", code],
        stdin=theirs if stdin_data is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    stdin = FileIO(ours, "w")
    if stdin_data is None:
        stdin.close()
    with kind(
        popen,
        max_output=max_output,
        max_tail=max_tail,
        copy_stderr=copy_stderr,
        stdin_data=StdinData(stdin, stdin_data) if stdin_data is not None else None,
    ) as pump:
        while not pump.read(0.05) and not pump.is_too_large:
            pass
        if pump.is_too_large:
            popen.kill()
        while popen.poll() is None:
            pump.read(0.05)
    return pump


def test_what_it_says(kind: type[PollReader], capfd: pytest.CaptureFixture[str]) -> None:
    pump = heard(
        kind, "import sys; print('out'); print('many words\\non stderr', file=sys.stderr)", max_tail=12
    )
    assert pump.output() == b"out\n"
    assert pump.stderr_tail() == b"on stderr\n"
    assert not pump.is_too_large
    assert capfd.readouterr().err == "many words\non stderr\n"


def test_what_is_kept_of_stderr_begins_with_a_whole_line(kind: type[PollReader]) -> None:
    """Else it could begin in the middle of a secret, which nobody would recognise any more."""
    pump = heard(kind, "import sys; print('password\\n=hunter22secret\\nno', file=sys.stderr)")
    assert pump.stderr_tail() == b"no\n"
    pump = heard(kind, "import sys; sys.stderr.write('password=hunter22secret')")
    assert pump.stderr_tail() == b"(one line, too long to repeat)"
    pump = heard(kind, "import sys; sys.stderr.write('0123456789')")
    assert pump.stderr_tail() == b"0123456789"


def test_too_much(kind: type[PollReader]) -> None:
    assert heard(kind, "while True: print('x' * 100)").is_too_large


def test_both_at_once(kind: type[PollReader], capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys\nfor _ in range(300): print('o' * 99); print('e' * 999, file=sys.stderr)"
    pump = heard(kind, code, max_output=10**6)
    assert len(pump.output()) == 300 * 100
    assert len(capfd.readouterr().err) == 300 * 1000


MUCH = b"0123456789" * 50_000


def test_it_is_told_everything_and_that_there_is_no_more(kind: type[PollReader]) -> None:
    code = "import sys; data = sys.stdin.buffer.read(); print(len(data), data[-3:].decode())"
    assert heard(kind, code, stdin_data=MUCH).output() == b"500000 789\n"
    assert heard(kind, code, stdin_data=b"").output() == b"0 \n"


def test_one_that_says_much_before_it_reads_is_heard(kind: type[PollReader]) -> None:
    code = "import sys; print('x' * 300_000, flush=True); print(len(sys.stdin.buffer.read()))"
    assert heard(kind, code, stdin_data=MUCH, max_output=10**6).output() == b"x" * 300_000 + b"\n500000\n"


def test_one_that_reads_after_it_has_said_everything_is_told(kind: type[PollReader], tmp_path: Path) -> None:
    code = (
        "import os, sys; os.close(1); os.close(2); data = sys.stdin.buffer.read(); "
        f"open({str(tmp_path / 'read')!r}, 'w').write(str(len(data)))"
    )
    heard(kind, code, stdin_data=MUCH)
    assert (tmp_path / "read").read_text() == "500000"


@pytest.mark.parametrize("code", ["print('out')", "import os; os.close(0); print('out')"])
def test_one_that_does_not_want_to_know_need_not(code: str, kind: type[PollReader]) -> None:
    assert heard(kind, code, stdin_data=MUCH).output() == b"out\n"


def test_its_stderr_can_be_kept_to_ourselves(
    kind: type[PollReader], capfd: pytest.CaptureFixture[str]
) -> None:
    pump = heard(kind, "import sys; print('many words', file=sys.stderr)", max_tail=20, copy_stderr=False)
    assert pump.stderr_tail() == b"many words\n"
    assert capfd.readouterr().err == ""


def test_what_it_is_told_is_not_printed() -> None:
    with FileIO(os.devnull) as stdin:
        assert "secret" not in repr(StdinData(stdin, b"secret"))


def test_interactive_only_stdout_is_heard(kind: type[PollReader]) -> None:
    popen = subprocess.Popen([sys.executable, "-ISc", "print('out')"], stdout=subprocess.PIPE)
    with kind(popen, max_output=1000, max_tail=10) as pump:
        while not pump.read(0.05):
            pass
        popen.wait()
    assert pump.output() == b"out\n"


def test_who_holds_the_other_end_is_not_waited_for() -> None:
    """A thread that still reads keeps its descriptor, so that it never reads from somebody else's."""
    reader, writer = os.pipe()
    popen = subprocess.Popen([sys.executable, "-ISc", "pass"], stdout=subprocess.PIPE)
    popen.wait()
    assert popen.stdout is not None
    os.dup2(reader, popen.stdout.fileno())
    with no_residue():
        with ThreadReader(popen, max_output=1000, max_tail=10) as pump:
            assert not pump.read(0.01)
        assert not popen.stdout.closed
        os.write(writer, b"late")
        os.close(writer)
        for thread in threading.enumerate():
            if thread.name == "kubeauth-output":
                thread.join()
        assert popen.stdout.closed
    os.close(reader)
