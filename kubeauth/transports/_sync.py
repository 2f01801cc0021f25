# Generated from transports/_async.py by scripts/generate.py: edit that and run `make generate`.
"""HTTP/1.1 requests straight on sockets."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic

from kubeauth._transport.types import Request, Response
from kubeauth.transports._connection import SIZE, Library, origin_of
from kubeauth.transports._http11 import Answer, Outgoing
from kubeauth.transports._pool import Pool
from kubeauth.transports._sync_backend import Connection, connect


class Parts(Iterator[bytes]):
    """The parts of a body, as they come in."""

    def __init__(self, body: Body) -> None:
        self._body = body

    def __next__(self) -> bytes:
        body = self._body
        answer = body.answer
        try:
            while not answer.complete:
                data = answer.rest or body.connection.read(SIZE, body.timeout)
                if part := answer.take(data):
                    return part
        except BaseException:
            body.give_back()
            raise
        raise StopIteration

    def __del__(self) -> None:
        # Whoever leaves a loop in the middle, and forgets the response, would keep its connection for ever.
        self._body.give_back()


class Body:
    """The body of an answer. When it is closed its connection may be lent again, if all of it was read."""

    def __init__(
        self, pool: Pool[Connection], connection: Connection, answer: Answer, timeout: float | None
    ) -> None:
        self.connection = connection
        self.answer = answer
        self.timeout = timeout
        self._pool = pool
        self._owed = [connection]

    def __iter__(self) -> Iterator[bytes]:
        return Parts(self)

    def close(self) -> None:
        self.give_back()

    @property
    def is_at_hand(self) -> bool:
        """Whether its next part is there, or its end: nobody will have to wait for it."""
        return bool(self.answer.rest) or self.answer.complete

    def give_back(self) -> None:
        """The connection: to be lent again, or not."""
        try:
            # Once: if it came back twice, two requests would have it at a time.
            connection = self._owed.pop()
        except IndexError:
            return
        if self.answer.complete and self.answer.keeps:
            self._pool.put(connection)
        else:
            self._pool.drop(connection)


class SyncDirect(ABC, Generic[Request, Response]):
    """Sends requests over connections that are one request's at a time."""

    _byte_stream: ClassVar[type[Iterable[bytes]]]
    """The library's class of bodies that are at hand."""

    def __init__(
        self,
        library: Library,
        context: ssl.SSLContext,
        *,
        most_idle: int | None,
        expiry: float | None,
        now: Callable[[], float],
    ) -> None:
        context.set_alpn_protocols(["http/1.1"])
        self._library = library
        self._context = context
        self._pool: Pool[Connection] = Pool(most_idle, expiry, now)

    def _send(self, request: Request) -> Response:
        target = request.extensions.get("target", request.url.raw_path)
        outgoing = Outgoing(request.method, target, request.headers.raw, self._library.LocalProtocolError)
        answer = Answer(request.method, self._library.RemoteProtocolError, upgrades=outgoing.upgrades)
        timeouts = request.extensions.get("timeout", {})
        connection = self._connected(request, timeouts.get("connect"))
        try:
            try:
                self._write(connection, outgoing, request.stream, timeouts.get("write"))
            except self._library.WriteError:
                if not connection.has_hung_up:
                    raise  # the body's own: it may come from another request
                # It may have hung up because it has seen enough, and say why.
                outgoing.closes = True
            while not answer.begin(connection.read(SIZE, timeouts.get("read"))):
                pass
        except BaseException:
            self._pool.drop(connection)
            raise
        if outgoing.closes:
            answer.keeps = False
        if answer.switched:
            connection.unread(answer.rest)
        return self._answered(answer, connection, timeouts.get("read"))

    def _connected(self, request: Request, within: float | None) -> Connection:
        origin = origin_of(request, self._library)
        while (idle := self._pool.take(origin)) is not None:
            if not idle.is_readable:
                return idle
            self._pool.drop(idle)  # the other side has closed it
        context = self._context if origin[0] == "https" else None
        connection = connect(origin, context, within, self._library)
        self._pool.add(connection)
        return connection

    def _write(self, connection: Connection, outgoing: Outgoing, stream: Any, within: float | None) -> None:
        if isinstance(stream, self._byte_stream):
            # In one go: it would be two packets otherwise.
            body = outgoing.framed(b"".join(stream))
            return connection.write(outgoing.head + body + outgoing.end(), within)
        connection.write(outgoing.head, within)
        for part in stream:
            connection.write(outgoing.framed(part), within)
        connection.write(outgoing.end(), within)

    @abstractmethod
    def _answered(self, answer: Answer, connection: Connection, timeout: float | None) -> Response:
        """A response of the library's class, with a body of the one above."""
