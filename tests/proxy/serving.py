"""A proxy in a loop of its own, in a thread; and somebody who asks it, byte for byte."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any, Self

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from kubeauth import ClientConfig
from kubeauth._proxy._caller import Limits
from kubeauth._proxy._counts import Counts
from kubeauth._proxy._serve import Options, Served, serve

# Long enough for a machine that does other things. No test waits for it to pass.
PATIENCE = 60.0


class Proxy:
    """`serve`, until the end of the block, or until it is told to stop."""

    def __init__(self, config: ClientConfig, *, backend: str = "asyncio", **options: Any) -> None:
        limits = Limits(**{"grace_seconds": 0.2, **options.pop("limits", {})})
        self._options = Options(**{"port": 0, "limits": limits, **options})
        self._config, self._backend = config, backend
        self._stack = ExitStack()
        self.counts = Counts()

    def __enter__(self) -> Self:
        self._portal = self._stack.enter_context(start_blocking_portal(self._backend))
        self._stop = self._portal.call(anyio.Event)
        served: Served
        self.future, served = self._portal.start_task(self._serve)
        self.address, self.metrics = served
        self.url = f"http://{self.address}"
        return self

    async def _serve(self, *, task_status: Any) -> None:
        await serve(self._config, self._options, stop=self._stop, counts=self.counts, task_status=task_status)

    def stop(self) -> None:
        """Tells it to end."""
        self._portal.call(self._stop.set)

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
            self.future.result(PATIENCE)
        finally:
            self._stack.close()

    def get(self, path: str, **how: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=PATIENCE, trust_env=False, **how)

    def connect(self) -> Wire:
        host, _, port = self.address.rpartition(":")
        return Wire.to(host.strip("[]"), int(port))

    def say(self, data: bytes) -> bytes:
        """All that is said to that, until the end of the connection."""
        with self.connect() as wire:
            wire.say(data)
            return wire.rest()


class Wire:
    """A connection, and what is said on it."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    @classmethod
    def to(cls, host: str, port: int) -> Self:
        return cls(socket.create_connection((host, port), timeout=PATIENCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def until(self, end: bytes) -> bytes:
        """What comes, up to `end`. AssertionError if that never comes."""
        received = b""
        while end not in received:
            more = self.socket.recv(65536)
            assert more, f"only {received!r}"
            received += more
        return received

    def rest(self) -> bytes:
        """All that comes until the end. A reset is an end."""
        received = bytearray()
        try:
            while more := self.socket.recv(65536):
                received += more
        except ConnectionError:
            received += b"<reset>"
        return bytes(received)


def get(path: str = "/version", host: str = "localhost", *lines: str, method: str = "GET") -> bytes:
    """A request that asks for the connection to be closed."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *lines]
    return "\r\n".join([*head, "", ""]).encode("latin-1")


def code_of(answer: bytes) -> int:
    """Of the first answer; 0 if there was none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")) else 0
