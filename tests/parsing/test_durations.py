from __future__ import annotations

import pytest

from kubeauth._parsing.go import parse_duration, parse_timeout
from kubeauth.errors import ConfigError
from tests.support.cases import each_case


@each_case(
    ("text", "seconds"),
    [("0", None), ("5", 5.0), ("1s", 1.0), ("2m", 120.0), ("3h", 10800.0), ("1m30s", 90.0), ("1.5s", 1.5),
     (".5s", 0.5), ("100ms", 0.1), ("1us", 1e-6), ("1µs", 1e-6), ("2ns", 2e-9), ("0s", None), ("+3s", 3.0), ("-2s", -2.0)],
)  # fmt: skip
def test_request_timeouts_are_seconds_or_go_durations_k56(text: str, seconds: float | None) -> None:
    assert parse_timeout(text) == (seconds if seconds is None else pytest.approx(seconds))


@each_case("text", ["", "s", "1 s", "1x", "-5", "1s2", "9999999999h", "99999999999999", "one"])
def test_an_invalid_timeout_is_rejected_k56(text: str) -> None:
    with pytest.raises(ConfigError, match="Invalid timeout value"):
        parse_timeout(text)


@pytest.mark.parametrize("text", ["1", "1.", "0", ".", "1m1", "1m.", "1.5"])
def test_a_long_invalid_duration_is_rejected_quickly(text: str) -> None:
    assert parse_duration(text * (2**20 // len(text))) is None


def test_a_duration_is_the_sum_of_its_parts() -> None:
    assert parse_duration("1ms" * 100_000) == pytest.approx(100.0)
