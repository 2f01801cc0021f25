"""Which contexts a pattern means."""

from __future__ import annotations

import string
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import fleet
from kubeauth.errors import ConfigError, KubeConfigError
from kubeauth.fleet._choice import chosen
from tests.fleet.fleets import Fleet
from tests.support.cases import each_case

NAMES = ("prod-eu-1", "prod-us-1", "test-eu-1", "Prod-old", "arn:aws:eks:eu-1:1:cluster/a[b]")
names = st.lists(st.text(string.ascii_lowercase[:3] + "-[]*", min_size=1, max_size=5), unique=True)


@each_case(
    ("patterns", "found"),
    [
        (["*"], NAMES),
        (["prod-*"], NAMES[:2]),
        (["*-eu-?"], ("prod-eu-1", "test-eu-1")),
        (["test-*", "prod-us-1", "prod-*"], NAMES[:3]),
        (["[pP]rod*"], ("prod-eu-1", "prod-us-1", "Prod-old")),
        ([NAMES[-1]], NAMES[-1:]),
    ],
)
def test_patterns_are_a_shells_and_the_order_is_the_files(
    patterns: list[str], found: tuple[str, ...]
) -> None:
    assert chosen(NAMES, patterns) == found


@given(names, st.lists(st.text("abc-*?[]!", min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_name_is_chosen_if_it_fits_any_pattern(known: list[str], patterns: list[str]) -> None:
    fits = {pattern: [n for n in known if n == pattern or fnmatchcase(n, pattern)] for pattern in patterns}
    if all(fits.values()):
        assert chosen(known, patterns) == tuple(n for n in known if any(n in each for each in fits.values()))
    else:
        with pytest.raises(KubeConfigError):
            chosen(known, patterns)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("prdo-eu-*", "Did you mean prod-eu-1"),
        ("zzz", "There are: prod-eu-1, prod-us-1, test-eu-1, Prod-old, arn:aws:eks:eu-1:1:cluster/a[b]."),
    ],
)
def test_a_pattern_that_fits_none_is_an_error_that_names_what_is_near(pattern: str, said: str) -> None:
    with pytest.raises(KubeConfigError) as raised:
        chosen(NAMES, ["prod-*", pattern], "/the/file")
    assert f'no context fits "{pattern}"' in str(raised.value)
    assert said in str(raised.value)
    assert raised.value.path == "/the/file"


def test_of_many_names_a_few_are_told() -> None:
    with pytest.raises(KubeConfigError, match="There are: 0, 1, 2, 3, 4 and 95 more"):
        chosen([str(number) for number in range(100)], ["?x?"])


def test_a_kubeconfig_without_contexts_fits_nothing() -> None:
    with pytest.raises(KubeConfigError, match="There are none"):
        fleet.contexts(kubeconfig={})


def test_no_pattern_at_all_is_no_choice() -> None:
    with pytest.raises(ConfigError, match="no contexts are named"):
        chosen(NAMES, [])


def test_contexts_are_those_of_the_kubeconfig() -> None:
    fleet_of = Fleet()
    for name in ("b", "a", "c"):
        fleet_of.add(name, "https://127.0.0.1:1")
    fleet_of.contexts[""] = {"cluster": "a-cluster"}  # which nobody can choose
    assert fleet.contexts(kubeconfig=fleet_of.document) == ("b", "a", "c")
    assert fleet.contexts("a", "b", kubeconfig=fleet_of.document) == ("b", "a")
