"""A TCP proxy that cuts connections: at random moments, with a reset, in the middle of answers too."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing says RST


class _Connection:
    """One connection of a client, and the one to the server behind it."""

    def __init__(self, place: int, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.place = place
        self.cut_after: int | None = None
        """So many bytes of the server's are let through, and then it is cut."""
        self._ends = client, server

    def reset(self) -> None:
        for end in self._ends:
            _reset(end)


@dataclass(slots=True)
class _Cut:
    begun: float
    ended: float = math.inf

    def end(self) -> None:
        self.ended = time.monotonic()


class CuttingProxy:
    """Listens on one port for each client, so that a cut can be laid at one client's door. Lives in a thread."""

    def __init__(self, upstream: int, places: int, *, cut_every: float, seed: int) -> None:
        self.cuts = 0
        self.ports: list[int] = []
        self._upstream, self._places, self._cut_every = upstream, places, cut_every
        self._random = random.Random(seed)  # noqa: S311 -- repeatable, and no secret
        # By client, when we cut it: from before to after, whatever this machine does in between.
        self._cuts = [deque[_Cut](maxlen=400) for _ in range(places)]
        self._connections: set[_Connection] = set()
        self._cutting = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="soak-proxy")
        self._thread.start()
        self._ready.wait()

    def start_cutting(self) -> None:
        self._cutting = True

    def stop_cutting(self) -> None:
        self._cutting = False
        self._loop.call_soon_threadsafe(self._spare_all)

    def cut_all(self) -> None:
        """Every connection there is."""
        self._loop.call_soon_threadsafe(self._cut_all)

    def _cut_all(self) -> None:
        for connection in list(self._connections):
            self._cut(connection)

    def _spare_all(self) -> None:
        for connection in self._connections:
            connection.cut_after = None

    def was_cut(self, place: int, begun: float, ended: float) -> bool:
        """Whether a connection of that client was cut between these moments of the monotonic clock."""
        return any(begun <= cut.ended and cut.begun <= ended for cut in list(self._cuts[place]))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        servers: list[asyncio.Server] = []
        for place in range(self._places):
            server = await asyncio.start_server(self._accept(place), "127.0.0.1", 0)
            servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])
        cutter = asyncio.create_task(self._cut_now_and_then())
        self._ready.set()
        await self._stop.wait()
        cutter.cancel()
        for server in servers:
            server.close()
        for connection in list(self._connections):
            connection.reset()
        await asyncio.gather(*self._tasks(), return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    def _accept(self, place: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                answers, asks = await asyncio.open_connection("127.0.0.1", self._upstream)
            except OSError:  # the server is down, and the client notices
                _reset(writer)
                return
            connection = _Connection(place, writer, asks)
            self._connections.add(connection)
            try:
                await asyncio.gather(
                    self._pump(connection, reader, asks, is_answer=False),
                    self._pump(connection, answers, writer, is_answer=True),
                )
            finally:
                self._connections.discard(connection)
                connection.reset()

        return serve

    async def _pump(
        self,
        connection: _Connection,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        *,
        is_answer: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if is_answer and connection.cut_after is not None:
                    allowed = connection.cut_after
                    connection.cut_after = max(allowed - len(data), 0)
                    if len(data) > allowed:
                        sink.write(data[:allowed])
                        self._cut(connection)
                        return
                sink.write(data)
                await sink.drain()
        with contextlib.suppress(OSError, RuntimeError):
            sink.close()

    async def _cut_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._cut_every))
            if not self._cutting or not self._connections:
                continue
            connection = self._random.choice(list(self._connections))
            if self._random.random() < 0.5:
                self._cut(connection)
            else:
                connection.cut_after = self._random.randrange(1, 1500)

    def _cut(self, connection: _Connection) -> None:
        # Written down first: the client may notice before this thread goes on.
        cut = _Cut(time.monotonic())
        self._cuts[connection.place].append(cut)
        self.cuts += 1
        connection.reset()
        self._loop.call_soon(cut.end)  # behind what asyncio does then


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
