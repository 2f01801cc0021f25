from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubeauth.testing import Authority
from tests.discovery.clusters import RUNTIMES, Cluster, Runtime


@pytest.fixture(params=RUNTIMES, ids=str)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = request.param
    return found


@pytest.fixture
def cluster(authority: Authority) -> Iterator[Cluster]:
    with Cluster(authority) as it:
        yield it


@pytest.fixture(scope="session")
def evil() -> Authority:
    """Of somebody in between, who has the keys of nobody else."""
    return Authority("evil CA")
