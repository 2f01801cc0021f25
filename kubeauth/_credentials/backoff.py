"""When to refresh, and how long to back off after failures and 401s. Pure.

`jitter` is a random number in [0, 1): clients that were started together should not refresh together.
"""

from __future__ import annotations

from dataclasses import dataclass

# A credential is refreshed ahead in the last tenth of its lifetime, at most five minutes.
_WINDOW_SHARE = 0.1
_MAX_WINDOW = 300.0

_FIRST_DELAY = 1.0
_MAX_BACKOFF = 30.0
_MAX_RATE_LIMIT = 60.0
_RESET_AFTER = 600.0


def refresh_window(lifetime: float, run_seconds: float, jitter: float) -> float:
    """Return how long before its expiry a credential is refreshed, so that no request waits for it.

    Long enough for two runs of the plugin, and at most half of the lifetime.
    """
    wanted = min(lifetime * _WINDOW_SHARE, _MAX_WINDOW) * (1 - 0.2 * jitter)
    return min(max(wanted, 2 * run_seconds), lifetime / 2)


def backoff_delay(failures: int, jitter: float) -> float:
    """Return how long to wait after that many failures in a row."""
    return _add_jitter(min(_FIRST_DELAY * 2.0 ** min(failures - 1, 10), _MAX_BACKOFF), jitter)


def _add_jitter(seconds: float, jitter: float) -> float:
    return seconds * (0.8 + 0.4 * jitter)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Limits how often the 401s of one server run a plugin: the server may reject every credential."""

    next_at: float
    delay: float
    last: float
    """The time of the last 401."""

    def allows(self, now: float) -> bool:
        return now >= self.next_at or self._is_reset(now)

    def after_401(self, now: float) -> RateLimit:
        """Return the limit after a 401 that was returned to the caller."""
        return RateLimit(self.next_at, self.delay, now)

    def after_run(self, now: float, jitter: float) -> RateLimit:
        """Return the limit after a 401 that runs the plugin."""
        delay = _FIRST_DELAY if self._is_reset(now) else min(self.delay * 2, _MAX_RATE_LIMIT)
        return RateLimit(now + _add_jitter(delay, jitter), delay, now)

    def _is_reset(self, now: float) -> bool:
        return now - self.last >= _RESET_AFTER


UNLIMITED = RateLimit(next_at=0.0, delay=0.0, last=float("-inf"))
