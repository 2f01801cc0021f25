"""When a plugin is run again, and when it is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubeauth._credentials.backoff import UNLIMITED, backoff_delay, refresh_window
from tests.support.cases import each_case

# Chance is in [0, 1); in the middle nothing is jittered.
MIDDLE = 0.5
CHANCES = st.floats(0, 1, exclude_max=True)


class TestRefreshAhead:
    @each_case(
        ("lifetime", "run_seconds", "window"),
        [
            (900, 0.5, 90),  # a tenth of fifteen minutes
            (3600, 0.5, 300),  # of an hour, five minutes are enough
            (86400, 1, 300),
            (10, 2, 4),  # two runs must fit into it
            (10, 60, 5),  # and half of its life must be left
            (900, 200, 400),
        ],
    )
    def test_the_window(self, lifetime: float, run_seconds: float, window: float) -> None:
        assert refresh_window(lifetime, run_seconds, 0.0) == window

    @given(st.floats(0.001, 1e7), st.floats(0, 1e5), CHANCES)
    def test_its_bounds(self, lifetime: float, run_seconds: float, chance: float) -> None:
        window = refresh_window(lifetime, run_seconds, chance)
        assert min(2 * run_seconds, lifetime / 2) <= window <= lifetime / 2

    def test_a_fleet_does_not_renew_at_one_moment(self) -> None:
        windows = [refresh_window(3600, 1, chance / 10) for chance in range(10)]
        assert len(set(windows)) == 10
        assert min(windows) >= 240


class TestBackOff:
    def test_one_second_doubling_to_thirty(self) -> None:
        assert [backoff_delay(failures, MIDDLE) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
        assert backoff_delay(10_000, MIDDLE) == 30

    @given(st.integers(1, 10_000), CHANCES)
    def test_jittered_by_a_fifth(self, failures: int, chance: float) -> None:
        middle = backoff_delay(failures, MIDDLE)
        assert 0.8 * middle <= backoff_delay(failures, chance) <= 1.2 * middle


class TestLimit:
    def test_the_first_is_free_and_the_next_waits_longer_each_time(self) -> None:
        now, limit, waits = 1000.0, UNLIMITED, []
        for _ in range(8):
            assert limit.allows(now)
            limit = limit.after_run(now, MIDDLE)
            waits.append(limit.next_at - now)
            assert not limit.allows(limit.next_at - 0.001)
            now = limit.next_at
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]

    def test_what_was_handed_back_makes_nobody_wait_longer(self) -> None:
        limit = UNLIMITED.after_run(1000.0, MIDDLE)
        for _ in range(10):
            limit = limit.after_401(1000.5)
        assert limit.allows(1001.0)

    def test_ten_quiet_minutes_and_it_is_forgotten(self) -> None:
        limit = UNLIMITED
        for _ in range(8):
            limit = limit.after_run(1000.0, MIDDLE)
        assert limit.after_run(1599.0, MIDDLE).delay == 60
        assert limit.after_run(1600.0, MIDDLE).delay == 1
        # Quiet means that there was no 401, not that there was no run.
        assert limit.after_401(1500.0).after_run(1700.0, MIDDLE).delay == 60

    @given(CHANCES)
    def test_jittered(self, chance: float) -> None:
        assert 0.8 <= UNLIMITED.after_run(0.0, chance).next_at <= 1.2
