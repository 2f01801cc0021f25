"""`kubernetes` on a real API server, past the expiry of its credentials."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import ControlPlane
from tests.e2e.past_expiries import past_expiries


def test_past_expiries(cluster: ControlPlane, tmp_path: Path) -> None:
    """List and watch go on, nobody sees a 401, and every event comes once."""
    past_expiries(cluster, tmp_path, "with_kubernetes")


def test_a_configuration_past_expiries(cluster: ControlPlane, tmp_path: Path) -> None:
    """With tokens alone, and an ApiClient that is not ours."""
    past_expiries(cluster, tmp_path, "with_kubernetes_configuration", kinds=["token"])
