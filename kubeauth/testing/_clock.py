"""A clock that moves when it is told to."""

from __future__ import annotations


class FakeClock:
    """Time for `Client(..., clock=clock)`: stands still until `advance`.

    The two clocks can be moved apart, as when a laptop sleeps or somebody sets the date.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._time = now
        self._monotonic = 1_000.0

    def time(self) -> float:
        """Seconds since 1970."""
        return self._time

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Both clocks move on."""
        self._time += seconds
        self._monotonic += seconds

    def set_date(self, now: float) -> None:
        """The wall clock alone is set; the other one does not notice."""
        self._time = now
