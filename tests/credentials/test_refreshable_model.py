"""Expiry, 401, failure and cancelling in any order, beside a model that says what should happen (C5-C15)."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kubeauth import errors
from kubeauth._credentials.credential import Credential, Unauthorized
from kubeauth._credentials.refreshable import RefreshableSource
from kubeauth.testing import FakeClock
from tests.support.observers import NullObserver
from tests.support.scripted import ScriptedPlugin

# Half a minute of work where there is nothing else to do.
pytestmark = pytest.mark.timeout(600)

ORIGINS = st.sampled_from(["a", "b"])
SECONDS = st.sampled_from([0.3, 1.0, 1.5, 2.5, 9.0, 40.0, 700.0])
ANSWERS = st.sampled_from([None, 10.0, 60.0, -5.0, "broken"])


class Model:
    """What is said about it in words, as plainly as can be. Chance is 0.5: nothing is jittered."""

    def __init__(self) -> None:
        self.runs = 0
        self.tokens = 0
        self.token = 0
        self.expires = self.ends = self.due = -math.inf
        self.due_date = -math.inf
        self.failures = 0
        self.retry_at = -math.inf
        self.limits: dict[str, tuple[float, float, float]] = {}

    def is_good(self, now: float, date: float) -> bool:
        return bool(self.token) and now <= self.ends and date <= self.expires

    def run(self, next_: float | str | None, now: float, date: float, *, ahead: bool) -> int | None:
        """Returns the token, or None for a failure."""
        self.runs += 1
        good = self.is_good(now, date)
        if not isinstance(next_, str):
            self.tokens += 1
        over = isinstance(next_, float) and next_ < 0
        if isinstance(next_, str) or over:
            self.failures += 1
            self.retry_at = now + min(2.0 ** (self.failures - 1), 30.0)
        else:
            self.failures, self.retry_at = 0, -math.inf
        if isinstance(next_, str) or (over and good):
            if ahead:
                wait = max(self.retry_at - now, 0)
                self.due, self.due_date = min(self.ends, now + wait), min(self.expires, date + wait)
            return None if isinstance(next_, str) else self.tokens
        self.token = self.tokens
        if next_ is None:
            self.expires = self.ends = self.due = self.due_date = math.inf
        else:
            assert isinstance(next_, float)
            window = min(min(next_ * 0.1, 300.0) * 0.9, next_ / 2) if next_ > 0 else 0.0
            self.expires, self.ends = date + next_, now + next_
            self.due, self.due_date = self.ends - window, self.expires - window
        return self.token

    def get(self, next_: float | str | None, now: float, date: float) -> int | None:
        if self.is_good(now, date):
            token = self.token
            if (now >= self.due or date >= self.due_date) and now >= self.retry_at:
                self.due, self.due_date = self.ends, self.expires
                self.run(next_, now, date, ahead=True)
            return token
        return None if now < self.retry_at else self.run(next_, now, date, ahead=False)

    def refused(
        self, token: int, origin: str, next_: float | str | None, now: float, date: float
    ) -> int | None:
        if token != self.token or not self.is_good(now, date):
            return self.get(next_, now, date)
        if now < self.retry_at:
            return None
        at, delay, last = self.limits.get(origin, (0.0, 0.0, -math.inf))
        if now < at and now - last < 600:
            self.limits[origin] = at, delay, now
            return self.token
        delay = 1.0 if now - last >= 600 else min(delay * 2, 60.0)
        self.limits[origin] = now + delay, delay, now
        return self.run(next_, now, date, ahead=False)


class SourceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.plugin = ScriptedPlugin(self.clock)
        plugin: Any = self.plugin
        self.source = RefreshableSource(plugin, self.clock, NullObserver(), jitter=lambda: 0.5)
        self.model = Model()
        self.seen: list[Credential] = []

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-4000.0, -20.0, 20.0, 4000.0]))
    def somebody_sets_the_date(self, seconds: float) -> None:
        self.clock.set_date(self.clock.time() + seconds)

    @rule(next_=ANSWERS)
    def a_request(self, next_: float | str | None) -> None:
        self.plugin.next = next_
        expected = self.model.get(self.plugin.next, self.clock.monotonic(), self.clock.time())
        self.compare(expected, None)

    @rule(next_=ANSWERS, origin=ORIGINS, age=st.integers(1, 2))
    def a_401(self, next_: float | str | None, origin: str, age: int) -> None:
        self.plugin.next = next_
        if len(self.seen) < age:
            return
        credential = self.seen[-age]
        expected = self.model.refused(
            number_of(credential), origin, self.plugin.next, self.clock.monotonic(), self.clock.time()
        )
        self.compare(expected, Unauthorized(credential, origin))

    @rule(origin=ORIGINS)
    def a_repeated_request_was_welcome(self, origin: str) -> None:
        self.source.reset_rate_limit(origin)
        self.model.limits.pop(origin, None)

    @rule(next_=ANSWERS, backend=st.sampled_from(["asyncio", "trio"]))
    def a_request_that_is_cancelled(self, next_: float | str | None, backend: str) -> None:
        """What it started goes on, and the next finds its result."""
        self.plugin.next = next_
        self.model.get(self.plugin.next, self.clock.monotonic(), self.clock.time())
        before = self.plugin.runs
        self.plugin.may_go.clear()
        try:
            anyio.run(self._cancelled, backend=backend)
        finally:
            self.plugin.may_go.set()
        assert self.plugin.runs - before <= 1
        self.wait_for_landing()

    async def _cancelled(self) -> None:
        self.plugin.entered.clear()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._swallow)
                await anyio.lowlevel.checkpoint()
                if self.source._call is not None:
                    await anyio.to_thread.run_sync(self.plugin.entered.wait)
                scope.cancel()

    async def _swallow(self) -> None:
        with suppress(errors.KubeAuthError):
            await self.source.aget()

    def compare(self, expected: int | None, refused: Unauthorized | None) -> None:
        try:
            credential = self.source.get(refused)
        except errors.KubeAuthError:
            assert expected is None
        else:
            assert number_of(credential) == expected
            if credential not in self.seen:
                self.seen.append(credential)
        self.wait_for_landing()

    def wait_for_landing(self) -> None:
        flight = self.source._call
        if flight is not None:
            flight.wait()

    @invariant()
    def runs_and_credential_are_as_the_model_has_them(self) -> None:
        assert self.plugin.runs == self.model.runs
        assert number_of(self.source.current) == self.model.token
        fresh = self.source.cached_if_fresh(self.clock.monotonic())
        # What is handed out without a thought is good.
        if fresh is not None:
            assert self.model.is_good(self.clock.monotonic(), self.clock.time())


def number_of(credential: Credential) -> int:
    return int((credential.authorization or "Bearer t0").removeprefix("Bearer t"))


TestSourceMachine = SourceMachine.TestCase
TestSourceMachine.settings = settings(max_examples=200, stateful_step_count=50)
