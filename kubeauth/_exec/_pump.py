"""Hears what a program says: all of its stdout up to a limit, the end of its stderr. Tells it what it asks.

Its stderr goes on to ours, as if it had been inherited, unless nobody is to read it.
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

_OUR_STDERR = 2
_CHUNK = 65536
# In how many pieces at most that is heard which a program leaves in its pipes.
_MOST_PIECES = 64
_ONE_LONG_LINE = b"(one line, too long to repeat)"


def has_stderr() -> bool:
    """Whether this program has one. If not, its number is that of whatever is opened next."""
    ours = sys.__stderr__
    return ours is not None and not ours.closed


class Pump(Protocol):
    too_much: bool
    """Whether there was more output than may be."""

    def hear(self, seconds: float) -> bool:
        """Listens for a moment. Whether everything was said: both streams are at their end."""
        ...

    def output(self) -> bytes: ...
    def stderr_tail(self) -> bytes: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Told:
    """What a program is to read, and where it is written for that. It may hold a secret."""

    stdin: FileIO
    data: bytes = field(repr=False)


def pump_for(
    popen: subprocess.Popen[bytes], *, max_output: int, kept: int, passes_on: bool, told: Told | None
) -> Pump:
    """One that works on this system."""
    kind = PollPump if hasattr(select, "poll") else ThreadPump
    return kind(popen, max_output=max_output, kept=kept, passes_on=passes_on, told=told)


def hear_the_rest(pump: Pump) -> None:
    """What was said before the end and is still in a pipe, however late it is: nobody waits for that."""
    for _ in range(_MOST_PIECES):
        if pump.too_much or pump.hear(0.0):
            return


class _Heard:
    def __init__(self, popen: subprocess.Popen[bytes], *, max_output: int, kept: int) -> None:
        self.too_much = False
        self._popen = popen
        self._stdout = bytearray()
        self._tail = bytearray()
        self._is_cut = False
        self._max_output = max_output
        self._kept = kept

    def output(self) -> bytes:
        return bytes(self._stdout)

    def stderr_tail(self) -> bytes:
        if not self._is_cut:
            return bytes(self._tail)
        # Whole lines: half a secret would not be recognised by whoever hides it.
        return bytes(self._tail).partition(b"\n")[2] or _ONE_LONG_LINE

    def _took_output(self, data: bytes) -> None:
        self._stdout += data
        if len(self._stdout) > self._max_output:
            self.too_much = True

    def _took_stderr(self, data: bytes) -> None:
        self._tail += data
        self._is_cut = self._is_cut or len(self._tail) > self._kept
        del self._tail[: -self._kept]

    def __enter__(self) -> Self:
        return self

    def _close_streams(self) -> None:
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()


class PollPump(_Heard):
    """For POSIX: needs no thread, and stays bound to nothing when somebody else holds the other end."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        max_output: int,
        kept: int,
        passes_on: bool = True,
        told: Told | None = None,
    ) -> None:
        super().__init__(popen, max_output=max_output, kept=kept)
        self._poll = select.poll()
        self._open = {stream.fileno() for stream in (popen.stdout, popen.stderr) if stream is not None}
        self._stdout_fd = popen.stdout.fileno() if popen.stdout is not None else -1
        # If ours was closed later, the number may be that of a pipe.
        self._passes_on = passes_on and has_stderr() and _OUR_STDERR not in self._open
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)
        self._ours = _without_waiting() if self._passes_on else _OUR_STDERR
        # What has not reached our own stderr yet, and where it came from. While there is some, no more is
        # read: as if it were inherited, a program that nobody listens to has to wait.
        self._waiting = b""
        self._waits = -1
        self._stdin = told.stdin if told is not None else None
        self._stdin_fd = -1
        self._untold = memoryview(b"")
        if told is not None:
            self._untold = memoryview(told.data)
            self._stdin_fd = told.stdin.fileno()
            os.set_blocking(self._stdin_fd, False)
            self._poll.register(self._stdin_fd, select.POLLOUT)

    def hear(self, seconds: float) -> bool:
        # Who has said everything may still want to be told something.
        if not self._open and self._stdin_fd < 0:
            return True
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor == self._ours and self._waiting:
                self._pass_on()
            elif descriptor == self._stdin_fd:
                self._tell()
            else:
                self._read(descriptor)
        return not self._open

    def _tell(self) -> None:
        try:
            self._untold = self._untold[os.write(self._stdin_fd, self._untold) :]
        except BlockingIOError:
            return
        except OSError:
            self._untold = self._untold[:0]  # it does not want to know: it may be content without
        if not self._untold:
            self._poll.unregister(self._stdin_fd)
            self._close_stdin()

    def _close_stdin(self) -> None:
        self._stdin_fd = -1
        if self._stdin is not None:
            self._stdin.close()

    def _read(self, descriptor: int) -> None:
        is_stdout = descriptor == self._stdout_fd
        # As much as can be written without waiting.
        data = os.read(descriptor, _CHUNK if is_stdout else select.PIPE_BUF)
        if not data:
            self._poll.unregister(descriptor)
            self._open.discard(descriptor)
        elif is_stdout:
            self._took_output(data)
        else:
            self._took_stderr(data)
            if self._passes_on:
                self._waiting, self._waits = data, descriptor
                self._poll.unregister(descriptor)
                self._poll.register(self._ours, select.POLLOUT)

    def _pass_on(self) -> None:
        try:
            self._waiting = self._waiting[os.write(self._ours, self._waiting) :]
        except BlockingIOError:
            return
        except OSError:
            self._waiting = b""  # ours is closed, or nobody listens any more
        if not self._waiting:
            self._poll.unregister(self._ours)
            self._poll.register(self._waits, select.POLLIN)

    def __exit__(self, *_: object) -> None:
        self._close_streams()
        self._close_stdin()
        if self._ours != _OUR_STDERR:
            os.close(self._ours)


