"""A program that is asked, and answers on its stdout: nothing else gets there, and it fails in a line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import NoReturn, TypeVar

from kubeauth._streams import flush_stderr
from kubeauth.errors import KubeAuthError

_TRACEBACK = "KUBEAUTH_PLUGIN_TRACEBACK"

_T = TypeVar("_T")
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


def run_program(
    read: Callable[[], _Asked], main: Callable[[_Asked], _Answer], write: Callable[[_Asked, _Answer], None]
) -> NoReturn:
    """From start to end: what is asked, what `main` makes of it, and that to stdout. Then it exits.

    If anything fails, stdout stays empty, stderr gets a line and the exit status is 1. What `main` prints, or
    a program that it starts, goes to stderr.
    """
    status = 0
    try:
        with _stdout_set_aside():
            asked = read()
            answer = main(asked)
        write(asked, answer)
    except KeyboardInterrupt:
        status = 130
    except Exception as error:
        status = 1
        with suppress(OSError):  # stderr may be full: the exit status is still right
            if os.environ.get(_TRACEBACK):
                import traceback

                traceback.print_exc()
            print(f"{os.path.basename(sys.argv[0])}: {_in_a_line(error)}", file=sys.stderr)
    finally:
        flush_stderr()
    sys.exit(status)


def unless_wrong(found: _T | KubeAuthError) -> _T:
    """What was found, unless that is an error: then it is raised."""
    if isinstance(found, KubeAuthError):
        # Without the frames it may have been raised in: they held what it is about.
        raise found.with_traceback(None)
    return found


def _in_a_line(error: Exception) -> str:
    if isinstance(error, KubeAuthError):
        return " ".join(str(error).split())
    return f"unexpected {type(error).__name__}. Set {_TRACEBACK}=1 to see where; that may show secrets."


@contextmanager
def _stdout_set_aside() -> Generator[None]:
    """While this lasts stdout is stderr, also for programs that are started: other text would spoil it."""
    stdout, saved = sys.stdout, os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        stdout.flush()  # what was printed through it, also before, to where it does no harm
        os.dup2(saved, 1)
        os.close(saved)
