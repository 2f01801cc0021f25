from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubeauth.testing import Authority
from tests.discovery.clusters import COLOURS, Cluster, Colour


@pytest.fixture(params=COLOURS, ids=str)
def colour(request: pytest.FixtureRequest) -> Colour:
    found: Colour = request.param
    return found


@pytest.fixture
def cluster(authority: Authority) -> Iterator[Cluster]:
    with Cluster(authority) as it:
        yield it


@pytest.fixture(scope="session")
def evil() -> Authority:
    """Of somebody in between, who has the keys of nobody else."""
    return Authority("evil CA")
