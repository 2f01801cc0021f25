"""FakeClock: a clock for tests."""

from __future__ import annotations


class FakeClock:
    """A clock for `Client(..., clock=clock)` that only moves when `advance` or `set_date` is called.

    The wall clock and the monotonic clock can differ, as after a laptop slept or the date was changed.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._time = now
        self._monotonic = 1_000.0

    def time(self) -> float:
        """Return the wall-clock time, in seconds since the epoch."""
        return self._time

    def monotonic(self) -> float:
        """Return the monotonic time, in seconds."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._time += seconds
        self._monotonic += seconds

    def set_date(self, now: float) -> None:
        """Set the wall clock, and leave the monotonic clock unchanged."""
        self._time = now
