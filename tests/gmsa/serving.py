"""The port of a listener."""

from __future__ import annotations

from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener


def port_of(listener: MultiListener[SocketStream]) -> int:
    return listener.extra(SocketAttribute.local_port)  # noqa: S610 -- no Django here
