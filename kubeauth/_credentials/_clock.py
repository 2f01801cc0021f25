"""Time, so that a test can be its own."""

from __future__ import annotations

from time import monotonic, time
from typing import Protocol


class Clock(Protocol):
    """The two clocks: what the calendar says, and what only ever moves on."""

    def time(self) -> float:
        """Seconds since 1970. May be set back."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment. Never goes back, and may stand still while a laptop sleeps."""
        ...


class SystemClock:
    """The computer's clocks."""

    # The built-in functions themselves: one call less on every request.
    time = staticmethod(time)
    monotonic = staticmethod(monotonic)


SYSTEM_CLOCK = SystemClock()
