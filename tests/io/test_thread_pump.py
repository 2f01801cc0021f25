"""How a program is heard where pipes cannot be polled. The same is asked of the way that is used here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from kubeauth._exec._pump import PollPump, ThreadPump
from tests.residue import no_residue


@pytest.fixture(params=[PollPump, ThreadPump], ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Iterator[type[PollPump] | type[ThreadPump]]:
    with no_residue():
        yield request.param


def heard(kind: type[PollPump] | type[ThreadPump], code: str, **options: int) -> PollPump | ThreadPump:
    popen = subprocess.Popen([sys.executable, "-ISc", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with kind(popen, **({"max_output": 1000, "kept": 10} | options)) as pump:
        while not pump.hear(0.05) and not pump.too_much:
            pass
        popen.kill()
        popen.wait()
    return pump


def test_what_it_says(kind: type[PollPump], capfd: pytest.CaptureFixture[str]) -> None:
    pump = heard(kind, "import sys; print('out'); print('many words on stderr', file=sys.stderr)")
    assert pump.output() == b"out\n"
    assert pump.stderr_tail() == b"on stderr\n"
    assert not pump.too_much
    assert capfd.readouterr().err == "many words on stderr\n"


def test_too_much(kind: type[PollPump]) -> None:
    assert heard(kind, "while True: print('x' * 100)").too_much


def test_both_at_once(kind: type[PollPump], capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys\nfor _ in range(300): print('o' * 99); print('e' * 999, file=sys.stderr)"
    pump = heard(kind, code, max_output=10**6)
    assert len(pump.output()) == 300 * 100
    assert len(capfd.readouterr().err) == 300 * 1000


def test_interactive_only_stdout_is_heard(kind: type[PollPump]) -> None:
    popen = subprocess.Popen([sys.executable, "-ISc", "print('out')"], stdout=subprocess.PIPE)
    with kind(popen, max_output=1000, kept=10) as pump:
        while not pump.hear(0.05):
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
        with ThreadPump(popen, max_output=1000, kept=10) as pump:
            assert not pump.hear(0.01)
        assert not popen.stdout.closed
        os.write(writer, b"late")
        os.close(writer)
        for thread in threading.enumerate():
            if thread.name == "kubeauth-output":
                thread.join()
        assert popen.stdout.closed
    os.close(reader)
