"""The proxy: connections taken in, each with its conversation, from the first request to the last answer."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio
import h11
import httpx
from anyio.abc import SocketListener, SocketStream, TaskGroup, TaskStatus

from kubeauth._config.client_config import ClientConfig
from kubeauth._config.urls import redact_url
from kubeauth._connections import ConnectionLimit, ConnectionLimitReached
from kubeauth._proxy._caller import Caller, Gone, Limits
from kubeauth._proxy._counts import Counts, registry_of
from kubeauth._proxy._exchange import Exchanges, Settings
from kubeauth._proxy._filter import Filter
from kubeauth._proxy._monitor import Monitor
from kubeauth._proxy._places import on_port, on_socket
from kubeauth._proxy._refusal import Refused
from kubeauth._proxy._sending import Sending
from kubeauth._proxy._target import Mount
from kubeauth._transport.httpx import AsyncKubeTransport

logger = logging.getLogger("kubeauth.proxy")

_PAUSE = 0.1

Handler = Callable[[Caller, h11.Request], Awaitable[None]]


class Served(NamedTuple):
    """Where it serves, as in a URL; None where it does not."""

    address: str
    metrics: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the API of a cluster is served. The defaults are kubectl's."""

    address: str = "127.0.0.1"
    port: int = 8001
    unix_socket: str = ""
    filter: Filter | None = field(default_factory=Filter)
    """None: everything is passed on, whoever asks."""
    api_prefix: str = "/"
    append_server_path: bool = False
    keepalive: float = 0.0
    metrics_address: str = "127.0.0.1"
    metrics_port: int | None = None
    limits: Limits = field(default_factory=Limits)


async def serve(
    config: ClientConfig,
    options: Options,
    *,
    stop: anyio.Event | None = None,
    counts: Counts | None = None,
    task_status: TaskStatus[Served] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until `stop` is set: then nobody new is let in, and what has begun has a few seconds to end.

    Says through `task_status` where, when it does. ConfigError if it cannot; TLSError and CredentialError
    for what is wrong with the config.
    """
    counts = counts or Counts()
    server = httpx.URL(redact_url(config.server))
    # Nobody can make a browser ask on a Unix socket.
    rules = options.filter.compiled(hosts=not options.unix_socket) if options.filter is not None else None
    path = server.raw_path.decode("ascii") if options.append_server_path else ""
    settings = Settings(rules, Mount.at(options.api_prefix, path), options.keepalive)
    async with AsyncExitStack() as stack:
        at = on_socket(options.unix_socket) if options.unix_socket else on_port(options.address, options.port)
        listener, address = await stack.enter_async_context(at)
        transport = await stack.enter_async_context(AsyncKubeTransport(config, transport_factory=Sending))
        doors: list[tuple[SocketListener, Handler]] = []
        doors.append((listener, Exchanges(transport, server, settings, counts)))
        metrics = None
        if options.metrics_port is not None:
            at = on_port(options.metrics_address, options.metrics_port)
            listener, metrics = await stack.enter_async_context(at)
            doors.append((listener, Monitor(registry_of(counts))))
        task_status.started(Served(address, metrics))
        await _House(options.limits, counts).open(doors, stop or anyio.Event())


class _House:
    """Has conversations, as many as there may be."""

    def __init__(self, limits: Limits, counts: Counts) -> None:
        self._limits = limits
        self._counts = counts
        self._callers: set[Caller] = set()
        # One for each handler: probes are answered when the API's connections are at their limit.
        self._connections: dict[Handler, ConnectionLimit[Caller]] = {}
        # Also those that nobody has begun to talk to: asyncio may cancel a task before it has begun.
        self._streams: set[SocketStream] = set()
        self._ending = False
        self._left = anyio.Event()

    async def open(self, doors: list[tuple[SocketListener, Handler]], stop: anyio.Event) -> None:
        """Until `stop` is set, and those who are there have left, or had time to."""
        try:
            async with anyio.create_task_group() as conversations:
                async with anyio.create_task_group() as taking:
                    for listener, handler in doors:
                        self._connections[handler] = ConnectionLimit(self._limits.connections)
                        taking.start_soon(self._take, listener, handler, conversations)
                    await stop.wait()
                    self._ending = True
                    # Not by cancelling: who is being taken in just now would be forgotten.
                    for listener, _ in doors:
                        await listener.aclose()
                for caller in self._callers:
                    caller.hurry()
                with anyio.move_on_after(self._limits.grace_seconds):
                    while self._callers:
                        self._left = anyio.Event()
                        await self._left.wait()
                conversations.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                for stream in self._streams:
                    await stream.aclose()

    async def _take(self, listener: SocketListener, handler: Handler, conversations: TaskGroup) -> None:
        while True:
            try:
                stream = await listener.accept()
            except anyio.ClosedResourceError:
                return
            except OSError as error:
                # There may be nothing left to take one with, which passes; or it was gone before that.
                logger.warning("a connection could not be taken: %s", error.strerror)
                await anyio.sleep(_PAUSE)
            else:
                self._streams.add(stream)
                caller = Caller(stream, self._limits)
                # Before its task starts: a connection counts from the moment it was accepted.
                is_admitted = self._admit(caller, handler)
                conversations.start_soon(self._converse, caller, handler, is_admitted)

    def _admit(self, caller: Caller, handler: Handler) -> bool:
        """Counts a new connection; at the limit, evicts another one for it. False if none can be evicted."""
        try:
            evicted = self._connections[handler].add(caller)
        except ConnectionLimitReached:
            return False
        if evicted is not None:
            self._counts.evicted += 1
            evicted.evict()
        return True

    async def _converse(self, caller: Caller, handler: Handler, is_admitted: bool) -> None:
        caller.ending = self._ending
        self._callers.add(caller)
        self._counts.connections += 1
        try:
            with caller.lifetime:
                async with caller.stream, anyio.create_task_group() as reading:
                    reading.start_soon(caller.read)
                    await (self._talk(caller, handler) if is_admitted else self._send_away(caller))
                    reading.cancel_scope.cancel()
        except Exception as error:  # one caller's fault, or ours: the others go on
            _tell_of_fault(error)
        finally:
            self._streams.discard(caller.stream)
            self._callers.discard(caller)
            self._connections[handler].remove(caller)
            self._counts.connections -= 1
            self._left.set()

    async def _talk(self, caller: Caller, handler: Handler) -> None:
        connections = self._connections[handler]
        with suppress(Gone):
            try:
                while (asked := await caller.request()) is not None:
                    if not connections.on_request_started(caller):
                        return  # it was evicted while its request was being read
                    await handler(caller, asked)
                    connections.on_request_completed(caller)
                    if not caller.again():
                        break
            except Refused as refused:
                self._counts.refused[refused.kind] += 1
                await caller.refuse(refused)
            await caller.end()

    async def _send_away(self, caller: Caller) -> None:
        self._counts.refused["connections"] += 1
        with suppress(Gone):
            why = "all connections to this proxy have a request in progress; try again later"
            await caller.refuse(Refused(503, "connections", why))
            await caller.end()


def _tell_of_fault(error: BaseException) -> None:
    """Where, but no values: there may be a secret among them."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            _tell_of_fault(each)
        return
    where = "".join(traceback.format_tb(error.__traceback__)[-3:])
    logger.error("a fault of kubeauth, please report it: %s in:\n%s", type(error).__name__, where)
