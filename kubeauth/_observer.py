"""Observer: events of plugins and credentials, for metrics."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Receives events of plugins and credentials. Its methods must return quickly and must not raise."""

    def on_policy_check(self, *, allowed: bool) -> None:
        """The plugin policy was checked, as before every run of a plugin."""
        ...

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        """A plugin exited, or could not be started (M1): `status` and `code` are labels of the metric."""
        ...

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        """A credential was fetched, for the reason `first`, `expired`, `refresh_ahead` or `unauthorized`."""
        ...

    def on_credential(
        self, source: object, *, certificate_expires: float | None, token_expires: float | None
    ) -> None:
        """`source` has a new credential. The expiries are seconds since 1970; None if unknown or absent."""
        ...

    def on_certificate_rotated(self, *, age: float, lifetime: float) -> None:
        """A certificate of that age was replaced or removed."""
        ...
