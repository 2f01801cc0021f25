"""Expiry, 401s, failures and cancellation in any order, compared with a simple model (C5-C15)."""

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

# Takes half a minute on an idle machine.
pytestmark = pytest.mark.timeout(600)

ORIGINS = st.sampled_from(["a", "b"])
SECONDS = st.sampled_from([0.3, 1.0, 1.5, 2.5, 9.0, 40.0, 700.0])
ANSWERS = st.sampled_from([None, 10.0, 60.0, -5.0, "broken"])


class Model:
    """The documented behaviour of RefreshableSource, without jitter and without threads."""

    def __init__(self) -> None:
        self.runs = 0
        self.tokens = 0
        self.token = 0
        self.expires_at = self.expires_monotonic = self.refresh_monotonic = -math.inf
        self.refresh_at = -math.inf
        self.failures = 0
        self.retry_at = -math.inf
        self.limits: dict[str, tuple[float, float, float]] = {}

    def is_valid(self, now: float, date: float) -> bool:
        return bool(self.token) and now <= self.expires_monotonic and date <= self.expires_at

    def run(self, next_: float | str | None, now: float, date: float, *, ahead: bool) -> int | None:
        """Returns the number of the token, or None for a failure."""
        self.runs += 1
        was_valid = self.is_valid(now, date)
        if not isinstance(next_, str):
            self.tokens += 1
        is_expired = isinstance(next_, float) and next_ < 0
        if isinstance(next_, str) or is_expired:
            self.failures += 1
            self.retry_at = now + min(2.0 ** (self.failures - 1), 30.0)
        else:
            self.failures, self.retry_at = 0, -math.inf
        if isinstance(next_, str) or (is_expired and was_valid):
            if ahead:
                wait = max(self.retry_at - now, 0)
                self.refresh_monotonic = min(self.expires_monotonic, now + wait)
                self.refresh_at = min(self.expires_at, date + wait)
            return None if isinstance(next_, str) else self.tokens
        self.token = self.tokens
        if next_ is None:
            self.expires_at = self.expires_monotonic = self.refresh_monotonic = self.refresh_at = math.inf
        else:
            assert isinstance(next_, float)
            window = min(min(next_ * 0.1, 300.0) * 0.9, next_ / 2) if next_ > 0 else 0.0
            self.expires_at, self.expires_monotonic = date + next_, now + next_
            self.refresh_monotonic = self.expires_monotonic - window
            self.refresh_at = self.expires_at - window
        return self.token

    def get(self, next_: float | str | None, now: float, date: float) -> int | None:
        if self.is_valid(now, date):
            token = self.token
            if (now >= self.refresh_monotonic or date >= self.refresh_at) and now >= self.retry_at:
                self.refresh_monotonic, self.refresh_at = self.expires_monotonic, self.expires_at
                self.run(next_, now, date, ahead=True)
            return token
        return None if now < self.retry_at else self.run(next_, now, date, ahead=False)

    def unauthorized(
        self, token: int, origin: str, next_: float | str | None, now: float, date: float
    ) -> int | None:
        if token != self.token or not self.is_valid(now, date):
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
    def the_date_is_set(self, seconds: float) -> None:
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
        expected = self.model.unauthorized(
            token_number(credential), origin, self.plugin.next, self.clock.monotonic(), self.clock.time()
        )
        self.compare(expected, Unauthorized(credential, origin))

    @rule(origin=ORIGINS)
    def a_retried_request_was_accepted(self, origin: str) -> None:
        self.source.reset_rate_limit(origin)
        self.model.limits.pop(origin, None)

    @rule(next_=ANSWERS, backend=st.sampled_from(["asyncio", "trio"]))
    def a_request_that_is_cancelled(self, next_: float | str | None, backend: str) -> None:
        """The run continues, and the next request uses its result."""
        self.plugin.next = next_
        self.model.get(self.plugin.next, self.clock.monotonic(), self.clock.time())
        before = self.plugin.runs
        self.plugin.may_go.clear()
        try:
            anyio.run(self._cancel_aget, backend=backend)
        finally:
            self.plugin.may_go.set()
        assert self.plugin.runs - before <= 1
        self.wait_for_run()

    async def _cancel_aget(self) -> None:
        self.plugin.entered.clear()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._aget_ignoring_errors)
                await anyio.lowlevel.checkpoint()
                if self.source._call is not None:
                    await anyio.to_thread.run_sync(self.plugin.entered.wait)
                scope.cancel()

    async def _aget_ignoring_errors(self) -> None:
        with suppress(errors.KubeAuthError):
            await self.source.aget()

    def compare(self, expected: int | None, unauthorized: Unauthorized | None) -> None:
        try:
            credential = self.source.get(unauthorized)
        except errors.KubeAuthError:
            assert expected is None
        else:
            assert token_number(credential) == expected
            if credential not in self.seen:
                self.seen.append(credential)
        self.wait_for_run()

    def wait_for_run(self) -> None:
        call = self.source._call
        if call is not None:
            call.wait()

    @invariant()
    def runs_and_credential_equal_the_model(self) -> None:
        assert self.plugin.runs == self.model.runs
        assert token_number(self.source.current) == self.model.token
        fresh = self.source.cached_if_fresh(self.clock.monotonic())
        if fresh is not None:
            assert self.model.is_valid(self.clock.monotonic(), self.clock.time())


def token_number(credential: Credential) -> int:
    return int((credential.authorization or "Bearer t0").removeprefix("Bearer t"))


TestSourceMachine = SourceMachine.TestCase
TestSourceMachine.settings = settings(max_examples=200, stateful_step_count=50)
