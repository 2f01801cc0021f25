"""Where measurements take place: the server, who is measured, how much, and whom to tell how far it is."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmarks.process import Failed, Worker
from benchmarks.server import Server
from benchmarks.subjects import Subject

ROOT = Path(__file__).parent.parent
Round = dict[str, Any]
# Of each who was measured, by name: a dictionary of figures per round, with `failed` where there are none.
Rounds = dict[str, list[Round]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    added_rounds: int = 15
    added_calls: int = 1_000
    warm_rounds: int = 7
    warm_seconds: float = 0.5
    settle_seconds: float = 0.2
    cold_rounds: int = 5
    crowd_rounds: int = 2
    callers: int = 1_000
    crowd_limit: float = 40.0
    renewal_rounds: int = 3
    certificate_rounds: int = 1
    renewal_seconds: float = 15.0
    stall_rounds: int = 3
    import_rounds: int = 7
    load_rounds: int = 5
    contexts: int = 1_000
    fleet_rounds: int = 1
    clusters: int = 1_000
    at_once: int = 1
    """How many are measured at the same time, where it is their counts that matter."""

    def with_rounds(self, count: int) -> Sizes:
        """So many rounds of everything."""
        return replace(self, **{each.name: count for each in fields(self) if each.name.endswith("_rounds")})


QUICK = replace(
    Sizes().with_rounds(1),
    added_rounds=3,
    added_calls=300,
    warm_rounds=2,
    warm_seconds=0.15,
    settle_seconds=0.05,
    callers=50,
    crowd_limit=5.0,
    renewal_seconds=5.5,
    contexts=100,
    clusters=30,
    at_once=5,
)


@dataclass(slots=True)
class Stage:
    server: Server
    subjects: list[Subject]
    sizes: Sizes
    directory: Path
    go_client: str | None
    tell: Callable[[str, int, int], None]
    """What is going on, which step of it this is, and how many there are."""
    _runs: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_run(self, **settings: Any) -> str:
        """The name of a run that nobody else has; the server knows how to serve it."""
        name = f"r{next(self._runs)}"
        self.server.set(name, **settings)
        return name

    def measure(
        self, label: str, whom: Sequence[T], rounds: int, once: Callable[[T], Round], *, at_once: int = 1
    ) -> Rounds:
        """What `once` finds of each of them in each round, by their names.

        Each round has somebody else first: neither a slow minute nor a neighbour has a favourite. Whoever
        fails keeps nobody else from their turn.
        """
        turns = [each for number in range(rounds) for each in in_turn(whom, number)]
        steps = itertools.count()

        def attempted(each: T) -> Round:
            self.tell(f"{label}: {each}", next(steps), len(turns))
            try:
                return once(each)
            except Failed as error:
                return {"failed": str(error)}

        found: Rounds = {str(each): [] for each in whom}
        with ThreadPoolExecutor(at_once) as pool:
            for each, figures in zip(turns, pool.map(attempted, turns), strict=True):
                found[str(each)].append(figures)
        return found

    def environment(self) -> dict[str, str]:
        """The same for everybody, and nothing of whoever started this: no proxy, no kubeconfig, no cache."""
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
        return kept | {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT)}

    def worker(self, subject: Subject) -> Worker:
        return Worker(subject.command(self.go_client), self.environment())

    def kubeconfig(self, subject: Subject, run: str) -> str:
        """With the plugin; for those who cannot run one, with a token of the same run."""
        return self.server.with_plugin(run) if subject.signs else self.server.with_token(run)


def in_turn(whom: Sequence[T], number: int) -> list[T]:
    """All of them, beginning with another one in each round."""
    first = number % max(1, len(whom))
    return [*whom[first:], *whom[:first]]


class Kept:
    """A worker per subject, made with its first turn and kept for the others."""

    def __init__(self, stage: Stage, prepare: Callable[[Subject, Worker], object]) -> None:
        self._stage, self._prepare = stage, prepare
        self._workers: dict[str, Worker | Failed] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __getitem__(self, subject: Subject) -> Worker:
        """Ready to be told. Failed if it could not be made, now or before."""
        found = self._workers.get(subject.key)
        if found is None:
            found = self._workers[subject.key] = self._made(subject)
        if isinstance(found, Failed):
            raise found
        return found

    def _made(self, subject: Subject) -> Worker | Failed:
        try:
            worker = self._stack.enter_context(self._stage.worker(subject))
            self._prepare(subject, worker)
        except Failed as error:
            return error
        return worker
