from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubeauth.testing import Authority
from tests.faces import FACES, Face
from tests.registry.servers import Registry


@pytest.fixture(params=FACES, ids=str)
def face(request: pytest.FixtureRequest) -> Face:
    """Each library in each colour: what is below the client does not matter here."""
    found: Face = request.param
    return found


@pytest.fixture
def registry(authority: Authority) -> Iterator[Registry]:
    """Over TLS, and so is its token endpoint. Knows alice and bob."""
    with Registry(authority, alice="wonderland", bob="builder") as it:
        yield it
