"""TLS, and what one connection may take from the others: limits that uvicorn does not have (B19)."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """For whoever can reach a server, which may be anybody."""

    most: int = 300
    """Connections, also those that have not shaken hands yet. Each may take 1 MB; an API server has a few."""
    head_seconds: float = 5.0
    """To shake hands; and for the head of a request, from when it could begin, or did."""
    read_seconds: float = 10.0
    """For whoever is answered to read what was written."""
    last_seconds: float = 2.0
    """For whoever is told that it is over to say the same."""


def door(tls: ssl.SSLContext, limits: Limits) -> type[Door]:
    """The protocol of a server that has these. All its connections are counted together."""

    class Ours(Door):
        context = tls
        bounds = limits
        opened: ClassVar[set[Door]] = set()

    return Ours


class Door(asyncio.Protocol):
    """One connection, from the moment that there is one. Behind it is HTTP, once hands were shaken.

    uvicorn would count it only then. If there are too many, the one that has been idle for the longest is
    ended; if all are being answered, the one that has just come.
    """

    context: ClassVar[ssl.SSLContext]
    bounds: ClassVar[Limits]
    opened: ClassVar[set[Door]]

    def __init__(self, _loop: asyncio.AbstractEventLoop | None = None, **uvicorns: Any) -> None:
        self._loop = _loop or asyncio.get_running_loop()
        self._http = _Http(self, _loop=self._loop, **uvicorns)
        self._transport: asyncio.Transport | None = None
        self._hands: asyncio.Task[None] | None = None
        self.idle_since = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 -- it is no datagram
        transport.pause_reading()  # what is said first is for TLS
        self._transport = transport
        self.opened.add(self)
        if len(self.opened) > self.bounds.most:
            idle = [each for each in self.opened if not each._http.is_answering]
            min(idle, key=lambda each: each.idle_since).end()
        if self in self.opened:
            self._hands = self._loop.create_task(self._shake_hands(transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self.opened.discard(self)

    def end(self) -> None:
        """Now, whatever state it is in."""
        self.opened.discard(self)
        if self._transport is not None:
            self._transport.abort()

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        try:
            wrapped = await self._loop.start_tls(
                transport,
                self._http,
                self.context,
                server_side=True,
                ssl_handshake_timeout=self.bounds.head_seconds,
                ssl_shutdown_timeout=self.bounds.last_seconds,
            )
        except Exception:  # whatever it is, nobody is there to be told
            wrapped = None
        if wrapped is None or self not in self.opened:
            self.end()
            return
        self._http.connection_made(wrapped)


class _Http(H11Protocol):
    """HTTP of one connection. Who does not say enough to be answered, or does not read, is hung up on."""

    def __init__(self, door: Door, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._door = door
        self._head: asyncio.TimerHandle | None = None
        self._read: asyncio.TimerHandle | None = None
        self._early: list[bytes] | None = []
        """What came right behind the handshake, before we are told of it. None after that."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._wait_for_a_head()
        early, self._early = self._early, None
        for data in early or ():
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self._early is not None:
            self._early.append(data)
            return
        super().data_received(data)
        self._door.idle_since = self.loop.time()
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._door.idle_since = self.loop.time()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read = self.loop.call_later(self._door.bounds.read_seconds, self._door.end)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._read is not None:
            self._read.cancel()
            self._read = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connection_lost(exc)
        if self._early is not None:
            return  # to uvicorn there never was one
        super().connection_lost(exc)
        self.resume_writing()
        self._stop_waiting_for_a_head()

    @property
    def is_answering(self) -> bool:
        request = self._request
        return request is not None and not request.response_complete

    @property
    def _request(self) -> RequestResponseCycle | None:
        return self.cycle  # which is None at first, whatever its type says

    def _look(self) -> None:
        if self.is_answering:
            self._stop_waiting_for_a_head()
        elif self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]:
            # The beginning of a head, or of a body that nobody wanted to read.
            self._wait_for_a_head()
        else:
            self._stop_waiting_for_a_head()
            # uvicorn forgets it if the rest of a body came behind its answer.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _wait_for_a_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(self._door.bounds.head_seconds, self._door.end)

    def _stop_waiting_for_a_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _unsupported_upgrade_warning(self) -> None:
        """uvicorn's advises to install something."""
