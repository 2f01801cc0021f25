"""Ports for programs that must be told theirs."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

# Below those that a system gives to whoever asks for any, and to every connection that is made: such a port may be
# somebody else's by the time that a program has started.
_OURS = range(15000, 32000)


def free_ports(count: int) -> list[int]:
    """That nobody listened on a moment ago."""
    found: list[int] = []
    with ExitStack() as stack:
        for port in random.SystemRandom().sample(_OURS, 1000):
            each = stack.enter_context(socket.socket())
            try:
                each.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise AssertionError("no port is free")


def free_port() -> int:
    (port,) = free_ports(1)
    return port
