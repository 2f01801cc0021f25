"""kr8s on a real API server, past the expiry of its credentials."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import ControlPlane
from tests.e2e.past_expiries import past_expiries


def test_past_expiries(cluster: ControlPlane, tmp_path: Path) -> None:
    """Lists and a watch go on, nobody sees a 401, every event comes once, and no key is in a file."""
    past_expiries(cluster, tmp_path, "with_kr8s", "with_kr8s_async")
