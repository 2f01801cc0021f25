"""lightkube on a real API server, past the expiry of its credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.past_expiries import KINDS, past_expiries


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", ["with_lightkube", "with_lightkube_async"])
def test_past_expiries(cluster: ControlPlane, tmp_path: Path, program: str, kind: str) -> None:
    """Lists and a watch go on, nobody sees a 401, every event comes once, and no key is in a file."""
    past_expiries(cluster, tmp_path, f"tests.e2e.{program}", kind).check()
