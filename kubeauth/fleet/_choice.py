"""Which contexts are meant by patterns as a shell has them: `prod-*`, `*-eu-?`, `[ab]-1`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import translate

from kubeauth.errors import ConfigError, KubeConfigError, Problem

# So many names are told, where a pattern fits none.
_TOLD = 5
_MAGIC = re.compile(r"[*?\[\]]+")


def given(patterns: str | Iterable[str]) -> tuple[str, ...]:
    """One, or several."""
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def chosen(names: Sequence[str], patterns: Sequence[str], place: str | None = None) -> tuple[str, ...]:
    """Each of `names` that fits any of `patterns`, once, in the order of `names`. Upper case counts.

    Raises KubeConfigError for a pattern that fits none: it is a mistake more often than not, and whoever
    asks for `prdo-*` beside `test-*` should not take the answer for the whole.
    """
    if not patterns:
        raise ConfigError('no contexts are named: give a pattern, or "*" for all')
    found: set[str] = set()
    for pattern in patterns:
        fits = re.compile(translate(pattern)).match
        # A name fits itself, whatever is in it.
        fitting = [name for name in names if name == pattern or fits(name)]
        if not fitting:
            raise KubeConfigError.from_problems([_fits_none(pattern, names, place)])
        found.update(fitting)
    return tuple(name for name in names if name in found)


def _fits_none(pattern: str, names: Sequence[str], place: str | None) -> Problem:
    message = f'no context fits "{pattern}"'
    if not names:
        return Problem(message, place, "contexts", "There are none in the kubeconfig.")
    near = get_close_matches(_MAGIC.sub("", pattern), names, n=_TOLD, cutoff=0.4)
    told = f"Did you mean {', '.join(near)}?" if near else f"There are: {', '.join(names[:_TOLD])}"
    if not near:
        told += f" and {len(names) - _TOLD:,} more." if len(names) > _TOLD else "."
    return Problem(message, place, "contexts", told)
