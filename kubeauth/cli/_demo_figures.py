"""What the demo counts of its requests: how many, how many failed and why, and how long they took. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from typing import NamedTuple

# Requests that were under way so shortly before or after a rotation are around it.
NEAR = 0.25
# Rotations are noticed this much later at most.
LATE = 0.1
# All connections are made in the first moments: what that takes is no steady state.
WARM_UP = 0.5

_STEP: float = 1.02


class Latencies:
    """How long requests took, to 2 %, in as little memory for a million as for a thousand."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        self.count += 1
        self.longest = max(self.longest, seconds)
        self._buckets[math.floor(math.log(max(seconds, 1e-6), _STEP))] += 1

    def percentile(self, share: float) -> float | None:
        """What `share` of them took at most, in seconds; None if there are none."""
        left = share * self.count
        for bucket, count in sorted(self._buckets.items()):
            left -= count
            if left <= 0:
                return min(math.pow(_STEP, bucket + 0.5), self.longest)
        return None


class Finished(NamedTuple):
    """A request that is over."""

    begun: float
    ended: float
    failure: str | None = None
    waited: bool = False
    """There was no credential when it began: a plugin had to be waited for."""


class Figures:
    """The numbers of one run. `finished` is for callers in any thread, the rest for the one that watches."""

    def __init__(self, began: float, *, cell: float) -> None:
        """`cell` is how many seconds one character of a drawing stands for."""
        self.finished: deque[Finished] = deque()
        self.requests = 0
        self.waited = 0
        self.reasons: Counter[str] = Counter()
        self.rotations: list[float] = []
        """When."""
        self.steady = Latencies()
        self.around = Latencies()
        self.began = began
        self._cell = cell
        self._slowest: dict[int, float] = {}
        self._undecided: deque[Finished] = deque()

    @property
    def failures(self) -> int:
        return self.reasons.total()

    def failed(self, reason: str) -> None:
        """Something else than a request with an answer: a stream that ended."""
        self.reasons[reason] += 1

    def take_in(self, now: float) -> None:
        """Counts what has finished since. Whether it was near a rotation is known a little later."""
        while self.finished:
            request = self.finished.popleft()
            self.requests += 1
            self.waited += request.waited
            if request.failure is not None:
                self.reasons[request.failure] += 1
            elif request.begun >= self.began + WARM_UP:
                self._undecided.append(request)
                cell = self._cell_of(request.ended)
                self._slowest[cell] = max(self._slowest.get(cell, 0.0), request.ended - request.begun)
        while self._undecided and self._undecided[0].ended + NEAR + LATE <= now:
            request = self._undecided.popleft()
            kind = self.around if self._is_near_a_rotation(request) else self.steady
            kind.add(request.ended - request.begun)

    def trace(self, cells: int) -> tuple[list[float], set[int]]:
        """The slowest request of each of the last cells, 0 for none; and in which of them were rotations."""
        last = max(max(self._slowest, default=0), cells - 1)
        first = last - cells + 1
        slowest = [self._slowest.get(cell, 0.0) for cell in range(first, last + 1)]
        return slowest, {self._cell_of(moment) - first for moment in self.rotations}

    def _cell_of(self, moment: float) -> int:
        return int((moment - self.began) / self._cell)

    def _is_near_a_rotation(self, request: Finished) -> bool:
        after = bisect_left(self.rotations, request.begun - NEAR)
        return after < len(self.rotations) and self.rotations[after] <= request.ended + NEAR
