"""The install hint is a stranger's text on its way to a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

_SPACES = frozenset("\t\n\v\f\r")


def clean_hint(text: str) -> str:
    """`text` with every character that could steer a terminal written as U+XXXX (X29)."""
    # Each different character is looked at once: the hint may be long.
    unsafe = {
        ord(char): f"U+{ord(char):04X}"
        for char in set(text)
        if char not in _SPACES and unicodedata.category(char)[0] not in "LMNPSZ"
    }
    return text.translate(unsafe) if unsafe else text


class HintLimit:
    """How often the install hint is shown: a program that asks for ever shows it ten times an hour (X28)."""

    def __init__(self, now: Callable[[], float], *, most: int = 10, every: float = 3600.0) -> None:
        self._now = now
        self._most = most
        self._every = every
        self._since: float | None = None
        self._shown = 0

    def allows(self) -> bool:
        """Whether it may be shown once more. Called by one thread at a time."""
        now = self._now()
        if self._since is None or now - self._since >= self._every:
            self._since, self._shown = now, 0
        self._shown += 1
        return self._shown <= self._most
