"""What can be counted about plugins and what they give. Whoever counts implements this; see `metrics`."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Told of everything that happens to plugins and their credentials. Must be quick, and raise nothing."""

    def policy_checked(self, *, allowed: bool) -> None:
        """The plugin policy was asked, once for each attempt to run a plugin."""
        ...

    def plugin_ran(self, *, status: str, code: int, seconds: float) -> None:
        """A plugin was started, or should have been (M1): its exit code, and what that means."""
        ...

    def renewed(self, *, reason: str, succeeded: bool) -> None:
        """A credential was asked for: `first`, `expired`, `ahead` of its end, or after an `unauthorized`."""
        ...

    def installed(self, source: object, *, certificate_ends: float | None, token_ends: float | None) -> None:
        """`source` has a new credential. Its ends by the calendar; None for what has none."""
        ...

    def certificate_replaced(self, *, age: float, lifetime: float) -> None:
        """A certificate gave way to another, or to none, when it was `age` seconds old."""
        ...
