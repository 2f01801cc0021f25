"""The webhook as a process: uvicorn with TLS, from the first request to the last answer."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from anyio import create_task_group

from kubeauth._client import AsyncClient
from kubeauth._config._client_config import ClientConfig
from kubeauth.errors import ConfigError
from kubeauth.gmsa._app import app
from kubeauth.gmsa._decision import STRICT, Policy
from kubeauth.gmsa._environment import Settings, settings_of
from kubeauth.gmsa._pair import POLL, ServedPair
from kubeauth.inner import AsyncDirectTransport

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from kubeauth.gmsa._connections import Limits

logger = logging.getLogger("kubeauth.gmsa")

GRACE = 20
"""Seconds for what has begun when the end is asked for. Kubernetes gives a pod 30."""
# client-go closes what was idle for 90. Whoever closes first must be the one who sends: a review that meets a
# connection which is being closed is a pod refused.
_KEEP_ALIVE = 120
# As many are taken in before anybody looks whether they are too many.
_BACKLOG = 100


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
    async with AsyncClient(config, inner=AsyncDirectTransport) as client:
        application = app(client, policy=policy, qps=settings.qps, burst=settings.burst)
        with listening(settings.port, host) as listener:
            await serve(application, pair, listener, poll=poll)


@contextmanager
def listening(port: int, host: str = "") -> Generator[socket.socket]:
    """A socket that takes connections: without a host, for all addresses of this machine."""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, dualstack_ipv6=both, backlog=1024)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            what = f"cannot listen on {host}: {error.strerror}. Give an address of this machine: --host."
        else:
            what = f"cannot listen on port {port}: {error.strerror}. Choose another one: HTTPS_PORT."
        raise ConfigError(what) from error
    with listener:
        # For those that it accepts. asyncio leaves it to chance for a socket that it has not made itself, and
        # then the body of an answer waits for its head to be acknowledged: 40 ms, for each review.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


async def serve(
    application: Starlette,
    pair: ServedPair,
    listener: socket.socket,
    *,
    poll: float = POLL,
    grace: int = GRACE,
    limits: Limits | None = None,
) -> None:
    """Until SIGTERM, or Ctrl-C. What has begun is answered, for `grace` seconds; nobody new is let in.

    Raises ImportError if uvicorn is not installed.
    """
    try:
        import uvicorn

        from kubeauth.gmsa._connections import Limits, door
    except ImportError as error:
        raise ImportError("the webhook needs uvicorn. Install it: pip install 'kubeauth[gmsa]'") from error
    config = uvicorn.Config(
        application,
        log_config=None,  # its words go where all others go
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        http=door(pair.context, limits or Limits()),
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=grace,
    )
    server = uvicorn.Server(config)
    logger.info("the webhook listens on port %d", listener.getsockname()[1])
    with _ended_by_signals(server):
        async with create_task_group() as tasks:
            tasks.start_soon(pair.follow, poll)
            await server.serve([listener])
            tasks.cancel_scope.cancel()
    logger.info("the webhook has answered everybody, and ends")


@contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Generator[None]:
    """uvicorn raises a signal again when it is done, and here that does nothing: it is no error (B80)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where no signal arrives
        return

    def end(_signal: int, _frame: object) -> None:
        server.should_exit = True  # also before uvicorn looks for signals

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
