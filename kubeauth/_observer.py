"""Observer: the events of plugins and their credentials, for metrics and other monitoring systems."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Receives events of plugins and credentials. Methods must be quick and must not raise."""

    def on_policy_check(self, *, allowed: bool) -> None:
        """The plugin policy was checked, once per attempt to run a plugin."""
        ...

    def on_plugin_run(self, *, status: str, code: int, seconds: float) -> None:
        """A plugin run ended, or the plugin could not be started (M1): its status label and exit code."""
        ...

    def on_refresh(self, *, reason: str, succeeded: bool) -> None:
        """A credential was fetched, for the reason `first`, `expired`, `refresh_ahead` or `unauthorized`."""
        ...

    def on_credential(
        self, source: object, *, certificate_expires: float | None, token_expires: float | None
    ) -> None:
        """`source` has a new credential, with its expiry by the wall clock; None for what does not expire."""
        ...

    def on_certificate_rotated(self, *, age: float, lifetime: float) -> None:
        """A certificate of that age was replaced, or dropped."""
        ...
