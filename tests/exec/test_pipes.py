"""Reading the output of a process and writing its stdin, with poll() and with threads."""

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


def read_output(
    kind: type[PollReader] | type[ThreadReader],
    code: str,
    *,
    max_output: int = 1000,
    max_tail: int = 10,
    copy_stderr: bool = True,
    stdin_data: bytes | None = None,
) -> PollReader | ThreadReader:
    read_end, write_end = os.pipe()
    popen = subprocess.Popen(
        [sys.executable, "-ISc", code],
        stdin=read_end if stdin_data is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(read_end)
    stdin = FileIO(write_end, "w")
    if stdin_data is None:
        stdin.close()
    with kind(
        popen,
        max_output=max_output,
        max_tail=max_tail,
        copy_stderr=copy_stderr,
        stdin_data=StdinData(stdin, stdin_data) if stdin_data is not None else None,
    ) as reader:
        while not reader.read(0.05) and not reader.is_too_large:
            pass
        if reader.is_too_large:
            popen.kill()
        while popen.poll() is None:
            reader.read(0.05)
    return reader


def test_stdout_and_stderr_are_read(kind: type[PollReader], capfd: pytest.CaptureFixture[str]) -> None:
    reader = read_output(
        kind, "import sys; print('out'); print('many words\\non stderr', file=sys.stderr)", max_tail=12
    )
    assert reader.output() == b"out\n"
    assert reader.stderr_tail() == b"on stderr\n"
    assert not reader.is_too_large
    assert capfd.readouterr().err == "many words\non stderr\n"


def test_the_stderr_tail_starts_with_a_whole_line(kind: type[PollReader]) -> None:
    """A tail that starts in the middle of a secret could not be redacted."""
    reader = read_output(kind, "import sys; print('password\\n=hunter22secret\\nno', file=sys.stderr)")
    assert reader.stderr_tail() == b"no\n"

    reader = read_output(kind, "import sys; sys.stderr.write('password=hunter22secret')")
    assert reader.stderr_tail() == b"(one line, too long to repeat)"

    reader = read_output(kind, "import sys; sys.stderr.write('0123456789')")
    assert reader.stderr_tail() == b"0123456789"


def test_too_much_output(kind: type[PollReader]) -> None:
    assert read_output(kind, "while True: print('x' * 100)").is_too_large


def test_stdout_and_stderr_are_read_concurrently(
    kind: type[PollReader], capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys\nfor _ in range(300): print('o' * 99); print('e' * 999, file=sys.stderr)"
    reader = read_output(kind, code, max_output=10**6)
    assert len(reader.output()) == 300 * 100
    assert len(capfd.readouterr().err) == 300 * 1000


LARGE_INPUT = b"0123456789" * 50_000


def test_stdin_is_written_and_closed(kind: type[PollReader]) -> None:
    code = "import sys; data = sys.stdin.buffer.read(); print(len(data), data[-3:].decode())"
    assert read_output(kind, code, stdin_data=LARGE_INPUT).output() == b"500000 789\n"
    assert read_output(kind, code, stdin_data=b"").output() == b"0 \n"


def test_a_process_that_prints_before_it_reads_does_not_block(kind: type[PollReader]) -> None:
    code = "import sys; print('x' * 300_000, flush=True); print(len(sys.stdin.buffer.read()))"
    reader = read_output(kind, code, stdin_data=LARGE_INPUT, max_output=10**6)
    assert reader.output() == b"x" * 300_000 + b"\n500000\n"


def test_stdin_is_written_after_stdout_and_stderr_were_closed(kind: type[PollReader], tmp_path: Path) -> None:
    code = (
        "import os, sys; os.close(1); os.close(2); data = sys.stdin.buffer.read(); "
        f"open({str(tmp_path / 'read')!r}, 'w').write(str(len(data)))"
    )
    read_output(kind, code, stdin_data=LARGE_INPUT)
    assert (tmp_path / "read").read_text() == "500000"


@pytest.mark.parametrize("code", ["print('out')", "import os; os.close(0); print('out')"])
def test_a_process_need_not_read_its_stdin(code: str, kind: type[PollReader]) -> None:
    assert read_output(kind, code, stdin_data=LARGE_INPUT).output() == b"out\n"


def test_stderr_is_not_copied_without_copy_stderr(
    kind: type[PollReader], capfd: pytest.CaptureFixture[str]
) -> None:
    reader = read_output(
        kind, "import sys; print('many words', file=sys.stderr)", max_tail=20, copy_stderr=False
    )
    assert reader.stderr_tail() == b"many words\n"
    assert capfd.readouterr().err == ""


def test_repr_has_no_stdin_data() -> None:
    with FileIO(os.devnull) as stdin:
        assert "secret" not in repr(StdinData(stdin, b"secret"))


def test_only_stdout_is_read_of_an_interactive_process(kind: type[PollReader]) -> None:
    popen = subprocess.Popen([sys.executable, "-ISc", "print('out')"], stdout=subprocess.PIPE)
    with kind(popen, max_output=1000, max_tail=10) as reader:
        while not reader.read(0.05):
            pass
        popen.wait()
    assert reader.output() == b"out\n"


def test_closing_does_not_wait_for_another_writer_of_the_pipe() -> None:
    """A thread that still reads leaves its descriptor open, so that the number is not reused meanwhile."""
    read_end, write_end = os.pipe()
    popen = subprocess.Popen([sys.executable, "-ISc", "pass"], stdout=subprocess.PIPE)

    popen.wait()
    assert popen.stdout is not None

    os.dup2(read_end, popen.stdout.fileno())
    with no_residue():
        with ThreadReader(popen, max_output=1000, max_tail=10) as reader:
            assert not reader.read(0.01)
        assert not popen.stdout.closed

        os.write(write_end, b"late")
        os.close(write_end)

        for thread in threading.enumerate():
            if thread.name == "kubeauth-output":
                thread.join()
        assert popen.stdout.closed
    os.close(read_end)
