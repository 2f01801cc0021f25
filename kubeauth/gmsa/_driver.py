"""How the steps of a decision are taken, once per colour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, cast

from kubeauth.gmsa._steps import Answer, Fetch, Review, Steps, Verdict

T = TypeVar("T")

Lookup: TypeAlias = Callable[[str], Answer]
"""Finds a GMSACredentialSpec by its name."""
Reviewer: TypeAlias = Callable[[Review], Verdict | bool]
"""Says whether somebody may use one."""
AsyncLookup: TypeAlias = Callable[[str], Awaitable[Answer]]
AsyncReviewer: TypeAlias = Callable[[Review], Awaitable[Verdict | bool]]


def settled(steps: Steps[T], lookup: Lookup, review: Reviewer) -> T:
    """What is decided. Whatever the two functions raise is the caller's."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return cast(T, end.value)
        if isinstance(step, Fetch):
            step.answer = lookup(step.name)
        else:
            step.verdict = _verdict(review(step))


async def asettled(steps: Steps[T], lookup: AsyncLookup, review: AsyncReviewer) -> T:
    """As `settled`."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return cast(T, end.value)
        if isinstance(step, Fetch):
            step.answer = await lookup(step.name)
        else:
            step.verdict = _verdict(await review(step))


def _verdict(answer: Verdict | bool) -> Verdict:
    # Nothing but True is a yes: a caller's function may have forgotten to return anything.
    return answer if isinstance(answer, Verdict) else Verdict(answer is True)
