"""Free ports for programs that need a port number as an argument."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

# Below the ephemeral ports, which the system may assign to another program or connection before this one starts.
_RANGE = range(15000, 32000)


def free_ports(count: int) -> list[int]:
    """Ports on which no program listens now."""
    ports: list[int] = []
    with ExitStack() as stack:
        for port in random.SystemRandom().sample(_RANGE, 1000):
            sock = stack.enter_context(socket.socket())
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise AssertionError("no free port")


def free_port() -> int:
    (port,) = free_ports(1)
    return port
