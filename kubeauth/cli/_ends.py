"""How a command ends: its exit status, and what is said on stderr when something went wrong."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import IntEnum

from kubeauth.errors import ConfigError, CredentialError, KubeAuthError, TLSError


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
    """No credential: the plugin failed, or an issuer, or a file."""
    UNREACHABLE = 5
    """No answer: no connection, no TLS, or none in time."""
    INTERRUPTED = 130
    """Ctrl-C."""
    NO_READER = 141
    """Whoever read the output is gone, as with `| head`."""


class Failed(Exception):
    """A command that ends with a sentence. For what is no error of kubeauth's."""

    def __init__(self, message: str, status: Status = Status.FAILED) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class End:
    """What to say, if anything, and the status to exit with."""

    status: Status
    message: str = ""

    def told(self) -> Status:
        """Says it."""
        if self.status is Status.NO_READER:
            # Else the interpreter would try to write the rest at its exit, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if self.message:
            print(self.message, file=sys.stderr)
        return self.status


def end_of(error: BaseException) -> End | None:
    """How `error` ends a command; None if it is a fault of ours, which should be seen in full."""
    if isinstance(error, KeyboardInterrupt):
        return End(Status.INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        return End(Status.NO_READER)
    if isinstance(error, Failed):
        return End(error.status, str(error))
    if isinstance(error, KubeAuthError):
        return End(_status_of(error), f"error: {error}")
    httpx = sys.modules.get("httpx")  # if it was not imported, the error is not one of its
    if httpx is not None and isinstance(error, httpx.TransportError):
        said = str(error) or type(error).__name__
        return End(
            Status.UNREACHABLE,
            f"Unable to connect to the server: {said}\n`kubeauth doctor` looks for the reason, step by step.",
        )
    return None


def _status_of(error: KubeAuthError) -> Status:
    if isinstance(error, ConfigError):
        return Status.CONFIG
    if isinstance(error, CredentialError):
        return Status.CREDENTIAL
    return Status.UNREACHABLE if isinstance(error, TLSError) else Status.FAILED
