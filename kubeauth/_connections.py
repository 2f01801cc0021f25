"""ConnectionLimit: which connection a server closes to accept a new one at its limit. Pure: no I/O, no clock.

At the limit, a new connection evicts the first of these:

1. if more than a tenth of the limit are sending a response: the one that started first, since its client may
   have stopped reading. Only for servers that call `on_response_started`;
2. the oldest connection that has not completed a request yet, even if it has sent part of a request head;
3. the connection that has been idle longest since its last request;
4. the connection that started to send a response first.

A connection with a request in progress is never evicted. If all have one, the new connection is rejected.

The newest tenth of the limit is exempt from rule 2 while rule 3 applies. Otherwise, if idle connections fill
the limit, each new connection would evict the one accepted just before it, and of many that arrive at once
only the last would be served.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)

_EXEMPT_SHARE = 10


class ConnectionLimitReached(Exception):
    """All connections have a request in progress, so that none can be evicted."""


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
        # completed. Not plain dicts: finding the first key of a dict is slow after many deletions.
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
        """Add a connection that was just accepted. Return the evicted one, if any, for the server to close.

        Raises ConnectionLimitReached if none can be evicted: then the new connection is not added.
        """
        if connection in self:
            raise ValueError("the connection has already been added")
        evicted = self._evict() if len(self) >= self.max_connections else None
        self._new[connection] = None
        return evicted

    def on_request_started(self, connection: C) -> bool:
        """The head of a request was read. Return False if the connection was evicted: do not serve it."""
        if connection not in self:
            return False
        if connection not in self._responding:
            self.remove(connection)
            self._in_progress.add(connection)
        return True

    def on_response_started(self, connection: C) -> None:
        """The response has started. Its end depends on the client, so the connection can be evicted."""
        if connection in self and connection not in self._responding:
            self.remove(connection)
            self._responding[connection] = None

    def on_request_completed(self, connection: C) -> None:
        """The response was sent: the connection is idle."""
        if connection in self._in_progress or connection in self._responding:
            self.remove(connection)
            self._idle[connection] = None

    def remove(self, connection: C) -> None:
        """Remove a closed connection. Do nothing if it was evicted, or never added."""
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
