"""One connection of somebody who asks: HTTP/1.1 as h11 reads it, over a stream of anyio."""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import h11
from anyio.abc import SocketAttribute, SocketStream

from kubeauth._proxy._refusal import Refused, phrase, status

_SIZE = 65536
# Parts of a body that are joined into one: whoever sends it byte by byte has no more than one turn for them.
_PARTS = 256
_LINGER = 1.0
_LOOK = 1.0
# Windows has no poll(), and only Linux says by it that the other side has nothing more to say.
_BROKEN: int = getattr(select, "POLLERR", 0)
_LEFT: int = getattr(select, "POLLHUP", 0) | getattr(select, "POLLRDHUP", 0)

Part = h11.Response | h11.InformationalResponse | h11.Data | h11.EndOfMessage


class Gone(Exception):
    """Nobody is there any more, or what is said makes no sense any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one caller may take from the others."""

    connections: int = 10_000
    head_bytes: int = 65536
    head_seconds: float = 30.0
    """For a head, from its first byte on."""
    idle_seconds: float = 120.0
    """Until the next request, or the next part of a body."""
    grace_seconds: float = 5.0
    """For what has begun when the end is asked for."""


class Caller:
    """Reads ahead, so that it is known at once when the caller leaves, also while an answer is waited for."""

    def __init__(self, stream: SocketStream, limits: Limits) -> None:
        self.stream = stream
        self.lifetime = anyio.CancelScope()
        """To be entered around everything that is done with this connection: `evict` cancels it."""
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        self.is_idle = True
        """Whether it could be ended without anybody missing anything."""
        self.ending = False
        """Whether there is no other request after this one."""
        self._limits = limits
        self._data: deque[bytes] = deque()
        self._size = 0
        self._over = False
        self._waiting: anyio.Event | None = None
        self._room: anyio.Event | None = None
        self._exchange: anyio.CancelScope | None = None
        self._switched: anyio.CancelScope | None = None
        self._idle: anyio.CancelScope | None = None

    async def read(self) -> None:
        """Takes in what comes, as long as somebody wants it. To be run beside all that follows."""
        try:
            while True:
                data = await self.stream.receive(_SIZE)
                self._data.append(data)
                self._size += len(data)
                self._wake()
                while self._size >= _SIZE:
                    self._room = anyio.Event()
                    with anyio.move_on_after(_LOOK) as waited:
                        await self._room.wait()
                    if waited.cancelled_caught:
                        self._look()
        except anyio.EndOfStream:
            self._end()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._end()
            if self._switched is not None:
                self._switched.cancel()

    def _look(self) -> None:
        """Whether the caller has left: who does not read is not told. BrokenResourceError."""
        state = _state_of(self.stream.extra(SocketAttribute.raw_socket))  # noqa: S610 -- no Django here
        if state & _BROKEN:
            raise anyio.BrokenResourceError
        if state & _LEFT and self._exchange is not None:
            self._exchange.cancel()

    def _end(self) -> None:
        """Nothing more will come."""
        self._over = True
        self._wake()
        if self._exchange is not None:
            self._exchange.cancel()

    async def more(self) -> bytes:
        """What comes next; nothing at the end."""
        while not self._data:
            if self._over:
                return b""
            self._waiting = anyio.Event()
            await self._waiting.wait()
        data = self._data.popleft()
        self._size -= len(data)
        if self._room is not None:
            self._room.set()
            self._room = None
        return data

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None

    @contextmanager
    def staying(self) -> Generator[anyio.CancelScope]:
        """What happens in here is given up when the caller leaves."""
        with anyio.CancelScope() as scope:
            self._exchange = scope
            if self._over:
                scope.cancel()
            try:
                yield scope
            finally:
                self._exchange = None

    @contextmanager
    def whatever_comes(self) -> Generator[None]:
        """What happens in here is told of the caller's end by what it reads, and may have more to say.

        Unless the connection broke: then nobody is there to hear it.
        """
        before, self._exchange = self._exchange, None
        with anyio.CancelScope() as self._switched:
            try:
                yield
            finally:
                self._exchange, self._switched = before, None

    def evict(self) -> None:
        """Closes the connection at once. Only while it has no request in progress."""
        self.lifetime.cancel()

    def hurry(self) -> None:
        """There is no other request; if there is none now, this is the end."""
        self.ending = True
        if self._idle is not None:
            self._idle.cancel()

    async def request(self) -> h11.Request | None:
        """The next one; None if there is none. Refused if it is none."""
        self.is_idle = not self.http.trailing_data[0]
        # What was sent along with the request before may be the beginning of this one.
        seconds = self._limits.idle_seconds if self.is_idle else self._limits.head_seconds
        with anyio.move_on_after(seconds) as self._idle:
            if self.ending:
                return None
            event = self._next()
            while event is h11.NEED_DATA:
                data = await self.more()
                event = self._next(data)
                if data and self.is_idle:
                    self.is_idle = False
                    if event is h11.NEED_DATA:
                        self._idle.deadline = anyio.current_time() + self._limits.head_seconds
            self._idle = None
            return event if isinstance(event, h11.Request) else None
        self._idle = None
        if self.is_idle or self.ending:
            return None
        raise Refused(408, "slow", "the head of the request did not come in time")

    async def part(self) -> bytes:
        """Of the request's body, the next one; nothing at its end.

        Gone; Refused if nothing comes, or what makes no sense.
        """
        if self.http.they_are_waiting_for_100_continue:
            await self.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        while not (part := self._at_hand()) and self.http.their_state is h11.SEND_BODY:
            data = None
            with anyio.move_on_after(self._limits.idle_seconds):
                data = await self.more()
            if data is None:
                raise Refused(408, "slow", "the body of the request did not come in time")
            if not data:
                raise Gone
            self.http.receive_data(data)
        if part:
            await anyio.lowlevel.checkpoint()  # there may be more at hand, and others wait for their turn
        return part

    def _at_hand(self) -> bytes:
        """What has come of a body."""
        parts: list[bytes] = []
        while len(parts) < _PARTS and self.http.their_state is h11.SEND_BODY:
            if not isinstance(event := self._next(), h11.Data):
                break
            parts.append(bytes(event.data))
        return b"".join(parts)

    def _next(self, data: bytes | None = None) -> object:
        try:
            if data is not None:
                self.http.receive_data(data)
            return self.http.next_event()
        except h11.RemoteProtocolError as error:
            code = error.error_status_hint
            raise Refused(code, "http", f"this is not HTTP/1.1: {error}") from None

    async def send(self, *parts: Part) -> None:
        """In one go. Gone if nobody takes it."""
        data = b"".join([self.http.send(part) or b"" for part in parts])
        await self.write(data)

    async def write(self, data: bytes) -> None:
        """As it is. Gone if nobody takes it."""
        try:
            await self.stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise Gone from None

    async def answer(
        self, code: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = (), *, is_head: bool = False
    ) -> None:
        """A whole answer of our own."""
        said = [(b"Content-Length", b"%d" % len(body)), *headers]
        if self.ending:
            said.append((b"Connection", b"close"))
        head = h11.Response(status_code=code, headers=said, reason=phrase(code))
        await self.send(head, *([] if is_head else [h11.Data(data=body)]), h11.EndOfMessage())

    async def refuse(self, refused: Refused, *, is_head: bool = False) -> None:
        """Says why not."""
        self.ending = self.ending or not self._has_ended()
        json = [(b"Content-Type", b"application/json")]
        await self.answer(refused.code, status(refused.code, str(refused)), json, is_head=is_head)

    def _has_ended(self) -> bool:
        """Whether there is nothing left of the request. What nobody wants to read is not waited for."""
        with suppress(Refused):
            if self.http.their_state is h11.SEND_BODY:
                self._next()
        return self.http.their_state not in (h11.IDLE, h11.SEND_BODY, h11.ERROR)

    def again(self) -> bool:
        """Whether there can be another request on this connection."""
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
            return True
        return False

    async def end(self) -> None:
        """Says that there is no more, and waits a moment for the other side to have read it.

        To close with something unread is a reset, and the other side would never read what it was told.
        """
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await self.stream.send_eof()
            with anyio.move_on_after(_LINGER):
                for _ in range(64):
                    if not await self.more():
                        break

    def break_off(self) -> None:
        """So that nobody can take what was sent for the whole: the rest is missing."""
        with suppress(OSError):
            connection = self.stream.extra(SocketAttribute.raw_socket)  # noqa: S610 -- no Django here
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _state_of(connection: socket.socket) -> int:
    """What the system knows of it, as poll() says; nothing where there is no poll()."""
    if not hasattr(select, "poll"):
        return 0
    number = connection.fileno()
    if number < 0:  # asyncio has noticed on writing, and closed it
        return _BROKEN
    poll = select.poll()
    poll.register(number, _LEFT)
    return sum(state for _, state in poll.poll(0))
