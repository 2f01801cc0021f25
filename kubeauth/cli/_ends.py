"""How a command ends: its exit status, and what is said on stderr when something went wrong."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeGuard

from kubeauth._streams import discard_output
from kubeauth.errors import ConfigError, CredentialError, KubeAuthError, TLSError

if TYPE_CHECKING:
    import httpx

_TRACEBACK = "KUBEAUTH_TRACEBACK"
_DOCTOR = "`kubeauth doctor` looks for the reason, step by step."


class Status(IntEnum):
    """Exit statuses, for scripts. docs/cli.md has the same table, and a test compares them."""

    OK = 0
    FAILED = 1
    """The server said no, or something is wrong with what was looked at."""
    USAGE = 2
    """The command line makes no sense."""
    CONFIG = 3
    """The kubeconfig must be changed, or whatever else was configured."""
    CREDENTIAL = 4
    """No credential: the plugin failed, or a provider, an issuer, a file."""
    UNREACHABLE = 5
    """No answer: no connection, no TLS, or none in time."""
    FAULT = 70
    """A fault of kubeauth's own."""
    HUNG_UP = 129
    """SIGHUP: the terminal was closed."""
    INTERRUPTED = 130
    """Ctrl-C."""
    NO_READER = 141
    """Whoever read the output is gone, as with `| head`."""
    TERMINATED = 143
    """SIGTERM."""


class Failed(Exception):
    """A command that ends with a sentence. For what is no error of kubeauth's."""

    def __init__(self, message: str, status: Status = Status.FAILED) -> None:
        super().__init__(message)
        self.status = status


def tell(message: str) -> None:
    """Says it on stderr. If that is full, or nobody is there any more, the work is still worth doing."""
    from kubeauth.cli._terminal import harmless

    with suppress(OSError):
        print(harmless(message), file=sys.stderr, flush=True)


class Told(SystemExit):
    """The process was told to end, by a signal. A SystemExit: nothing on its way takes it for an error."""

    def __init__(self, status: Status, number: int) -> None:
        super().__init__(int(status))
        self.status = status
        self.number = number


def end_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end the process as Ctrl-C does: in order, with nothing left behind.

    By themselves they would end it at once, and a plugin that is running would go on alone. What whoever
    started us has chosen to ignore, as nohup does, stays ignored.
    """
    for name, status in (("SIGTERM", Status.TERMINATED), ("SIGHUP", Status.HUNG_UP)):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, partial(_end, status))
    sys.unraisablehook = _not_lost


def _not_lost(lost: sys.UnraisableHookArgs) -> None:
    """What is raised in the middle of a callback of the garbage collector's is dropped: so it comes again."""
    told = lost.exc_value
    if not isinstance(told, Told):
        sys.__unraisablehook__(lost)
        return
    import threading

    # To this thread, whatever it waits for by then.
    again = partial(signal.pthread_kill, threading.get_ident(), told.number)
    while True:
        try:
            signal.signal(told.number, partial(_end, told.status))
            threading.Timer(0.01, again).start()
        except Told:  # while we are still here, on a machine that stalls: it would be dropped once more
            continue
        return


def _end(status: Status, number: int, _frame: object) -> NoReturn:
    # It may come again at once: `timeout` sends it to us and then to our group. What is being tidied up by
    # then must not be interrupted by it.
    signal.signal(number, signal.SIG_IGN)
    raise Told(status, number)


class End(NamedTuple):
    """What to say, if anything, and the status to exit with."""

    status: Status
    message: str = ""
    closes_output: bool = False
    """Nothing can be written any more."""

    def told(self) -> Status:
        """Says it."""
        if self.closes_output:
            # Else the interpreter would try to write the rest at its exit, and complain.
            discard_output(sys.stdout)
        if self.message:
            tell(self.message)
        return self.status


def end_of(error: BaseException) -> End | None:
    """How `error` ends a command; None if it is a fault of ours, or no error at all."""
    if isinstance(error, KeyboardInterrupt):
        return End(Status.INTERRUPTED)
    if isinstance(error, Told):
        # Nobody may be reading: what is still to be written would keep us here.
        return End(error.status, closes_output=True)
    if isinstance(error, BrokenPipeError):
        return End(Status.NO_READER, closes_output=True)
    if isinstance(error, OSError):
        named = f": {error.filename}" if error.filename else ""
        return End(Status.FAILED, f"error: {error.strerror or error}{named}", closes_output=True)
    if isinstance(error, Failed):
        return End(error.status, str(error))
    if _is_of_httpx(error):
        told = [no_answer(error), *getattr(error, "__notes__", ()), _DOCTOR]
        return End(Status.UNREACHABLE, "\n".join(told))
    if isinstance(error, KubeAuthError):
        return End(_status_of(error), f"error: {error}")
    return None


def fault_of(error: BaseException) -> End | None:
    """What is said about a fault of ours: where, but no values, unless they are asked for."""
    if not isinstance(error, Exception):
        return None
    import traceback

    if os.environ.get(_TRACEBACK):
        return End(Status.FAULT, "".join(traceback.format_exception(error)).rstrip())
    told = [
        f"{type(link).__name__}, in:\n{''.join(traceback.format_tb(link.__traceback__))}"
        for link in _causes(error)
    ]
    return End(
        Status.FAULT,
        f"error: unexpected {'because of '.join(told)}"
        "This is a fault of kubeauth: please report it, with these lines. They hold no values; "
        f"{_TRACEBACK}=1 shows what was said too, which may be a secret.",
    )


def _is_of_httpx(error: BaseException) -> TypeGuard[httpx.RequestError]:
    if "httpx" not in sys.modules:  # if it was not imported, the error is not one of its
        return False
    import httpx

    return isinstance(error, httpx.RequestError)


def _status_of(error: KubeAuthError) -> Status:
    if isinstance(error, ConfigError | TLSError):  # what is wrong on the wire is an error of httpx too
        return Status.CONFIG
    return Status.CREDENTIAL if isinstance(error, CredentialError) else Status.FAILED


def no_answer(error: httpx.RequestError) -> str:
    """An error of httpx in kubectl's words, as far as it has any."""
    import socket

    import httpx

    host = ""
    with suppress(RuntimeError):  # it is not about a request
        host = f" {error.request.url.netloc.decode()}"
    if any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error)):
        return f"The connection to the server{host} was refused - did you specify the right host or port?"
    said = str(error) or type(error).__name__
    if any(isinstance(cause, socket.gaierror) for cause in _causes(error)):
        return f"Unable to connect to the server{host}: {said}"
    if isinstance(error, httpx.TooManyRedirects):
        return "Unable to connect to the server: stopped after 10 redirects"
    if isinstance(error, httpx.TimeoutException):
        return f"Unable to connect to the server{host}: it did not answer in time"
    if isinstance(error, KubeAuthError | httpx.ConnectError | httpx.ProxyError):
        return f"Unable to connect to the server: {said}"
    return f"The connection to the server{host} was lost: {said}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, what caused that, ..."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
