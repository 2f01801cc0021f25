"""Runs a command line in this process: starting an interpreter for each takes longer than most commands."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, TextIO

from kubeauth._credentials.cache import SOURCE_CACHE
from kubeauth.cli import main
from tests.cli.programs import Ran


class Captured(Ran):
    """Exit status, stdout and stderr as a process would have written them, and all log records as text.

    `err` has the lines that the command's own log handler wrote; `logs` has the records of every logger, also
    those that no handler wrote.
    """

    logs: str = ""

    @property
    def text(self) -> str:
        """All of it: where a secret must not be."""
        return f"{self.out}{self.err}{self.logs}"


def run_in_process(
    *arguments: object,
    env: Mapping[str, str] | None = None,
    input: str | bytes = "",
    program: Callable[[Sequence[str]], object] = main,
) -> Captured:
    """Runs `program`, a main function, until it exits. What it changes in this process is restored.

    Standard streams are replaced by files, the file descriptors as well: plugins inherit those. pytest's log
    handlers are removed meanwhile: with a handler on the root logger, the command would add none.
    """
    records: list[logging.LogRecord] = []
    SOURCE_CACHE._recent.clear()  # as a new process, which runs its plugins itself
    with ExitStack() as stack:
        for restore in (_environ(env), _signals(), _logging(records)):
            stack.enter_context(restore)
        given = stack.enter_context(tempfile.TemporaryFile())
        given.write(input.encode() if isinstance(input, str) else input)
        given.seek(0)
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        with _streams(given, out, err), _shown_warnings():
            status = _exit_status(program, [str(argument) for argument in arguments])
        captured = Captured(status, _content(out), _content(err))
    captured.logs = "".join(f"{_FORMATTER.format(record)}\n" for record in records)
    return captured


_FORMATTER = logging.Formatter("%(levelname)s %(name)s: %(message)s")


def _exit_status(program: Callable[[Sequence[str]], object], arguments: list[str]) -> object:
    try:
        program(arguments)
    except SystemExit as exited:
        return exited.code
    raise AssertionError("a main function exits")


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="surrogateescape")


@contextmanager
def _environ(env: Mapping[str, str] | None) -> Iterator[None]:
    before = dict(os.environ)
    if env is not None:
        _set_environ(env)
    try:
        yield
    finally:
        _set_environ(before)


def _set_environ(env: Mapping[str, str]) -> None:
    if dict(os.environ) != env:
        os.environ.clear()
        os.environ.update(env)


@contextmanager
def _signals() -> Iterator[None]:
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _logging(records: list[logging.LogRecord]) -> Iterator[None]:
    """Appends each record that is made, by whatever logger: levels decide that, handlers do not."""
    factory, handlers, levels = logging.getLogRecordFactory(), logging.root.handlers, _log_levels()

    def record(*args: object, **kwargs: object) -> logging.LogRecord:
        made: logging.LogRecord = factory(*args, **kwargs)
        records.append(made)
        return made

    logging.setLogRecordFactory(record)
    logging.root.handlers = []
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
        logging.root.handlers = handlers
        for name, level in _log_levels().items():
            if level != levels.get(name, logging.NOTSET):
                logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))


def _log_levels() -> dict[str, int]:
    loggers = list(logging.root.manager.loggerDict.items())
    named = {name: logger.level for name, logger in loggers if isinstance(logger, logging.Logger)}
    return {"root": logging.root.level, **named}


@contextmanager
def _streams(given: IO[bytes], out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """As the interpreter opens them, if they are files."""
    before = sys.stdin, sys.stdout, sys.stderr
    descriptors = [os.dup(number) for number in range(3)]
    for number, file in enumerate((given, out, err)):
        os.dup2(file.fileno(), number)
    opened = (
        _open(0, "r", errors="strict"),
        _open(1, "w", errors="strict"),
        _open(2, "w", errors="backslashreplace", buffering=1),
    )
    sys.stdin, sys.stdout, sys.stderr = opened
    try:
        yield
    finally:
        for stream in opened:
            if not stream.closed:
                stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _open(number: int, mode: str, *, errors: str, buffering: int = -1) -> TextIO:
    # Not closed with the stream: the descriptor is this process's own.
    return open(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)  # type: ignore[return-value]


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """On stderr, as in a process: pytest would make them errors, and so change what the command does."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Those are raised in destructors, also of what an earlier test has left: pytest reports them.
        warnings.simplefilter("error", ResourceWarning)
        warnings.showwarning = show
        yield
