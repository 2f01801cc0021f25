"""One run of the demo: from the first request to the last, and everything that a screen shows of it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, Self

import kubeauth
from kubeauth.cli._demo_figures import Figures
from kubeauth.cli._demo_load import Load, Plan
from kubeauth.cli._demo_metrics import Meters, PluginCounts
from kubeauth.cli._demo_server import WATCHED, DemoCluster

# How many characters wide the drawing of latencies is, and how long a moment one of them stands for at least.
CELLS = 60
_SHORTEST_CELL = 0.25

_TICK = 0.05
_SHORT_TICK = 0.02
_BEAT = 0.25
_REST = 10.0

# A few milliseconds of work for each, so that the machine is busy but nobody queues.
_HERE = Plan(threads=8, tasks=8, every=0.05, path="/api/v1/namespaces", watched=WATCHED)
# Less than 20 a second, of what any user may ask and costs the server nothing.
_THERE = Plan(threads=2, tasks=2, every=0.22, path="/version")


class Screen(Protocol):
    """Where a run is shown."""

    def begin(self, run: Run) -> None:
        """The first request was answered, or not."""
        ...

    def tick(self, run: Run) -> None:
        """Some time has passed; called often."""
        ...

    def end(self, run: Run) -> None:
        """All is done: the summary."""
        ...

    def close(self) -> None:
        """Leaves the terminal as it was, whatever happened."""
        ...


class Run:
    """Use it in `with`: it holds clients and servers."""

    def __init__(
        self, config: kubeauth.ClientConfig, plan: Plan, seconds: float, cluster: DemoCluster | None
    ) -> None:
        self.config = config
        self.plan = plan
        self.seconds = seconds
        self.cluster = cluster
        self.meters = Meters()
        self.plugin = PluginCounts()
        self.figures = Figures(time.monotonic(), cell=max(seconds / CELLS, _SHORTEST_CELL))
        self.load = Load(config, plan, self.figures)
        self.first_request = 0.0
        """Seconds; the plugin runs for the first time in it."""
        self.elapsed = 0.0
        self.was_interrupted = False
        self._credential = self.load.credential

    @classmethod
    def here(cls, cluster: DemoCluster, seconds: float) -> Self:
        """With a server of its own, by a kubeconfig as anybody has it."""
        # The plugin is a part of kubeauth: the user's kuberc has no say in it.
        policy = kubeauth.PluginPolicy.allow_all()
        config = kubeauth.load_config(cluster.kubeconfig(), plugin_policy=policy)
        return cls(config, _HERE, seconds, cluster)

    @classmethod
    def there(cls, config: kubeauth.ClientConfig, seconds: float) -> Self:
        """On a real cluster, gently."""
        return cls(config, _THERE, seconds, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.load.close()
        if self.cluster is not None:
            self.cluster.close()

    @property
    def succeeded(self) -> bool:
        return self.figures.failures == 0

    @property
    def rotations(self) -> int:
        """How often another credential took the place of the one before."""
        return len(self.figures.rotations)

    def go(self, screen: Screen) -> None:
        """Returns when the time is over, or after Ctrl-C; at once if the first request fails."""
        self.first_request = self.load.ask()
        self.figures.began = time.monotonic()
        self._credential = self.load.credential
        self._look()
        try:
            screen.begin(self)
            if self.succeeded:
                with _taking_short_turns():
                    self._go_on(screen)
            screen.end(self)
        finally:
            screen.close()

    def _go_on(self, screen: Screen) -> None:
        try:
            self.load.start()
            self._wait(screen)
        except KeyboardInterrupt:
            self.was_interrupted = True
        self._finish()

    def _wait(self, screen: Screen) -> None:
        beat = 0.0
        while self.elapsed < self.seconds:
            time.sleep(_TICK)
            if self.cluster is not None and self.elapsed >= beat:
                beat += _BEAT
                self.cluster.beat()
            self._look()
            screen.tick(self)

    def _look(self) -> None:
        now = time.monotonic()
        self.elapsed = now - self.figures.began
        credential = self.load.credential
        if credential != self._credential:
            self._credential = credential
            self.figures.rotations.append(now)
        self.plugin = self.meters.read()
        self.figures.take_in(now)

    def _finish(self) -> None:
        elapsed = self.elapsed
        self.load.stop()
        if self.cluster is not None:
            self.cluster.end_watches()
        self.load.join()
        # A run of the plugin that is under way is waited for, and what it gives is used: every run counts.
        deadline = time.monotonic() + _REST
        used: object = None
        while used != self._credential and time.monotonic() < deadline and self.succeeded:
            self._come_to_rest(deadline)
            used = self._credential
            self.load.ask()
            self._come_to_rest(deadline)
        self._look()
        self.figures.take_in(math.inf)
        self.elapsed = elapsed

    def _come_to_rest(self, deadline: float) -> None:
        # Twice, because a run that has just been started is not counted yet.
        for _ in range(2):
            time.sleep(_SHORT_TICK)
            self._look()
            while not self.plugin.is_at_rest and time.monotonic() < deadline:
                time.sleep(_SHORT_TICK)
                self._look()


@contextmanager
def _taking_short_turns() -> Generator[None]:
    """Clients and server share one interpreter: with its usual turns they would measure that."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 10)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
