from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kubeauth import ClientConfig
from tests.proxy.serving import Proxy

Proxied = Callable[..., Proxy]


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def proxied(backend: str) -> Iterator[Proxied]:
    """Starts a proxy for a config, on a port that is free. It ends with the test."""
    with ExitStack() as stack:

        def started(config: ClientConfig, **options: Any) -> Proxy:
            return stack.enter_context(Proxy(config, backend=backend, **options))

        yield started
