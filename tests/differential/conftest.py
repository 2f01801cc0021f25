from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def oracle() -> Path:
    """client-go itself, as `make oracle` builds it."""
    built = Path(__file__).parent / "oracle" / "oracle"
    if not built.exists():
        pytest.skip("no client-go oracle: run `make oracle` (needs Go)")
    return built


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The kubectl that KUBECTL names, or the one on PATH."""
    found = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if not found:
        pytest.skip("no kubectl here")
    return found
