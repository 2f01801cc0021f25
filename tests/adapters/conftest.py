"""What aiohttp leaves behind.

A loop that ends as soon as a session is closed leaves it no time to say goodbye by TLS, and its sockets to the
collector. That is known of aiohttp, with and without kubeauth; whether kubeauth leaves any is counted by tests that
look for it (`no_residue`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "aio" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Here, and not in whatever test comes next."""
    yield
    if "aio" in request.node.nodeid:
        gc.collect()
