"""`kubeauth proxy`: the API server on loopback, with requests signed, for tools in any language."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from kubeauth._proxy._filter import ACCEPT_HOSTS, ACCEPT_PATHS, REJECT_METHODS, REJECT_PATHS, Filter
from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.cli._flags import Flags
from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskStatus

    from kubeauth._config.client_config import ClientConfig
    from kubeauth._proxy._serve import Options as Served

_PORT = 8001
# Of files besides connections; and each caller needs two, for itself and to the server.
_FILES, _FILES_EACH = 64, 2


class Options(Flags):
    port: int = _PORT
    address: str = "127.0.0.1"
    unix_socket: str = ""
    accept_hosts: str = ACCEPT_HOSTS
    accept_paths: str = ACCEPT_PATHS
    reject_paths: str = REJECT_PATHS
    reject_methods: str = REJECT_METHODS
    disable_filter: bool = False
    api_prefix: str = "/"
    append_server_path: bool = False
    keepalive: float = 0.0
    metrics_port: int | None = None
    metrics_address: str = "127.0.0.1"

    LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

    def set_up_logging(self) -> None:
        """Requests are those of our callers, by a line of our own. With queries and headers from -v 8 on."""
        import logging

        super().set_up_logging()
        if 6 <= self.verbosity < 8:
            logging.getLogger("kubeauth.transport").setLevel(logging.INFO)

    @property
    def filter(self) -> Filter | None:
        if self.disable_filter:
            return None
        return Filter(
            accept_hosts=self.accept_hosts,
            accept_paths=self.accept_paths,
            reject_paths=self.reject_paths,
            reject_methods=self.reject_methods,
        )

    def served(self) -> Served:
        """All of it, for whoever serves."""
        from kubeauth._proxy._caller import Limits
        from kubeauth._proxy._serve import Options as Served

        return Served(
            address=self.address,
            port=self.port,
            unix_socket=self.unix_socket,
            filter=self.filter,
            api_prefix=self.api_prefix,
            append_server_path=self.append_server_path,
            keepalive=self.keepalive,
            metrics_address=self.metrics_address,
            metrics_port=self.metrics_port,
            limits=Limits(connections=min(Limits().connections, _most_connections())),
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where it listens")
    where.add_argument("-p", "--port", type=_port, metavar="PORT", help="0: one that is free (default: 8001)")
    where.add_argument(
        "--address", metavar="IP", help="default: 127.0.0.1. Whoever reaches it has your rights"
    )
    where.add_argument(
        "-u",
        "--unix-socket",
        type=_path,
        metavar="PATH",
        help="in place of a port: a socket for this user alone",
    )
    where.add_argument("--metrics-port", type=_port, metavar="PORT", help="serve /metrics and /healthz there")
    where.add_argument("--metrics-address", metavar="IP", help="and on this address (default: 127.0.0.1)")
    what = parser.add_argument_group("what it passes on; regular expressions, with commas between them")
    what.add_argument("--accept-hosts", metavar="RE", help=f"names it is asked by (default: {ACCEPT_HOSTS})")
    what.add_argument("--accept-paths", metavar="RE", help=f"paths (default: {ACCEPT_PATHS})")
    what.add_argument("--reject-paths", metavar="RE", help=f"but not these paths (default: {REJECT_PATHS})")
    what.add_argument("--reject-methods", metavar="RE", help="nor these methods, as POST,PUT,PATCH")
    what.add_argument(
        "--disable-filter", action="store_true", help="pass everything on, for any page in your browser too"
    )
    how = parser.add_argument_group("how it passes it on")
    how.add_argument("--api-prefix", metavar="PATH", help="serve the API below this path (default: /)")
    how.add_argument(
        "--append-server-path", action="store_true", help="put the path of the server's address before each"
    )
    how.add_argument(
        "--keepalive", type=_seconds, metavar="TIME", help="ask so often whether an upgraded connection lives"
    )


def run(options: Options) -> int:
    """Serve the API server of the kubeconfig on loopback, and sign what is passed on, as kubectl proxy does.

    For tools in any language: they need no plugin, no certificate and no token. Credentials are renewed
    while it runs. Watches and port-forward go through, exec and attach if --reject-paths lets them. SIGTERM
    and Ctrl-C end it: what has begun has five seconds, and the exit code is 0.

      kubeauth proxy --port 8001 --metrics-port 9001
      curl http://127.0.0.1:8001/api/v1/namespaces
      kubeauth proxy --unix-socket /run/user/1000/kube.sock
      curl --unix-socket /run/user/1000/kube.sock http://localhost/version

    Whoever can reach it has your rights in the cluster.
    """
    if options.unix_socket and options.port != _PORT:
        raise Failed("error: cannot set --unix-socket and --port at the same time", Status.USAGE)
    import anyio

    config = options.config()
    _warn(options, config.server)
    try:
        anyio.run(_serve, config, options.served())
    except BaseExceptionGroup as group:
        raise _first(group) from None
    return Status.OK


async def _serve(config: ClientConfig, options: Served) -> None:
    import anyio

    from kubeauth._proxy._serve import Served as Where
    from kubeauth._proxy._serve import serve

    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_on_signals, stop, tasks.cancel_scope)

        async def until_stopped(*, task_status: TaskStatus[Where]) -> None:
            await serve(config, options, stop=stop, task_status=task_status)
            tasks.cancel_scope.cancel()

        served: Where = await tasks.start(until_stopped)
        print(f"Starting to serve on {served.address}", flush=True)
        if served.metrics is not None:
            tell(f"Metrics are on http://{served.metrics}/metrics")


async def _end_on_signals(stop: anyio.Event, everything: anyio.CancelScope) -> None:
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if stop.is_set():
                everything.cancel()  # whoever asks twice does not want to wait
            stop.set()


def _warn(options: Options, server: str) -> None:
    """Of what may not be meant."""
    from urllib.parse import urlsplit

    from kubeauth._proxy._places import is_loopback

    if options.unix_socket:
        return
    with suppress(ValueError):  # which is said later
        if not is_loopback(options.address):
            tell(
                f"Warning: anybody who can reach {options.address} has the rights of this kubeconfig in the "
                "cluster, without any password. Listen on 127.0.0.1, or on a Unix socket."
            )
    if options.disable_filter:
        tell("Warning: Request filter disabled, your proxy is vulnerable to XSRF attacks, please be cautious")
    if (path := urlsplit(server).path.rstrip("/")) and not options.append_server_path:
        tell(
            f"Warning: Your kube context contains a server path {path}, use --append-server-path to "
            "automatically append the path to each request"
        )


def _most_connections() -> int:
    """As many as there can be files for, once we may have all that we can."""
    try:
        import resource
    except ImportError:  # not on Windows
        return sys.maxsize
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, (soft - _FILES) // _FILES_EACH)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def _path(text: str) -> str:
    if not text:  # of a variable that is not set: not what listens for everybody on this machine instead
        raise argparse.ArgumentTypeError("this is no path, it is empty")
    return text


def _seconds(text: str) -> float:
    from kubeauth._parsing.go import parse_timeout

    try:
        seconds = parse_timeout(text) or 0.0
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than nothing")
    return seconds
