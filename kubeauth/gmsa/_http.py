"""An HTTPS server for the webhook: HTTP/1.1 to an ASGI application, limits on connections and times (B19)."""

from __future__ import annotations

import logging
import ssl
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from http.client import responses as reason_phrases
from typing import TYPE_CHECKING
from urllib.parse import unquote

import anyio
import anyio.lowlevel
import h11
from anyio.abc import Listener, SocketStream, TaskGroup
from anyio.streams.tls import TLSStream

from kubeauth._connections import ConnectionLimit, ConnectionLimitReached
from kubeauth._http import parse_content_length

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

logger = logging.getLogger("kubeauth.gmsa")

_PAUSE = 0.1
# Steps of a connection, without a wait, after which the others have their turn.
_STEPS = 64
# When the server stops: for a request that is on its way to an idle connection.
_LAST_REQUEST_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client can take from the others."""

    max_connections: int = 300
    """Counted from accept. An API server has a few."""
    head_seconds: float = 5.0
    """For the TLS handshake; for the first request head; for a later one, from its first byte."""
    # client-go closes a connection after 90. The client should be the first: a review that is sent while the
    # server closes the connection is a pod rejected.
    idle_seconds: float = 120.0
    write_seconds: float = 10.0
    """For the client to read a response, from its first byte."""
    close_seconds: float = 2.0
    """For the client to close its side after the server did."""


class Disconnected(OSError):
    """The client has closed the connection, or does not read. ASGI's `send` raises an OSError then."""


# ssl.SSLError and TimeoutError are OSErrors.
_LOST = anyio.BrokenResourceError, anyio.EndOfStream, OSError


class Server:
    """Accepts connections, and closes some of them when there are too many."""

    def __init__(self, application: ASGIApp, context: ssl.SSLContext, limits: Limits) -> None:
        self._application = application
        self._context = context
        self._limits = limits
        self._connection_limit: ConnectionLimit[Connection] = ConnectionLimit(limits.max_connections)
        self._connections: set[Connection] = set()
        self._is_closing = False

    async def accept(self, listener: Listener[SocketStream], tasks: TaskGroup) -> None:
        """Until the listener is closed. Each connection is a task in `tasks`.

        Between two accepts every task has its turn. A new client is evicted after `max_connections` further
        accepts at the earliest: time enough for its handshake and its request, however many others connect.
        """
        while True:
            try:
                await listener.serve(self._run, tasks)
            except anyio.ClosedResourceError:
                return
            except OSError as error:  # too many open files, for example: that passes
                logger.warning("cannot accept a connection: %s", error.strerror)
                await anyio.sleep(_PAUSE)

    def close(self) -> None:
        """Closes all connections, after the response where a request is in progress or has arrived."""
        self._is_closing = True
        for connection in self._connections:
            connection.close_when_idle()

    async def _run(self, stream: SocketStream) -> None:
        connection = Connection(
            stream, self._context, self._application, self._limits, self._connection_limit
        )
        try:
            evicted = self._connection_limit.add(connection)
        except ConnectionLimitReached:
            evicted = connection
        if evicted is not None:
            evicted.scope.cancel()
        if self._is_closing:
            connection.close_when_idle()
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._connection_limit.remove(connection)


