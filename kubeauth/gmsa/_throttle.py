"""So many questions a second, and no more."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from anyio import Lock, sleep

from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.errors import ConfigError


class Throttle:
    """At most `qps` a second, and `burst` at once, as client-go has it. Who comes too soon waits."""

    def __init__(
        self,
        qps: float,
        burst: int,
        *,
        clock: Clock = SYSTEM_CLOCK,
        sleep: Callable[[float], Awaitable[None]] = sleep,
    ) -> None:
        if not (math.isfinite(qps) and qps > 0 and burst >= 1):
            raise ConfigError(f"qps must be more than 0, and burst 1 or more, not {qps} and {burst}.")
        self._each = 1 / qps
        self._burst = burst / qps
        self._clock = clock
        self._sleep = sleep
        self._last = -math.inf  # when the last one had its turn
        self._queue = Lock()  # guards _last: one waits for the next turn, and behind it the others, in order

    async def turn(self) -> None:
        async with self._queue:
            now = self._clock.monotonic()
            turn = max(self._last, now - self._burst) + self._each
            if turn > now:
                await self._sleep(turn - now)
            # Not before: who gives up waiting has had no turn. Were turns given out ahead, whoever comes
            # after too many others would wait for turns that nobody takes.
            self._last = turn
