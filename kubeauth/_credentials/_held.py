"""What a source holds, and until when. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from kubeauth._credentials._credential import Credential
from kubeauth._credentials._dates import Dates
from kubeauth._credentials._pace import ahead_window

NOTHING = Credential()


@dataclass(frozen=True, slots=True)
class Held:
    """What the last run gave, and until when: one immutable snapshot, swapped whole (C15)."""

    credential: Credential
    dates: Dates | None
    """Of its certificate."""
    expires: float
    """By the calendar."""
    ends: float
    """By the clock that nobody sets. It is over when either says so."""
    due: float
    """Before this there is nothing to think about; then it is time to renew, or over."""
    due_date: float

    @classmethod
    def since(
        cls,
        now: float,
        date: float,
        credential: Credential,
        dates: Dates | None,
        expires: float | None,
        *,
        seconds: float,
        chance: float,
    ) -> Self:
        """What a run of so many `seconds` gave just now."""
        if expires is None:
            return cls(credential, dates, math.inf, math.inf, math.inf, math.inf)
        lifetime = expires - date
        ends = now + lifetime
        window = ahead_window(lifetime, seconds, chance) if lifetime > 0 else 0.0
        return cls(credential, dates, expires, ends, ends - window, expires - window)

    def is_good(self, now: float, date: float) -> bool:
        # At the very moment it is still good (X43).
        return now <= self.ends and date <= self.expires

    def came_again(self, credential: Credential, expires: float | None, *, since: float) -> bool:
        """Whether a run gave what is held, which was good when the run began.

        Some plugins keep a token, and give it until its last moment: it may end on the way.
        """
        # With another end it is not what is held: one that is over with each run would be asked for ever.
        return expires == self.expires and since <= self.expires and credential == self.credential


NOTHING_HELD = Held(NOTHING, None, -math.inf, -math.inf, -math.inf, -math.inf)
