"""Read a child process's stdout up to a limit and the tail of its stderr, and write its stdin.

Its stderr can be copied to ours, as if it were inherited.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from typing import IO, Protocol, Self

_STDERR = 2
_CHUNK = 65536
# How many reads drain the pipes after exit.
_MAX_DRAIN_READS = 64
_LONG_LINE = b"(one line, too long to repeat)"


def has_stderr() -> bool:
    """Return whether this process has a stderr. If not, descriptor 2 may be any file."""
    ours = sys.__stderr__
    return ours is not None and not ours.closed


class OutputReader(Protocol):
    """Reads the output of a child process."""

    is_too_large: bool
    """Whether there was more output than the limit."""

    def read(self, seconds: float) -> bool:
        """Read for up to `seconds`. Return whether both streams are at EOF."""
        ...

    def output(self) -> bytes: ...
    def stderr_tail(self) -> bytes: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class StdinData:
    """The stdin of a process and the data to write to it, which may contain a secret."""

    stdin: FileIO
    data: bytes = field(repr=False)


def open_reader(
    popen: subprocess.Popen[bytes],
    *,
    max_output: int,
    max_tail: int,
    copy_stderr: bool,
    stdin_data: StdinData | None,
) -> OutputReader:
    """Return a reader for this system."""
    cls = PollReader if hasattr(select, "poll") else ThreadReader
    return cls(
        popen, max_output=max_output, max_tail=max_tail, copy_stderr=copy_stderr, stdin_data=stdin_data
    )


def drain(reader: OutputReader) -> None:
    """Read what is still in the pipes after exit, without waiting."""
    for _ in range(_MAX_DRAIN_READS):
        if reader.is_too_large or reader.read(0.0):
            return


class _Output:
    def __init__(self, popen: subprocess.Popen[bytes], *, max_output: int, max_tail: int) -> None:
        self.is_too_large = False
        self._popen = popen
        self._stdout = bytearray()
        self._tail = bytearray()
        self._is_cut = False
        self._max_output = max_output
        self._max_tail = max_tail

    def output(self) -> bytes:
        return bytes(self._stdout)

    def stderr_tail(self) -> bytes:
        if not self._is_cut:
            return bytes(self._tail)
        # Whole lines only: redaction would not recognise half a secret.
        return bytes(self._tail).partition(b"\n")[2] or _LONG_LINE

    def _add_output(self, data: bytes) -> None:
        self._stdout += data
        if len(self._stdout) > self._max_output:
            self.is_too_large = True

    def _add_stderr(self, data: bytes) -> None:
        self._tail += data
        self._is_cut = self._is_cut or len(self._tail) > self._max_tail
        del self._tail[: -self._max_tail]

    def __enter__(self) -> Self:
        return self

    def _close_streams(self) -> None:
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()


class PollReader(_Output):
    """For POSIX: uses no thread, and does not hang if a grandchild holds the other end open."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        max_output: int,
        max_tail: int,
        copy_stderr: bool = True,
        stdin_data: StdinData | None = None,
    ) -> None:
        super().__init__(popen, max_output=max_output, max_tail=max_tail)
        self._poll = select.poll()
        self._open = {stream.fileno() for stream in (popen.stdout, popen.stderr) if stream is not None}
        self._stdout_fd = popen.stdout.fileno() if popen.stdout is not None else -1
        # If our stderr was closed, descriptor 2 may be one of these pipes.
        self._copies_stderr = copy_stderr and has_stderr() and _STDERR not in self._open
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)
        self._our_stderr = _open_stderr_nonblocking() if self._copies_stderr else _STDERR
        # Bytes that are not copied to our stderr yet, and the descriptor they came from. No more are read
        # until they are copied: as with an inherited stderr, the process blocks while ours is not read.
        self._uncopied = b""
        self._uncopied_from = -1
        self._stdin = stdin_data.stdin if stdin_data is not None else None
        self._stdin_fd = -1
        self._unwritten = memoryview(b"")
        if stdin_data is not None:
            self._unwritten = memoryview(stdin_data.data)
            self._stdin_fd = stdin_data.stdin.fileno()
            os.set_blocking(self._stdin_fd, False)
            self._poll.register(self._stdin_fd, select.POLLOUT)

    def read(self, seconds: float) -> bool:
        # A process that has closed its output may still read its stdin.
        if not self._open and self._stdin_fd < 0:
            return True
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor == self._our_stderr and self._uncopied:
                self._copy_stderr()
            elif descriptor == self._stdin_fd:
                self._write_stdin()
            else:
                self._read(descriptor)
        return not self._open

    def _write_stdin(self) -> None:
        try:
            self._unwritten = self._unwritten[os.write(self._stdin_fd, self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:
            self._unwritten = self._unwritten[:0]  # the process closed its stdin, which is allowed
        if not self._unwritten:
            self._poll.unregister(self._stdin_fd)
            self._close_stdin()

    def _close_stdin(self) -> None:
        self._stdin_fd = -1
        if self._stdin is not None:
            self._stdin.close()

    def _read(self, descriptor: int) -> None:
        is_stdout = descriptor == self._stdout_fd
        # At most PIPE_BUF of stderr: that much can be written without blocking.
        data = os.read(descriptor, _CHUNK if is_stdout else select.PIPE_BUF)
        if not data:
            self._poll.unregister(descriptor)
            self._open.discard(descriptor)
        elif is_stdout:
            self._add_output(data)
        else:
            self._add_stderr(data)
            if self._copies_stderr:
                self._uncopied, self._uncopied_from = data, descriptor
                self._poll.unregister(descriptor)
                self._poll.register(self._our_stderr, select.POLLOUT)

    def _copy_stderr(self) -> None:
        try:
            self._uncopied = self._uncopied[os.write(self._our_stderr, self._uncopied) :]
        except BlockingIOError:
            return
        except OSError:
            self._uncopied = b""  # our stderr is closed, or its reader is gone
        if not self._uncopied:
            self._poll.unregister(self._our_stderr)
            self._poll.register(self._uncopied_from, select.POLLIN)

    def __exit__(self, *_: object) -> None:
        self._close_streams()
        self._close_stdin()
        if self._our_stderr != _STDERR:
            os.close(self._our_stderr)


def _open_stderr_nonblocking() -> int:
    """Return our stderr; if it is a terminal, open it again, non-blocking.

    Writing to a terminal that is stopped (Ctrl-S) can block, even if poll reports that it is writable.
    O_NONBLOCK on the existing descriptor would affect all processes that share it.
    """
    with suppress(OSError):
        return os.open(os.ttyname(_STDERR), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return _STDERR


class ThreadReader(_Output):
    """For Windows, where pipes cannot be polled: uses a thread per stream."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        max_output: int,
        max_tail: int,
        copy_stderr: bool = True,
        stdin_data: StdinData | None = None,
    ) -> None:
        super().__init__(popen, max_output=max_output, max_tail=max_tail)
        add_stderr = self._copy_stderr if copy_stderr else self._add_stderr
        self._threads = [
            threading.Thread(
                target=self._read_stream, args=(stream, add), name="kubeauth-output", daemon=True
            )
            for stream, add in ((popen.stdout, self._add_output), (popen.stderr, add_stderr))
            if stream is not None
        ]
        for thread in self._threads:
            thread.start()
        if stdin_data is not None:
            # Not joined: it returns when all is written, or when the other end is closed.
            threading.Thread(
                target=_write_stdin, args=(stdin_data,), name="kubeauth-input", daemon=True
            ).start()

    def _read_stream(self, stream: IO[bytes], add: Callable[[bytes], None]) -> None:
        # Closed by the thread that reads it, so that it is never closed during a read.
        with stream:
            while not self.is_too_large and (data := os.read(stream.fileno(), _CHUNK)):
                add(data)

    def _copy_stderr(self, data: bytes) -> None:
        self._add_stderr(data)
        if has_stderr():
            with suppress(OSError):
                os.write(_STDERR, data)

    def read(self, seconds: float) -> bool:
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def __exit__(self, *_: object) -> None:
        """Do not join the threads: they return when the other end is closed."""


def _write_stdin(stdin_data: StdinData) -> None:
    # Closed by the thread that writes it. OSError if the process closed its stdin without reading everything.
    with stdin_data.stdin as stdin, suppress(OSError, ValueError):
        unwritten = memoryview(stdin_data.data)
        while unwritten:
            unwritten = unwritten[os.write(stdin.fileno(), unwritten) :]
