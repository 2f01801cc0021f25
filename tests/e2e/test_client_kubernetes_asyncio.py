"""`kubernetes_asyncio` on a real API server, past the expiry of its credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.past_expiries import KINDS, past_expiries


@pytest.mark.parametrize("kind", KINDS)
def test_past_expiries(cluster: ControlPlane, tmp_path: Path, kind: str) -> None:
    """List and watch go on, nobody sees a 401, and every event comes once."""
    past_expiries(cluster, tmp_path, "tests.e2e.with_kubernetes_asyncio", kind).check()


def test_a_configuration_past_expiries(cluster: ControlPlane, tmp_path: Path) -> None:
    """With tokens alone, and an ApiClient that is not ours."""
    past_expiries(cluster, tmp_path, "tests.e2e.with_kubernetes_asyncio_configuration", "token").check()


@pytest.mark.parametrize("kind", KINDS)
def test_kubernetes_aio_past_expiries(cluster: ControlPlane, tmp_path: Path, kind: str) -> None:
    """The fork of it inside the official client."""
    past_expiries(cluster, tmp_path, "tests.e2e.with_kubernetes_aio", kind).check()
