from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubeauth.testing import Authority
from tests.registry.servers import Registry
from tests.support.clients import VARIANTS, ClientVariant


@pytest.fixture(params=VARIANTS, ids=str)
def variant(request: pytest.FixtureRequest) -> ClientVariant:
    """Each library in each runtime: what is below the client does not matter here."""
    found: ClientVariant = request.param
    return found


@pytest.fixture
def registry(authority: Authority) -> Iterator[Registry]:
    """Over TLS, and so is its token endpoint. Knows alice and bob."""
    with Registry(authority, alice="wonderland", bob="builder") as it:
        yield it
