"""What a soak does, and how much of it. Everything that can be turned is here."""

from __future__ import annotations

from dataclasses import dataclass

SABOTAGES = ("stale", "twice", "lose", "leak")


@dataclass(frozen=True, slots=True)
class Plan:
    """The defaults are those of ten minutes; `short` makes one for a test."""

    seconds: float = 600.0
    seed: int = 1
    lifetime: float = 5.0
    """Of a credential."""
    grace: float = 2.0
    """The server takes it for so much longer: a request may be on its way when its credential ends."""
    plugin_timeout: float = 2.0
    request_timeout: float = 10.0
    failing: int = 10
    """Runs of the plugin in `deck` that fail."""
    hanging: int = 1
    deck: int = 100
    kill_every: float = 60.0
    cut_every: float = 0.7
    """Seconds between two cut connections, on average."""
    pace: float = 0.6
    """Seconds between two requests of one caller, on average."""
    warm_up: float = 10.0
    """Before the first fault; what a process needs to get going is not growth."""
    sabotage: str = ""
    """One of SABOTAGES: what must make a soak fail."""

    @property
    def slow(self) -> float:
        """Nobody waits longer for one request: a plugin that hangs and will not go, one that is asked after a
        401, two tries at a request, and patience with a busy machine."""
        return 2 * (self.plugin_timeout + 0.5 + self.request_timeout) + 5.0


def plan_for(seconds: float, seed: int, sabotage: str = "") -> Plan:
    """For less than two minutes everything happens more often, so that it happens at all."""
    if seconds >= 120:
        return Plan(seconds=seconds, seed=seed, sabotage=sabotage)
    return Plan(
        seconds=seconds,
        seed=seed,
        sabotage=sabotage,
        # Of those that the tests run, on a machine that stands still for seconds now and then.
        grace=10.0,
        plugin_timeout=5.0,
        failing=2,
        hanging=1,
        deck=10,
        kill_every=max(seconds / 3, 8.0),
        cut_every=0.4,
        warm_up=3.0,
    )
