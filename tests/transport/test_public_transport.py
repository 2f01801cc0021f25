"""Concurrent requests to other origins than the cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kubeauth import ClientConfig, Secret
from tests.support.clients import ClientVariant
from tests.support.idle_threads import wait_for_idle_threads


@pytest.mark.every_variant
def test_the_first_requests_to_another_origin_share_a_transport(variant: ClientVariant) -> None:
    built: list[Any] = []

    def factory(context: Any, _proxy: Any) -> Any:
        built.append(context)
        if len(built) == 2:  # the first is that of the cluster
            wait_for_idle_threads()  # the other requests are sent meanwhile
        return variant.library.MockTransport(lambda _request: variant.library.Response(200))

    config = ClientConfig(server="https://cluster.example", token=Secret("t"))
    with variant.client(config, transport_factory=factory) as client, ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(client.get, ["https://other.example/"] * 4))

    assert [response.status_code for response in responses] == [200] * 4
    assert len(built) == 2
