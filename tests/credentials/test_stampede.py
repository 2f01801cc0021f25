"""One run, whoever asks: a thousand callers in threads and in loops of both kinds (C5, C7, C13)."""

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
# Callers are let go together in `make test`; fifty times over in `make test-load`.
ROUNDS = pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.load)])


@pytest.fixture
def plugin(tmp_path: Path) -> BlockingPlugin:
    return BlockingPlugin(tmp_path)


def fresh_clock(number: int) -> FakeClock:
    # Sources are shared by what they are made of, and by their clock: each round has its own.
    return FakeClock(1_800_000_000.0 + number)


@ROUNDS
def test_the_first_credential_is_one_run_c5(plugin: BlockingPlugin, rounds: int) -> None:
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster("t1"), fresh_clock(number))
            callers.run(when_all_wait=plugin.release)
            assert Counter(callers.outcomes) == {200: CALLERS}
            assert plugin.runs == number + 1


@ROUNDS
def test_a_401_for_all_is_one_run_c13_t88(plugin: BlockingPlugin, rounds: int) -> None:
    with no_residue():
        for number in range(rounds):
            cluster, clock = Cluster("t1"), fresh_clock(number)
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
def test_a_failing_plugin_is_one_run_and_equal_errors_c7(plugin: BlockingPlugin, rounds: int) -> None:
    plugin.set_token(None)
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster(), fresh_clock(number))
            callers.run(when_all_wait=plugin.release)
            assert plugin.runs == number + 1
            failures = [error for error in callers.outcomes if isinstance(error, errors.PluginFailed)]
            assert len(failures) == CALLERS
            assert {(str(error), error.exit_code) for error in failures} == {(str(failures[0]), 7)}
            # Each has its own: one object would collect the tracebacks of a thousand.
            assert len({id(error) for error in failures}) == CALLERS


@ROUNDS
def test_a_failing_renewal_after_a_401_is_one_run_c11_c13(plugin: BlockingPlugin, rounds: int) -> None:
    with no_residue():
        for number in range(rounds):
            cluster, clock = Cluster("t1"), fresh_clock(number)
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
def test_over_on_arrival_is_one_run_and_handed_to_all_who_waited_x45(
    plugin: BlockingPlugin, rounds: int
) -> None:
    plugin.set_token("t1", "2001-01-01T00:00:00Z")
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster("t1"), fresh_clock(number))
            callers.run(when_all_wait=plugin.release)
            assert plugin.runs == number + 1
            late = [outcome for outcome in callers.outcomes if outcome != 200]
            # A thread that was not scheduled in time came after it: it is told why there is none.
            assert len(late) < THREADS
            assert all(isinstance(error, errors.PluginOutputError) for error in late)
            assert len(callers.outcomes) == CALLERS


@ROUNDS
def test_who_is_cancelled_cancels_nobody_else(plugin: BlockingPlugin, rounds: int) -> None:
    with no_residue():
        for number in range(rounds):
            plugin.block()
            callers = ConcurrentCallers(plugin.config(), Cluster("t1"), fresh_clock(number))
            callers.run(when_all_wait=plugin.release, cancelled=100)
            assert Counter(callers.outcomes) == {200: CALLERS - 300, "cancelled": 300}
            assert plugin.runs == number + 1
