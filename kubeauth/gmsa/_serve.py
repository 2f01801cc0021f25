"""The webhook as a process: it accepts connections until a signal, and ends after the last response."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener

from kubeauth._client import AsyncClient
from kubeauth._config.client_config import ClientConfig
from kubeauth.errors import ConfigError
from kubeauth.gmsa._app import app
from kubeauth.gmsa._decision import STRICT, Policy
from kubeauth.gmsa._environment import Settings, settings_of
from kubeauth.gmsa._http import Limits, Server
from kubeauth.gmsa._pair import POLL, ServedPair
from kubeauth.transports import AsyncDirectTransport

if TYPE_CHECKING:
    from starlette.types import ASGIApp

logger = logging.getLogger("kubeauth.gmsa")

GRACE = 20
"""Seconds for requests in progress when the process is to end. Kubernetes gives a pod 30."""
_BACKLOG = 1024


def run(
    environ: Mapping[str, str],
    *,
    policy: Policy = STRICT,
    config: ClientConfig | None = None,
    host: str = "",
    poll: float = POLL,
) -> None:
    """Serves the webhook as the environment says (B76) until SIGTERM, or Ctrl-C. ConfigError if it cannot.

    Without a `config` it is the one that kubectl would use: in a cluster, that of the pod. Without a `host`
    it listens on all addresses of this machine.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")  # unless somebody did
    settings = settings_of(environ)
    logging.getLogger("kubeauth").setLevel(settings.log_level)
    policy = replace(policy, random_hostname=policy.random_hostname or settings.random_hostname)
    asyncio.run(_run(settings, policy, config, host, poll))


async def _run(
    settings: Settings, policy: Policy, config: ClientConfig | None, host: str, poll: float
) -> None:
    pair = ServedPair(settings.certificate_file, settings.key_file)
    # httpx's own looks at every connection for every request: after a moment with many reviews at once it has
    # so many of them that each takes longer from then on.
    async with AsyncClient(config, transport_factory=AsyncDirectTransport) as client:
        application = app(client, policy=policy, qps=settings.qps, burst=settings.burst)
        async with listening(settings.port, host) as listener:
            await serve(application, pair, listener, poll=poll)


@asynccontextmanager
async def listening(port: int, host: str = "") -> AsyncGenerator[MultiListener[SocketStream]]:
    """Accepts connections: without a host, on all addresses of this machine."""
    try:
        listener = await anyio.create_tcp_listener(local_host=host or None, local_port=port, backlog=_BACKLOG)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            what = f"cannot listen on {host}: {error.strerror}. Give an address of this machine: --host."
        else:
            what = f"cannot listen on port {port}: {error.strerror}. Choose another one: HTTPS_PORT."
        raise ConfigError(what) from error
    async with listener:
        yield listener


async def serve(
    application: ASGIApp,
    pair: ServedPair,
    listener: MultiListener[SocketStream],
    *,
    poll: float = POLL,
    grace: float = GRACE,
    limits: Limits | None = None,
) -> None:
    """Until SIGTERM, or Ctrl-C. Requests in progress are answered, for `grace` seconds; no new ones.

    For asyncio.
    """
    stop = anyio.Event()
    server = Server(application, pair.context, limits or Limits())
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 -- no Django here
    logger.info("the webhook listens on port %d", port)
    with _on_signals(stop.set):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pair.follow, poll)
            async with anyio.create_task_group() as connections:
                for each in listener.listeners:
                    connections.start_soon(server.accept, each, connections)
                await stop.wait()
                await listener.aclose()
                server.close()
                connections.cancel_scope.deadline = anyio.current_time() + grace
            tasks.cancel_scope.cancel()
    logger.info("the webhook has answered everybody, and ends")


@contextmanager
def _on_signals(call: Callable[[], None]) -> Generator[None]:
    """Runs `call` in this event loop on SIGINT and SIGTERM, and restores their handlers at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread
        return
    loop = asyncio.get_running_loop()

    def on_signal(_signal: int, _frame: object) -> None:
        loop.call_soon_threadsafe(call)

    before = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
