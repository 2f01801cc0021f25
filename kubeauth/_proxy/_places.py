"""Where it listens: an address and a port, or a Unix socket that is its owner's alone."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import cast

import anyio
from anyio.abc import SocketAttribute, SocketListener

from kubeauth.errors import ConfigError

_BACKLOG = 1024


@asynccontextmanager
async def on_port(address: str, port: int) -> AsyncGenerator[tuple[SocketListener, str]]:
    """Takes connections there (0: on any port that is free), and says where. ConfigError if it cannot."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise ConfigError(
            f"{address!r} is no IP address to listen on. Loopback is 127.0.0.1 or ::1"
        ) from None
    try:
        several = await anyio.create_tcp_listener(local_host=address, local_port=port, backlog=_BACKLOG)
    except OSError as error:
        why = error.strerror or error
        is_elsewhere = error.errno == errno.EADDRNOTAVAIL
        advice = "Give an address of this machine" if is_elsewhere else "Choose another port"
        raise ConfigError(f"cannot listen on {shown(address, port)}: {why}. {advice}") from error
    async with several:
        (listener,) = cast("Sequence[SocketListener]", several.listeners)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 -- no Django here
        yield listener, shown(address, port)


@asynccontextmanager
async def on_socket(path: str) -> AsyncGenerator[tuple[SocketListener, str]]:
    """Takes connections at that path, from its owner alone. It is removed at the end. ConfigError."""
    _make_room(path)
    # The file is there from bind() on: what others may do with it is settled before.
    before = os.umask(0o177)
    try:
        listener = await anyio.create_unix_listener(path, backlog=_BACKLOG)
    except OSError as error:
        # Of a path that is too long Python itself says so, without a number.
        why = error.strerror or f"{error}. Choose a shorter one, as in $XDG_RUNTIME_DIR"
        raise ConfigError(f"cannot listen on {path}: {why}") from error
    finally:
        os.umask(before)
    ours = os.stat(path)
    try:
        async with listener:
            yield listener, path
    finally:
        with suppress(OSError):
            if os.path.samestat(os.stat(path), ours):  # somebody may have put another there
                os.unlink(path)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(address).is_loopback


def shown(address: str, port: int) -> str:
    """As in a URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _make_room(path: str) -> None:
    """Removes a socket that nobody listens on: what is left of a proxy that was killed."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot listen on {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(
            f"cannot listen on {path}: there is something else of that name. Remove it, or choose another"
        )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # somebody may listen and never accept
        number = probe.connect_ex(path)
    if number != errno.ECONNREFUSED:
        raise ConfigError(
            f"cannot listen on {path}: somebody does already. Choose another path, or end that one"
        )
    os.unlink(path)
