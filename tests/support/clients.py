"""Tests for every client variant: {httpx, httpx2} x {sync, asyncio, trio}, some of them with DirectTransport.

A `Driver` is a client with blocking methods for every runtime: async clients run in a real event loop in a thread.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal

import kubeauth
import kubeauth.httpx2
import kubeauth.transports.httpx2
from kubeauth import ClientConfig


class Stream:
    """An open response."""

    def __init__(self, response: Any, portal: BlockingPortal | None) -> None:
        self.response = response
        self._portal = portal
        self._lines = response.iter_lines() if portal is None else response.aiter_lines()
        self._parts = response.iter_raw() if portal is None else response.aiter_raw()

    def line(self) -> str:
        """Return the next line. Raise StopIteration at the end."""
        return self._next(self._lines)  # type: ignore[no-any-return]

    def part(self) -> bytes:
        """Return the next raw bytes. Raise StopIteration at the end."""
        return self._next(self._parts)  # type: ignore[no-any-return]

    def _next(self, iterator: Any) -> Any:
        if self._portal is None:
            return next(iterator)
        try:
            return self._portal.call(iterator.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def rest(self) -> list[str]:
        lines = []
        while True:
            try:
                lines.append(self.line())
            except StopIteration:
                return lines


class Driver:
    """A client of any runtime with blocking methods."""

    def __init__(self, client: Any, portal: BlockingPortal | None) -> None:
        self.client = client
        self._portal = portal

    def request(self, method: str, url: str, **options: Any) -> Any:
        call = partial(self.client.request, method, url, **options)
        return call() if self._portal is None else self._portal.call(call)

    def get(self, url: str, **options: Any) -> Any:
        return self.request("GET", url, **options)

    @contextmanager
    def stream(self, method: str, url: str, **options: Any) -> Iterator[Stream]:
        opened = self.client.stream(method, url, **options)
        if self._portal is None:
            with opened as response:
                yield Stream(response, None)
        else:
            with self._portal.wrap_async_context_manager(opened) as response:
                yield Stream(response, self._portal)

    def close(self) -> None:
        if self._portal is None:
            self.client.close()
        else:
            self._portal.call(self.client.aclose)


@dataclass(frozen=True)
class ClientVariant:
    library: types.ModuleType
    runtime: str
    direct: bool = False

    def __str__(self) -> str:
        return f"{self.library.__name__}-{self.runtime}{'-direct' if self.direct else ''}"

    @property
    def is_async(self) -> bool:
        return self.runtime != "sync"

    @property
    def kubeauth(self) -> Any:
        """The module with the classes for this library."""
        return kubeauth if self.library is httpx else kubeauth.httpx2

    @property
    def Client(self) -> Any:
        return self._with_transport(self.kubeauth.AsyncClient if self.is_async else self.kubeauth.Client)

    @property
    def KubeTransport(self) -> Any:
        return self._with_transport(
            self.kubeauth.AsyncKubeTransport if self.is_async else self.kubeauth.KubeTransport
        )

    def _with_transport(self, factory: Any) -> Any:
        """`factory` with the transport of this variant as the default."""

        def build(*args: Any, **options: Any) -> Any:
            if "limits" in options:
                options.setdefault(
                    "transport_factory", partial(self.PlainTransport, limits=options.pop("limits"))
                )
            return factory(*args, **{"transport_factory": self.PlainTransport} | options)

        return build if self.direct else factory

    @property
    def PlainClient(self) -> Any:
        return self.library.AsyncClient if self.is_async else self.library.Client

    @property
    def PlainTransport(self) -> Any:
        if self.direct:
            module = kubeauth.transports if self.library is httpx else kubeauth.transports.httpx2
            return module.AsyncDirectTransport if self.is_async else module.DirectTransport
        return self.library.AsyncHTTPTransport if self.is_async else self.library.HTTPTransport

    @property
    def BaseTransport(self) -> Any:
        return self.library.AsyncBaseTransport if self.is_async else self.library.BaseTransport

    @contextmanager
    def drive(self, build: Callable[[], Any]) -> Iterator[Driver]:
        """Drive a client of this runtime, and close it at the end."""
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(self.runtime)) if self.is_async else None
            driver = Driver(self._extend_timeout(build()), portal)
            stack.callback(driver.close)
            yield driver

    def _extend_timeout(self, client: Any) -> Any:
        """Replace the default timeout of five seconds: a busy machine may need longer."""
        if client.timeout == self.library.Timeout(5.0):
            client.timeout = self.library.Timeout(60.0)
        return client

    @contextmanager
    def client(self, config: ClientConfig | None = None, **options: Any) -> Iterator[Driver]:
        with self.drive(partial(self.Client, config, **options)) as driver:
            yield driver

    def in_memory(self, handler: Callable[[Any], Any]) -> Callable[..., Any]:
        """A `transport_factory=` that does not use the network."""
        mock = self.library.MockTransport(handler)
        return lambda _context, _proxy: mock


def covering_set(variants: Sequence[ClientVariant]) -> list[ClientVariant]:
    """Return as few as cover each library, runtime and transport among `variants`: three of all nine.

    Sound for most tests, because sync and httpx2 modules are generated from one source.
    """

    def features(variant: ClientVariant) -> set[object]:
        return {variant.library.__name__, variant.runtime, variant.direct}

    chosen: list[ClientVariant] = []
    left = set[object]().union(*map(features, variants))
    while left:
        chosen.append(max(variants, key=lambda variant: len(features(variant) & left)))
        left -= features(chosen[-1])
    return chosen


VARIANTS = [
    ClientVariant(library, runtime) for library in (httpx, httpx2) for runtime in ("sync", "asyncio", "trio")
]
# With DirectTransport. It is the same code for both libraries, so three are enough.
DIRECT = [
    ClientVariant(httpx, "sync", True),
    ClientVariant(httpx, "asyncio", True),
    ClientVariant(httpx2, "trio", True),
]
