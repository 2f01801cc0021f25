"""A thousand concurrent callers in threads, asyncio and trio share one plugin run (C5, C7, C13)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kubeauth import errors
from kubeauth.testing import FakeClock
from tests.support.callers import LOOPS, THREADS, BlockingPlugin, Cluster, ConcurrentCallers
from tests.support.residue import no_residue

CALLERS = THREADS + sum(tasks for _, tasks in LOOPS)
assert CALLERS == 1000
# Once in `make test`, fifty times in `make test-load`.
ROUNDS = pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.load)])


@pytest.fixture
def plugin(tmp_path: Path) -> BlockingPlugin:
    return BlockingPlugin(tmp_path)


def new_clock(number: int) -> FakeClock:
    # The clock is part of the key of the source cache: each round has its own source.
    return FakeClock(1_800_000_000.0 + number)


@ROUNDS
def test_concurrent_first_requests_are_one_run_c5(plugin: BlockingPlugin, rounds: int) -> None:
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster("t1"), new_clock(number))

            callers.run(when_all_wait=plugin.release)

            assert Counter(callers.outcomes) == {200: CALLERS}
            assert plugin.runs == number + 1


@ROUNDS
def test_concurrent_401s_are_one_run_c13_t88(plugin: BlockingPlugin, rounds: int) -> None:
    with no_residue():
        for number in range(rounds):
            cluster, clock = Cluster("t1"), new_clock(number)
            plugin.release()
            plugin.set_token("t1")
            ConcurrentCallers(plugin.config(), cluster, clock).run(when_all_wait=lambda: None)
            assert plugin.runs == 2 * number + 1

            cluster.tokens = {"t2"}
            plugin.set_token("t2")
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), cluster, clock)
            callers.run(when_all_wait=plugin.release)
            assert Counter(callers.outcomes) == {200: CALLERS}
            assert plugin.runs == 2 * number + 2


@ROUNDS
def test_a_failed_run_is_an_equal_error_for_each_caller_c7(plugin: BlockingPlugin, rounds: int) -> None:
    plugin.set_token(None)
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster(), new_clock(number))

            callers.run(when_all_wait=plugin.release)

            assert plugin.runs == number + 1
            failures = [error for error in callers.outcomes if isinstance(error, errors.PluginFailed)]
            assert len(failures) == CALLERS
            assert {(str(error), error.exit_code) for error in failures} == {(str(failures[0]), 7)}
            # Separate objects: a shared one would accumulate the tracebacks of all callers.
            assert len({id(error) for error in failures}) == CALLERS


@ROUNDS
def test_concurrent_401s_are_one_run_if_the_refresh_fails_c11_c13(
    plugin: BlockingPlugin, rounds: int
) -> None:
    with no_residue():
        for number in range(rounds):
            cluster, clock = Cluster("t1"), new_clock(number)
            plugin.release()
            plugin.set_token("t1")
            ConcurrentCallers(plugin.config(), cluster, clock).run(when_all_wait=lambda: None)
            cluster.tokens = set()
            plugin.set_token(None)
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), cluster, clock)

            callers.run(when_all_wait=plugin.release)

            assert Counter(callers.outcomes) == {401: CALLERS}
            assert plugin.runs == 2 * number + 2


@ROUNDS
def test_an_expired_credential_is_one_run_and_returned_to_all_waiters_x45(
    plugin: BlockingPlugin, rounds: int
) -> None:
    plugin.set_token("t1", "2001-01-01T00:00:00Z")
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster("t1"), new_clock(number))

            callers.run(when_all_wait=plugin.release)

            assert plugin.runs == number + 1
            late = [outcome for outcome in callers.outcomes if outcome != 200]
            # Threads that were scheduled after the run completed get the error instead.
            assert len(late) < THREADS
            assert all(isinstance(error, errors.PluginOutputError) for error in late)
            assert len(callers.outcomes) == CALLERS


@ROUNDS
def test_cancelled_callers_do_not_cancel_the_others(plugin: BlockingPlugin, rounds: int) -> None:
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster("t1"), new_clock(number))

            callers.run(when_all_wait=plugin.release, cancelled=100)

            assert Counter(callers.outcomes) == {200: CALLERS - 300, "cancelled": 300}
            assert plugin.runs == number + 1
