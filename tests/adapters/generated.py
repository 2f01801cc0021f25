"""One way to write a test for every generated client: `kubernetes`, `kubernetes_asyncio` and `kubernetes.aio`.

A `Driver` is a client whose methods block, whatever its runtime, as in tests/support/clients.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from kubeauth import ClientConfig


class Driver:
    """A client of any runtime, driven from a test that may block."""

    def __init__(self, library: str, api: Any, portal: BlockingPortal | None) -> None:
        self.api = api
        self.client = import_module(f"{library}.client")
        self._watch = import_module(f"{library}.watch")
        self._portal = portal
        self.core = self.client.CoreV1Api(api)

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """A method of CoreV1Api."""
        return self.run(getattr(self.core, name), *args, **options)

    def run(self, method: Any, *args: Any, **options: Any) -> Any:
        """What a method returns, or what comes of awaiting it."""
        if self._portal is None:
            return method(*args, **options)
        return self._portal.call(partial(method, *args, **options))

    def namespaces(self) -> list[str]:
        return [item.metadata.name for item in self.call("list_namespace").items]

    def unread(self, namespace: str) -> Any:
        """The list of ConfigMaps, as the library's response, of which nothing was read."""
        method = "list_namespaced_config_map"
        if hasattr(self.core, f"{method}_without_preload_content"):
            return self.call(f"{method}_without_preload_content", namespace)
        return self.call(method, namespace, _preload_content=False)

    def create(self, namespace: str, name: str) -> Any:
        """A ConfigMap, made with a body."""
        metadata = self.client.V1ObjectMeta(name=name)
        body = self.client.V1ConfigMap(metadata=metadata, data={"k": "v" * 100})
        return self.call("create_namespaced_config_map", namespace, body)

    def raw(self, url: str, **headers: str) -> tuple[int, bytes]:
        """GET of any address, on the client's own connections."""
        pool = self.api.rest_client.pool_manager
        if self._portal is None:
            response = pool.request("GET", url, headers=headers)
            return int(response.status), bytes(response.data)
        answer: tuple[int, bytes] = self._portal.call(self._raw, pool, url, headers)
        return answer

    async def _raw(self, pool: Any, url: str, headers: dict[str, str]) -> tuple[int, bytes]:
        response = await pool.request("GET", url, headers=headers)
        return response.status, await response.read()

    @contextmanager
    def watch(self, namespace: str) -> Iterator[Iterator[dict[str, Any]]]:
        """Events of the ConfigMaps of a namespace, until the server ends it."""
        watch = self._watch.Watch() if self._portal is None else self._portal.call(self._watch.Watch)
        events = watch.stream(self.core.list_namespaced_config_map, namespace, timeout_seconds=60)
        if self._portal is None:
            try:
                yield events
            finally:
                events.close()
        else:
            portal = self._portal
            try:
                yield _blocking(portal, events)
            finally:
                portal.call(watch.close)

    def close(self) -> None:
        if self._portal is None:
            self.api.close()
        else:
            self._portal.call(self.api.close)


def _blocking(portal: BlockingPortal, events: Any) -> Iterator[dict[str, Any]]:
    while True:
        try:
            yield portal.call(events.__anext__)
        except StopAsyncIteration:
            return


@dataclass(frozen=True)
class Generated:
    library: str
    adapter: str
    is_async: bool

    def __str__(self) -> str:
        return self.library

    @property
    def module(self) -> Any:
        """Of kubeauth.adapters."""
        return import_module(f"kubeauth.adapters.{self.adapter}")

    @property
    def client(self) -> Any:
        return import_module(f"{self.library}.client")

    @contextmanager
    def drive(self, config: ClientConfig | None, make: Any = None, **options: Any) -> Iterator[Driver]:
        """A client for `config`, closed at the end; `make` makes another than the adapter's."""
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio")) if self.is_async else None
            make = make or partial(self.module.api_client, config, **options)
            driver = Driver(self.library, make() if portal is None else portal.call(make), portal)
            stack.callback(driver.close)
            yield driver


GENERATED = [
    Generated("kubernetes", "kubernetes", False),
    Generated("kubernetes_asyncio", "kubernetes_asyncio", True),
    Generated("kubernetes.aio", "kubernetes_aio", True),
]


def config_map(name: str, version: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "web", "resourceVersion": str(version)},
        "data": {},
    }


def body_of(received: Any) -> Any:
    return json.loads(received.body)
