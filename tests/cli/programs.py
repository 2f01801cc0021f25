"""Programs as they are run: ours, and kubectl beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

# Whoever started the tests may have had Ctrl-C ignored.
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from kubeauth.cli import main; sys.argv[0] = 'kubeauth'; main()"
)
KUBEAUTH = [sys.executable, "-c", PROGRAM]
# A plugin that is ended has all the time it needs: on a machine that stalls, half a second may be over before
# it has its turn, and nobody would see that it was told.
PATIENT = f"from kubeauth._exec import process; process._TERM_GRACE = 60.0\n{PROGRAM}"


class Ran(NamedTuple):
    """What came of it."""

    status: object
    out: str
    err: str


def environ(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def ran(*command: str, env: Mapping[str, str] | None = None, input: str | None = None) -> Ran:
    """A program, to its end."""
    done = subprocess.run(
        command,
        env=env,
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def kubeauth(*arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """The command line, as a process of its own."""
    return ran(*KUBEAUTH, *arguments, env=env)


def started(
    *arguments: str, env: Mapping[str, str] | None = None, program: str = PROGRAM
) -> subprocess.Popen[str]:
    """The same, while it runs."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_a_terminal(
    *arguments: str, env: Mapping[str, str] | None = None, typed: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit status, and what a terminal was sent. `typed` are keys, each by what they are an answer to."""
    import pty

    ours, theirs = pty.openpty()
    waiting = dict(typed or {})
    with subprocess.Popen(
        [*KUBEAUTH, *arguments],
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # it becomes theirs
    ) as process:
        os.close(theirs)
        said = b""
        while True:
            for question in [each for each in waiting if each.encode() in said]:
                os.write(ours, waiting.pop(question).encode())
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not part:
                break
            said += part
    os.close(ours)
    return process.returncode, said.decode()