def _without_waiting() -> int:
    """Our stderr; opened once more if it is a terminal.

    One that is stopped, or that nobody reads from, takes less than it promises, and would keep us waiting.
    To change the one there is would change it for everybody who shares it.
    """
    with suppress(OSError):
        return os.open(os.ttyname(_OUR_STDERR), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return _OUR_STDERR


class ThreadPump(_Heard):
    """For Windows, where pipes cannot be polled: a thread for each stream."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        max_output: int,
        kept: int,
        passes_on: bool = True,
        told: Told | None = None,
    ) -> None:
        super().__init__(popen, max_output=max_output, kept=kept)
        took_stderr = self._pass_on if passes_on else self._took_stderr
        self._threads = [
            threading.Thread(target=self._listen, args=(stream, took), name="kubeauth-output", daemon=True)
            for stream, took in ((popen.stdout, self._took_output), (popen.stderr, took_stderr))
            if stream is not None
        ]
        for thread in self._threads:
            thread.start()
        if told is not None:
            # Not waited for: it ends when it is done, or when nobody can read any more.
            threading.Thread(target=_tell, args=(told,), name="kubeauth-input", daemon=True).start()

    def _listen(self, stream: IO[bytes], took: Callable[[bytes], None]) -> None:
        # It closes what it reads from: nobody else can know when that may be done.
        with stream:
            while not self.too_much and (data := os.read(stream.fileno(), _CHUNK)):
                took(data)

    def _pass_on(self, data: bytes) -> None:
        self._took_stderr(data)
        if has_stderr():
            with suppress(OSError):
                os.write(_OUR_STDERR, data)

    def hear(self, seconds: float) -> bool:
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def __exit__(self, *_: object) -> None:
        """A thread ends with whoever holds the other end, and nobody waits for that."""


def _tell(told: Told) -> None:
    # As above: it closes what it writes to. Who does not want to know closes the other end.
    with told.stdin as stdin, suppress(OSError, ValueError):
        untold = memoryview(told.data)
        while untold:
            untold = untold[os.write(stdin.fileno(), untold) :]
