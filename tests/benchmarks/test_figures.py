"""What becomes of rounds: middles, spreads, ratios, and how they are written."""

from __future__ import annotations

import pytest

from benchmarks import figures, markdown, telling
from benchmarks.figures import Spread
from benchmarks.stage import Rounds, Sizes
from tests.support.cases import each_case


def test_the_spread_is_the_middle_half() -> None:
    assert figures.spread([5, 1, 3, 2, 4]) == Spread(3, 2, 4)
    assert figures.spread([1, 2, 3, 100]) == Spread(2.5, 1.75, 27.25)


def test_the_spread_of_a_few_is_all_of_them() -> None:
    assert figures.spread([7.0]) == Spread(7, 7, 7)
    assert figures.spread([9, 1, 2]) == Spread(2, 1, 9)


def test_ratios_are_made_within_a_round_and_only_where_both_have_a_figure() -> None:
    assert figures.ratios([2.0, None, 6.0, 1.0], [1.0, 1.0, 3.0, None]) == [2.0, 2.0]
    assert figures.ratios([1.0], [0.0]) == []


@each_case(("share", "expected"), [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100), (0.001, 1), (0.501, 51)])
def test_percentiles_are_figures_that_were_measured(share: float, expected: int) -> None:
    assert figures.percentile(range(100, 0, -1), share) == expected


def test_a_percentile_of_one_is_that_one() -> None:
    assert figures.percentile([3.0], 0.5) == figures.percentile([3.0], 0.999) == 3.0


@each_case(
    ("value", "expected"),
    [
        (1234.5, "1,234"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.1234, "0.12"),
        (0, "0"),
        (-5.55, "-5.55"),
    ],
)
def test_numbers_have_the_digits_that_matter(value: float, expected: str) -> None:
    assert figures.number(value) == expected


@each_case(
    ("seconds", "expected"), [(1.0149, "1.01 s"), (0.0123, "12.3 ms"), (0.000326, "326 us"), (61.2, "61.2 s")]
)
def test_durations_have_a_unit_that_suits_them(seconds: float, expected: str) -> None:
    assert figures.duration(seconds) == expected


def test_a_spread_is_told_with_its_brackets() -> None:
    assert figures.told(Spread(1.234, 1.1, 12.5)) == "1.23 (1.10 - 12.5)"
    assert figures.told(Spread(2, 2, 2)) == "2.00"


ROUNDS: Rounds = {
    "kubeauth": [{"us": 10.0}, {"us": 20.0}, {"us": 30.0}],
    "fast": [{"us": 5.0}, {"failed": "KeyError"}, {"us": 15.0}],
    "dead": [{"failed": "crashed, SIGSEGV"}] * 3,
}


def test_who_failed_in_a_round_is_compared_in_the_others() -> None:
    assert telling.ratio(ROUNDS, "fast", "kubeauth", "us") == Spread(0.5, 0.5, 0.5)
    assert telling.middle(ROUNDS["fast"], "us") == 10.0


def test_nobody_is_compared_with_themselves_nor_with_who_is_not_there() -> None:
    assert telling.ratio(ROUNDS, "kubeauth", "kubeauth", "us") is None
    assert telling.ratio(ROUNDS, "fast", "nobody", "us") is None


def test_who_has_no_figure_has_a_reason() -> None:
    assert telling.ratio(ROUNDS, "dead", "kubeauth", "us") is None
    assert telling.middle(ROUNDS["dead"], "us") is None
    assert telling.reason(ROUNDS["dead"]) == "crashed, SIGSEGV"
    assert telling.reason(ROUNDS["kubeauth"]) == ""


@each_case(
    ("spread", "more_is_better", "expected"),
    [
        (Spread(2, 1.5, 3), True, True),
        (Spread(2, 0.9, 3), True, False),  # one of the rounds says otherwise
        (Spread(1.03, 1.02, 1.04), True, False),  # too little to be told from noise
        (Spread(0.5, 0.4, 0.6), True, False),
        (Spread(0.5, 0.4, 0.6), False, True),
        (Spread(0.5, 0.4, 1.2), False, False),
    ],
)
def test_who_is_ahead_is_so_in_the_whole_of_the_spread(
    spread: Spread, more_is_better: bool, expected: bool
) -> None:
    assert telling.is_ahead(spread, more_is_better=more_is_better) is expected


def test_counts_are_told_from_the_least_to_the_most() -> None:
    assert telling.told_range([1.0, 1.0]) == "1"
    assert telling.told_range([56.0, 1000.0, 99.0]) == "56 - 1,000"
    assert telling.told_range([]) == ""


def test_failures_are_counted_in_all_rounds_and_the_commonest_is_named() -> None:
    rounds = [
        {"failures": {"ApiException 401": 7}},
        {"failures": {"ReadError": 1, "ApiException 401": 2}},
        {},
    ]
    assert telling.failures(rounds) == "10 (ApiException 401)"
    assert telling.failures([{}]) == "0"


def test_tables_line_up_and_show_what_is_missing() -> None:
    assert markdown.table(["", "us"], [["kubeauth", "1.5"], ["x", ""]]) == (
        "|          |  us |\n|----------|----:|\n| kubeauth | 1.5 |\n| x        |   - |\n"
    )


def test_prose_is_broken_anew_and_lists_stay_lists() -> None:
    text = """
        One
        two.

        - first
        of all
        - second
        """
    assert markdown.prose(text) == "One two.\n\n- first of all\n- second\n"
    long = markdown.prose("- " + "word " * 40)
    assert all(len(line) <= markdown.WIDTH for line in long.splitlines())
    assert [line[:2] for line in long.splitlines()] == ["- ", "  "]


def test_what_stands_between_markers_is_replaced_and_nothing_else() -> None:
    text = "before\n<!-- x -->\nold\n<!-- /x -->\nafter\n"
    assert markdown.between(text, "x", "new\n") == "before\n<!-- x -->\nnew\n<!-- /x -->\nafter\n"
    with pytest.raises(ValueError, match="there is no <!-- y -->"):
        markdown.between(text, "y", "new\n")


def test_rounds_can_be_set_for_everything_at_once() -> None:
    sizes = Sizes().with_rounds(2)
    assert (sizes.warm_rounds, sizes.cold_rounds, sizes.fleet_rounds) == (2, 2, 2)
    assert sizes.callers == Sizes().callers
