"""The refresh-ahead window, the backoff after failures, and the rate limit of refreshes after a 401."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubeauth._credentials.backoff import UNLIMITED, backoff_delay, refresh_window
from tests.support.cases import each_case

# A random value in [0, 1); 0.5 means no jitter.
NO_JITTER = 0.5
RANDOM_VALUES = st.floats(0, 1, exclude_max=True)


class TestRefreshWindow:
    @each_case(
        ("lifetime", "run_seconds", "window"),
        [
            (900, 0.5, 90),  # a tenth of the lifetime
            (3600, 0.5, 300),  # at most five minutes
            (86400, 1, 300),
            (10, 2, 4),  # at least twice the duration of a run
            (10, 60, 5),  # at most half of the lifetime
            (900, 200, 400),
        ],
    )
    def test_refresh_window(self, lifetime: float, run_seconds: float, window: float) -> None:
        assert refresh_window(lifetime, run_seconds, 0.0) == window

    @given(st.floats(0.001, 1e7), st.floats(0, 1e5), RANDOM_VALUES)
    def test_refresh_window_is_between_two_runs_and_half_of_the_lifetime(
        self, lifetime: float, run_seconds: float, random: float
    ) -> None:
        window = refresh_window(lifetime, run_seconds, random)
        assert min(2 * run_seconds, lifetime / 2) <= window <= lifetime / 2

    def test_jitter_spreads_the_refreshes_of_a_fleet(self) -> None:
        windows = [refresh_window(3600, 1, random / 10) for random in range(10)]
        assert len(set(windows)) == 10
        assert min(windows) >= 240


class TestBackoffDelay:
    def test_delay_doubles_from_one_second_to_thirty(self) -> None:
        assert [backoff_delay(failures, NO_JITTER) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
        assert backoff_delay(10_000, NO_JITTER) == 30

    @given(st.integers(1, 10_000), RANDOM_VALUES)
    def test_jitter_is_at_most_twenty_percent(self, failures: int, random: float) -> None:
        without_jitter = backoff_delay(failures, NO_JITTER)
        assert 0.8 * without_jitter <= backoff_delay(failures, random) <= 1.2 * without_jitter


class TestRateLimit:
    def test_first_run_is_allowed_and_the_delay_doubles_to_a_minute(self) -> None:
        now, limit, delays = 1000.0, UNLIMITED, []
        for _ in range(8):
            assert limit.allows(now)

            limit = limit.after_run(now, NO_JITTER)
            delays.append(limit.next_at - now)
            assert not limit.allows(limit.next_at - 0.001)

            now = limit.next_at
        assert delays == [1, 2, 4, 8, 16, 32, 60, 60]

    def test_a_401_without_a_run_does_not_extend_the_delay(self) -> None:
        limit = UNLIMITED.after_run(1000.0, NO_JITTER)
        for _ in range(10):
            limit = limit.after_401(1000.5)
        assert limit.allows(1001.0)

    def test_delay_is_reset_after_ten_minutes_without_a_401(self) -> None:
        limit = UNLIMITED
        for _ in range(8):
            limit = limit.after_run(1000.0, NO_JITTER)

        assert limit.after_run(1599.0, NO_JITTER).delay == 60
        assert limit.after_run(1600.0, NO_JITTER).delay == 1
        assert limit.after_401(1500.0).after_run(1700.0, NO_JITTER).delay == 60

    @given(RANDOM_VALUES)
    def test_first_delay_is_jittered(self, random: float) -> None:
        assert 0.8 <= UNLIMITED.after_run(0.0, random).next_at <= 1.2
