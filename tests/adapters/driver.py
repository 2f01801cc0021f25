"""Other people's clients, of any runtime, driven from a test that may block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from kubeauth import ClientConfig

RUNTIMES = ("sync", "asyncio", "trio")


@dataclass(frozen=True)
class Side:
    """One runtime of a client: how it is asked for the same things. Coroutine functions, if it is async."""

    open: Callable[..., Any]
    """Creates a client for a ClientConfig; `clock` is an option."""
    close: Callable[[Any], Any]
    namespaces: Callable[[Any], Any]
    """Their names, as a list."""
    config_maps: Callable[[Any, str], Any]
    """The names of those in a namespace, as a list."""
    watch: Callable[[Any, str], Any]
    """An iterator, of whatever runtime, over the events of ConfigMaps in a namespace: kind and name.

    From resource version 0: those that are there come first, and a real server need not wait for etcd.
    """
    execute: Callable[[Any], Any]
    """Runs a command in the pod `web`, by websocket, and gives its output."""


class Driver:
    """A client of any runtime, whose methods block."""

    def __init__(
        self, side: Side, portal: BlockingPortal | None, config: ClientConfig, **options: Any
    ) -> None:
        self._side = side
        self.portal = portal
        self.client = self.call(partial(side.open, config, **options))

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args) if self.portal is None else self.portal.call(work, *args)

    def namespaces(self) -> list[str]:
        return self.call(self._side.namespaces, self.client)  # type: ignore[no-any-return]

    def config_maps(self, namespace: str) -> list[str]:
        return self.call(self._side.config_maps, self.client, namespace)  # type: ignore[no-any-return]

    def execute(self) -> str:
        return self.call(self._side.execute, self.client)  # type: ignore[no-any-return]

    @contextmanager
    def watch(self, namespace: str) -> Iterator[Callable[[], tuple[str, str]]]:
        """Gives the next event, when called."""
        events = self._side.watch(self.client, namespace)
        if self.portal is None:
            yield events.__next__
            events.close()
        else:
            portal = self.portal
            yield lambda: portal.call(events.__anext__)
            portal.call(events.aclose)

    def close(self) -> None:
        self.call(self._side.close, self.client)


@contextmanager
def opened(side: Side, runtime: str, config: ClientConfig, **options: Any) -> Iterator[Driver]:
    with ExitStack() as stack:
        portal = None if runtime == "sync" else stack.enter_context(start_blocking_portal(runtime))
        driver = Driver(side, portal, config, **options)
        stack.callback(driver.close)
        yield driver
