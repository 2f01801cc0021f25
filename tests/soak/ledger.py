"""Whether every watch saw everything that happened, once. Pure but for a lock.

A change is known by its name and kind. Whoever asked for it says when, and whether it knows that it was done; whoever
watches says what it saw. If one has seen a change it happened, and all must: but for those that had to list
again because the server had forgotten what they asked for, which nobody calls a loss.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Change:
    begun: float
    confirmed: bool = False
    version: int | None = None
    seen: int = 0
    """A bit for each watch."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """What one watch could not see."""

    after: int
    until: int
    begun: float
    ended: float

    def covers(self, change: _Change) -> bool:
        if change.version is not None:
            return self.after < change.version <= self.until
        # Nobody has seen it, so nobody knows its version: it must have happened around then.
        return self.begun - 60.0 <= change.begun <= self.ended


@dataclass(slots=True)
class Watched:
    """What one watch tells."""

    number: int
    version: int = 0
    events: int = 0
    duplicates: int = 0
    relists: int = 0
    gaps: list[_Gap] = field(default_factory=list)
    last_seen: float = 0.0


class Ledger:
    """Forgets a change when all have seen it."""

    def __init__(self, watches: int) -> None:
        self.watches = [Watched(number) for number in range(watches)]
        self.changes = 0
        self._all = (1 << watches) - 1
        # Guards everything.
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], _Change] = {}

    def begin(self, name: str, kind: str, now: float) -> None:
        """Somebody is about to ask for it."""
        with self._lock:
            self._pending.setdefault((name, kind), _Change(now))

    def confirm(self, name: str, kind: str) -> None:
        """The server says that it was done, or must have been."""
        with self._lock:
            change = self._pending.get((name, kind))
            if change is not None and not change.confirmed:
                change.confirmed = True
                self._settle_locked((name, kind), change)

    def never_mind(self, name: str, kind: str) -> None:
        """The server says that it was not done."""
        with self._lock:
            change = self._pending.get((name, kind))
            if change is not None and not change.seen:
                del self._pending[name, kind]

    def listed(self, watch: int, version: int, now: float) -> None:
        """That watch had to begin anew, and starts from here."""
        with self._lock:
            watched = self.watches[watch]
            if watched.version:
                watched.relists += 1
                watched.gaps.append(_Gap(watched.version, version, watched.last_seen, now))
            watched.version = version
            watched.last_seen = now

    def bookmarked(self, watch: int, version: int, now: float) -> None:
        """The server says how far it is."""
        with self._lock:
            watched = self.watches[watch]
            watched.version = max(watched.version, version)
            watched.last_seen = now

    def seen(self, watch: int, name: str, kind: str, version: int, now: float) -> None:
        """That watch got this event."""
        with self._lock:
            watched = self.watches[watch]
            watched.last_seen = now
            if version <= watched.version:
                watched.duplicates += 1
                return
            watched.version = version
            watched.events += 1
            change = self._pending.get((name, kind))
            if change is None:
                return  # not of this run, or seen by all
            change.version = version
            change.seen |= 1 << watch
            self._settle_locked((name, kind), change)

    def unsettled(self) -> int:
        """Events that some watch has still to see."""
        with self._lock:
            return len(self._missing_locked())

    def lost(self) -> list[str]:
        """What some watch should have seen, and has not. At the end, when all had time to."""
        with self._lock:
            return self._missing_locked()

    def _missing_locked(self) -> list[str]:
        missing: list[str] = []
        for (name, kind), change in self._pending.items():
            if not change.seen and not change.confirmed:
                continue  # it was never done
            for watched in self.watches:
                if change.seen & 1 << watched.number or any(gap.covers(change) for gap in watched.gaps):
                    continue
                missing.append(f"watch {watched.number} did not see {name} {kind}")
        return missing

    def _settle_locked(self, key: tuple[str, str], change: _Change) -> None:
        if change.seen == self._all and change.confirmed:
            self.changes += 1
            del self._pending[key]
