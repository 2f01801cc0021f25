"""Which connection a server closes when it has as many as it can serve. Pure: no sockets, no clock.

A connection counts from the moment it was accepted. When the limit is reached, a new connection takes the
place of another one, which the server closes:

1. while more than a tenth are sending a response, the one that started first: its client does not read. This
   is for servers that call `on_response_started`; for others such a request is in progress;
2. the oldest of those that have never completed a request, whatever part of a request head they have sent;
3. if there are none, the one that has been idle longest since its last request;
4. if there are none, the one that started to send a response first;
5. never one with a request in progress. If all have one, the new connection is rejected.

The newest tenth of the limit is exempt from the second rule while the third one applies. Otherwise, beside
idle connections that fill the limit, each new connection would take the place of the one accepted just
before it, and of many that arrive at once only the last would be served.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)

_EXEMPT_SHARE = 10


class ConnectionLimitReached(Exception):
    """Every connection has a request in progress: there is no place for another one."""


class ConnectionLimit(Generic[C]):
    """At most `max_connections` connections. Not thread-safe: for one event loop, or under a lock.

    A connection is any hashable object. Each operation takes constant time.
    """

    def __init__(self, max_connections: int) -> None:
        if max_connections < 1:
            raise ValueError("max_connections must be at least 1")
        self.max_connections = max_connections
        self._max_exempt = max_connections // _EXEMPT_SHARE
        # Ordered by when they were accepted, when their response started and when their last request
        # completed. Not plain dicts: to find the first key of one takes longer the more keys were deleted
        # before it.
        self._new: OrderedDict[C, None] = OrderedDict()
        self._responding: OrderedDict[C, None] = OrderedDict()
        self._idle: OrderedDict[C, None] = OrderedDict()
        self._in_progress: set[C] = set()

    def __len__(self) -> int:
        return len(self._new) + len(self._responding) + len(self._idle) + len(self._in_progress)

    def __contains__(self, connection: C) -> bool:
        groups = self._in_progress, self._new, self._responding, self._idle
        return any(connection in group for group in groups)

    def add(self, connection: C) -> C | None:
        """Adds a connection that was just accepted.

        Returns the connection that was evicted for it, if one was: it no longer counts, and the server
        closes it. Raises ConnectionLimitReached if none can be evicted: then the new one was not added.
        """
        if connection in self:
            raise ValueError("the connection was added before")
        evicted = self._evict() if len(self) >= self.max_connections else None
        self._new[connection] = None
        return evicted

    def on_request_started(self, connection: C) -> bool:
        """The head of a request was read. Returns False if the connection was evicted: do not serve it."""
        if connection not in self:
            return False
        if connection not in self._responding:
            self.remove(connection)
            self._in_progress.add(connection)
        return True

    def on_response_started(self, connection: C) -> None:
        """The first byte of the response is sent: the rest depends on the client, so it can be evicted."""
        if connection in self and connection not in self._responding:
            self.remove(connection)
            self._responding[connection] = None

    def on_request_completed(self, connection: C) -> None:
        """The response was sent: from now on the connection is idle."""
        if connection in self._in_progress or connection in self._responding:
            self.remove(connection)
            self._idle[connection] = None

    def remove(self, connection: C) -> None:
        """The connection was closed. Does nothing if it was evicted before, or never added."""
        self._new.pop(connection, None)
        self._responding.pop(connection, None)
        self._idle.pop(connection, None)
        self._in_progress.discard(connection)

    def _evict(self) -> C:
        for group in (self._responding, self._new):
            if len(group) > self._max_exempt:
                return group.popitem(last=False)[0]
        for group in (self._idle, self._new, self._responding):
            if group:
                return group.popitem(last=False)[0]
        raise ConnectionLimitReached(f"all {self.max_connections} connections have a request in progress")
