"""What can be counted about image credential providers. Whoever counts implements this; see `metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ProviderObserver(Protocol):
    """Told of every run of a provider. Must be quick, and raise nothing."""

    def on_config_loaded(self, *, hash: str, providers: Sequence[str]) -> None:
        """A configuration was accepted, with providers of these names (6.3)."""
        ...

    def on_provider_run(self, *, provider: str, seconds: float, failed: bool) -> None:
        """A provider was run, or should have been. `failed` says nothing of what it printed (6.1, 6.2).

        What `close` has ended is no failure of its, and not told of.
        """
        ...