class Connection:
    """Serves the requests of a client, one after the other."""

    def __init__(
        self,
        stream: SocketStream,
        context: ssl.SSLContext,
        application: ASGIApp,
        limits: Limits,
        connection_limit: ConnectionLimit[Connection],
    ) -> None:
        self.scope = anyio.CancelScope()
        """Cancelling it closes the connection at once."""
        self._stream = stream
        self._context = context
        self._application = application
        self._limits = limits
        self._connection_limit = connection_limit
        self._http = h11.Connection(h11.SERVER)
        self._has_responded = False
        self._is_closing = False
        self._waiting: anyio.CancelScope | None = None
        self._is_lost = False
        self._method = b""
        self._peeked: object = None
        self._has_body_ended = False
        self._listening: anyio.CancelScope | None = None
        self._steps = 0
        self._head: h11.Response | None = None
        self._response_deadline = 0.0

    def close_when_idle(self) -> None:
        """Closes the connection, after the response if a request is in progress or has arrived."""
        self._is_closing = True
        if self._waiting is not None:
            self._shorten(self._waiting)

    async def run(self) -> None:
        """Until the connection is closed."""
        with self.scope:
            async with self._stream:
                try:
                    if await self._shake_hands():
                        await self._serve()
                except Disconnected:
                    pass
                except Exception as error:  # the other connections are still served
                    _report(error)

    async def _shake_hands(self) -> bool:
        with suppress(*_LOST), self._wait(self._limits.head_seconds):
            self._tls = await TLSStream.wrap(
                self._stream, server_side=True, ssl_context=self._context, standard_compatible=False
            )
            return True
        return False

    async def _serve(self) -> None:
        try:
            while (request := await self._read_head()) is not None:
                if not await self._respond(request):
                    break
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._send_error(error.error_status_hint)
        await self._close()

    async def _read_head(self) -> h11.Request | None:
        """The next request; None if there is none in time. h11.RemoteProtocolError."""
        is_idle = self._has_responded and not self._http.trailing_data[0]
        with self._wait(self._limits.idle_seconds if is_idle else self._limits.head_seconds) as waiting:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                await self._read()
                if is_idle:
                    is_idle = False
                    waiting.deadline = anyio.current_time() + self._limits.head_seconds
            if not isinstance(event, h11.Request):
                return None
            if event.method == b"CONNECT":  # which a response of 2xx would accept
                raise h11.RemoteProtocolError("CONNECT is not supported", error_status_hint=405)
            _check_length(event)
            return event
        return None

    async def _respond(self, request: h11.Request) -> bool:
        """Returns whether another request can follow."""
        self._method = request.method
        path, _, query = request.target.partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.http_version.decode(),
            "method": request.method.decode(),
            "scheme": "https",
            "path": unquote(path.decode()),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),
        }
        self._head, self._has_body_ended = None, False
        self._peeked = self._next_event()  # without a body, the request has arrived
        has_failed = await self._run_application(scope)
        if self._http.our_state is h11.SEND_RESPONSE:
            await self._send_error(400 if self._http.their_state is h11.ERROR else 500)
        if self._http.our_state is h11.SEND_BODY:
            raise Disconnected  # without a close_notify: the client must not take it for the entire response
        if has_failed or (self._http.our_state, self._http.their_state) != (h11.DONE, h11.DONE):
            return False
        self._http.start_next_cycle()
        self._has_responded = True
        self._connection_limit.on_request_completed(self)
        return True

    async def _run_application(self, scope: Scope) -> bool:
        """Returns whether it failed: it has raised an exception, or not sent a complete response."""
        try:
            await self._application(scope, self._receive, self._send)
        except Exception as error:
            if self._is_lost:
                raise Disconnected from None
            if self._http.their_state is not h11.ERROR:  # it may not expect http.disconnect
                _report(error)
            return True
        if self._is_lost:
            raise Disconnected
        if self._http.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY):
            logger.error("internal error, please report it: the application sent no complete response")
            return True
        return False

    async def _receive(self) -> Message:
        """ASGI's `receive`: the next part of the body; after it, waits until the client has left."""
        if self._has_body_ended:
            await self._wait_for_disconnect()
            return {"type": "http.disconnect"}
        try:
            if self._http.they_are_waiting_for_100_continue:
                interim = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                await self._write(interim, anyio.current_time() + self._limits.write_seconds)
            event, self._peeked = self._peeked or self._next_event(), None
            while event is h11.NEED_DATA:
                await self._read()
                event = self._next_event()
        except (Disconnected, h11.ProtocolError):
            return {"type": "http.disconnect"}
        await self._let_others_run()
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        self._has_body_ended = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _wait_for_disconnect(self) -> None:
        """Until the client has left, or the response is complete."""
        if self._http.our_state not in (h11.SEND_RESPONSE, h11.SEND_BODY):
            return
        with anyio.CancelScope() as self._listening:
            while self._http.trailing_data == (b"", False):
                await self._read()
            if self._http.trailing_data[0]:  # the next request, which is to wait
                await anyio.sleep_forever()

    def _next_event(self) -> object:
        event = self._http.next_event()
        if isinstance(event, h11.EndOfMessage):
            # Not earlier: clients that send half a body could have all connections in progress otherwise.
            self._connection_limit.on_request_started(self)
        return event

    async def _send(self, message: Message) -> None:
        """ASGI's `send`. The head is sent with the first part of the body."""
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = [(b"date", formatdate(usegmt=True).encode()), *message.get("headers", ())]
            # The rest of a body that the application did not read is not waited for.
            if self._is_closing or self._http.their_state in (h11.SEND_BODY, h11.ERROR):
                headers = [each for each in headers if each[0].lower() != b"connection"]
                headers.append((b"connection", b"close"))
            reason = reason_phrases.get(status, "").encode()
            self._head = h11.Response(status_code=status, headers=headers, reason=reason)
            return
        data = b""
        if self._head is not None:
            data, self._head = self._http.send(self._head), None
            self._response_deadline = anyio.current_time() + self._limits.write_seconds
            # Not later: clients that read slowly could have all connections in progress otherwise.
            self._connection_limit.on_response_started(self)
        if self._method != b"HEAD":
            data += self._http.send(h11.Data(data=message.get("body", b"")))
        if not message.get("more_body", False):
            data += self._http.send(h11.EndOfMessage())
            if self._listening is not None:
                self._listening.cancel()
        await self._write(data, self._response_deadline)

    async def _send_error(self, status: int) -> None:
        headers = [(b"connection", b"close"), (b"content-length", b"0")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body"})

    async def _close(self) -> None:
        """Closes it after what still arrives: unread data would reset it before the response was read."""
        with anyio.move_on_after(self._limits.close_seconds), suppress(*_LOST):
            with suppress(ssl.SSLError):  # data after our close_notify
                await self._tls.unwrap()
            await self._stream.send_eof()
            while True:
                await self._stream.receive()

    @contextmanager
    def _wait(self, seconds: float) -> Generator[anyio.CancelScope]:
        """Time that the client has. There is less of it if the connection is to be closed."""
        with anyio.move_on_after(seconds) as self._waiting:
            if self._is_closing:
                self._shorten(self._waiting)
            try:
                yield self._waiting
            finally:
                self._waiting = None

    def _shorten(self, waiting: anyio.CancelScope) -> None:
        waiting.deadline = min(waiting.deadline, anyio.current_time() + _LAST_REQUEST_SECONDS)

    async def _read(self) -> None:
        try:
            data = await self._tls.receive()
        except _LOST:
            data = b""
        self._http.receive_data(data)
        await self._let_others_run()

    async def _let_others_run(self) -> None:
        """What has arrived can be thousands of chunks or TLS records, which are read without a wait."""
        self._steps += 1
        if self._steps % _STEPS == 0:
            await anyio.lowlevel.checkpoint()

    async def _write(self, data: bytes, deadline: float) -> None:
        try:
            with anyio.fail_after(deadline - anyio.current_time()):
                await self._tls.send(data)
        except _LOST:
            self._is_lost = True
            raise Disconnected from None


def _check_length(request: h11.Request) -> None:
    """Raises h11.RemoteProtocolError. RFC 9112, 6.1: both framings together may be request smuggling."""
    headers = dict(request.headers)
    length = headers.get(b"content-length")
    if length is not None and (b"transfer-encoding" in headers or parse_content_length(length) is None):
        raise h11.RemoteProtocolError("invalid Content-Length")


def _report(error: Exception) -> None:
    # Not its message: that may be a part of a pod.
    where = "".join(traceback.format_tb(error.__traceback__))
    logger.error("internal error, please report it: %s\n%s", type(error).__name__, where)
