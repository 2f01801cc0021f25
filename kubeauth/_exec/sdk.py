"""Run a program that reads a request and prints a response: an exec plugin or image credential provider."""

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
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


def run_program(
    read: Callable[[], _Request],
    main: Callable[[_Request], _Response],
    write: Callable[[_Request, _Response], None],
) -> NoReturn:
    """Read the request, call `main`, write its response to stdout, and exit.

    On an error nothing is printed to stdout, one line to stderr, and the exit status is 1. What `main`, or a
    program that it starts, prints to stdout goes to stderr.
    """
    status = 0
    try:
        with _stdout_to_stderr():
            request = read()
            response = main(request)
        write(request, response)
    except KeyboardInterrupt:
        status = 130
    except Exception as error:
        status = 1
        with suppress(OSError):  # stderr may be full; the exit status is still correct
            if os.environ.get(_TRACEBACK):
                import traceback

                traceback.print_exc()
            print(f"{os.path.basename(sys.argv[0])}: {_one_line(error)}", file=sys.stderr)
    finally:
        flush_stderr()
    sys.exit(status)


def raise_if_error(value: _T | KubeAuthError) -> _T:
    """Return `value`, or raise it if it is an error."""
    if isinstance(value, KubeAuthError):
        # Without the frames it was raised in: they may hold secrets.
        raise value.with_traceback(None)
    return value


def _one_line(error: Exception) -> str:
    if isinstance(error, KubeAuthError):
        return " ".join(str(error).split())
    return f"unexpected {type(error).__name__}. Set {_TRACEBACK}=1 to see where; that may show secrets."


@contextmanager
def _stdout_to_stderr() -> Generator[None]:
    """Redirect stdout to stderr, also of child processes: other text would invalidate the response."""
    stdout, saved = sys.stdout, os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        stdout.flush()  # what is still buffered goes to stderr, too
        os.dup2(saved, 1)
        os.close(saved)
