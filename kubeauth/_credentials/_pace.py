"""When to run a plugin, and when not to. Pure.

`chance` is a random number in [0, 1): a fleet that was started at one moment must not renew at one moment.
"""

from __future__ import annotations

from dataclasses import dataclass

# Ahead of its end a credential is renewed in the last tenth of its life, at most five minutes.
_SHARE = 0.1
_LONGEST_WINDOW = 300.0

_FIRST_DELAY = 1.0
_LONGEST_BACK_OFF = 30.0
_LONGEST_LIMIT = 60.0
_QUIET = 600.0


def ahead_window(lifetime: float, run_seconds: float, chance: float) -> float:
    """How long before its end a credential is renewed, so that nobody has to wait for it.

    Long enough for two runs, and never more than half of its life.
    """
    wanted = min(lifetime * _SHARE, _LONGEST_WINDOW) * (1 - 0.2 * chance)
    return min(max(wanted, 2 * run_seconds), lifetime / 2)


def back_off(failures: int, chance: float) -> float:
    """How long a plugin that failed so many times in a row is left alone."""
    return _jittered(min(_FIRST_DELAY * 2.0 ** min(failures - 1, 10), _LONGEST_BACK_OFF), chance)


def _jittered(seconds: float, chance: float) -> float:
    return seconds * (0.8 + 0.4 * chance)


@dataclass(frozen=True, slots=True)
class Limit:
    """How often a server's 401 may make a plugin run. Where nobody is welcome, asking again does not help."""

    next_at: float
    delay: float
    last: float
    """When the last 401 came."""

    def allows(self, now: float) -> bool:
        return now >= self.next_at or self._is_forgotten(now)

    def refused(self, now: float) -> Limit:
        """After a 401 that was handed back."""
        return Limit(self.next_at, self.delay, now)

    def after_a_run(self, now: float, chance: float) -> Limit:
        """After a 401 that makes the plugin run."""
        delay = _FIRST_DELAY if self._is_forgotten(now) else min(self.delay * 2, _LONGEST_LIMIT)
        return Limit(now + _jittered(delay, chance), delay, now)

    def _is_forgotten(self, now: float) -> bool:
        return now - self.last >= _QUIET


NO_LIMIT = Limit(next_at=0.0, delay=0.0, last=float("-inf"))
