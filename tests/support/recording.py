"""Forwards the traffic between two programs, and records it."""

from __future__ import annotations

import base64
import socket
import threading
from contextlib import suppress
from typing import Self


class Recording:
    """The recorded traffic, and a search in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: list[bytearray] = []

    def stream(self) -> bytearray:
        """Return the buffer for one direction of one connection."""
        stream = bytearray()
        with self._lock:
            self._streams.append(stream)
        return stream

    def __len__(self) -> int:
        return sum(map(len, self._streams))

    def has(self, text: str) -> bool:
        """Whether `text` was sent, as plain text or in base64 of any alignment."""
        return any(form in bytes(stream) for stream in list(self._streams) for form in forms(text))


def forms(text: str) -> list[bytes]:
    """The text as pickle, msgpack, JSON and YAML encode it, and in base64 at any offset of a longer text."""
    raw = text.encode()
    encoded = [base64.b64encode(b"-" * skipped + raw) for skipped in range(3)]
    # Without the characters that depend on the bytes before and after.
    middle = [each[4 if skipped else 0 : len(each) // 4 * 4 - 4] for skipped, each in enumerate(encoded)]
    return [raw, text.encode("utf-16-le"), *middle]


class Forwarder:
    """Listens on loopback, and forwards each connection to the port `target`."""

    def __init__(self, target: int, recording: Recording) -> None:
        self._target = target
        self._recording = recording
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._closing = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                far = self._connect()
                self._sockets.append(far)
                for each in (near, far):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink in ((near, far), (far, near)):
                    thread = threading.Thread(target=self._forward, args=(source, sink))
                    thread.start()
                    self._threads.append(thread)

    def _connect(self) -> socket.socket:
        """Connect to the target, which may not have started yet. Raise OSError when the forwarder is closed."""
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._closing.wait(0.05):
                    raise

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        stream = self._recording.stream()
        with suppress(OSError):
            while data := source.recv(65536):
                stream += data
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()
