"""How the doctor says spans, dates and lists; and errors in two halves. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kubeauth._exec.config import ERROR_PREFIX
from kubeauth._parsing.go import to_datetime
from kubeauth.errors import Problem

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def parted(message: str) -> tuple[str, str]:
    """What happened, and what to do: errors of kubeauth say the one in their first sentence."""
    what, _, advice = message.removeprefix(ERROR_PREFIX).replace("\n", " ").partition(". ")
    return what.rstrip("."), advice.strip() or "Mend that, and look again."


def of_problem(problem: Problem) -> tuple[str, str]:
    """The same of a problem, with where it is."""
    place = f" ({problem.place})" if problem.place else ""
    return f"{problem.message}{place}", problem.hint


def took(seconds: float) -> str:
    """How long something took."""
    if seconds < 0.01:
        return f"{1000 * seconds:.1f} ms"
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def span(seconds: float) -> str:
    """A length of time, to the unit that matters."""
    seconds = abs(seconds)
    for unit, name in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def ends(moment: float, now: float) -> str:
    """When something ends, seen from now."""
    return f"{span(moment - now)} left" if moment > now else f"ended {span(now - moment)} ago"


def day(moment: float | None) -> str | None:
    """A moment as JSON has it."""
    found = to_datetime(moment)
    return None if found is None else found.strftime("%Y-%m-%dT%H:%M:%SZ")


def listed(names: Sequence[str], most: int = 6) -> str:
    """Some of them, and how many more."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def cut(text: str, most: int) -> str:
    """Not pages of it."""
    return text if len(text) <= most else f"{text[:most]}..."
