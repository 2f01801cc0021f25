"""`cluster`: a control plane for whoever asks for it, started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import ControlPlane
from tests.e2e.joining import Joinable

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(180))
            # Whoever leaves a stream of httpx early on trio gets this from below it.
            item.add_marker(pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as cluster:
        yield cluster


@pytest.fixture
def joinable(cluster: ControlPlane) -> Iterator[Joinable]:
    """The same, open to whoever has a bootstrap token."""
    with Joinable(cluster) as it:
        yield it
