"""One soak, from the first process to the last."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpcore
import httpcore2
import httpx
import httpx2
import trio

import kubeauth
import kubeauth.httpx2
from tests.e2e.cluster import ControlPlane
from tests.soak.callers import Crew, Watcher, Worker
from tests.soak.gauges import Gauges, Left, settled
from tests.soak.ledger import Ledger
from tests.soak.plan import Plan
from tests.soak.plugin import USERS, Plugins
from tests.soak.proxy import CuttingProxy
from tests.soak.server import NAMESPACE, Audit, Killer
from tests.soak.sessions import AsyncSession, BlockingSession, drive
from tests.soak.tally import Tally, nothing_escapes
from tests.soak.verdict import Run as PluginRun
from tests.support import residue

# Imported before there are threads: httpx and anyio import these when they are first used, and trio does not bear
# being imported by two threads at once.
_LOADED = httpcore, httpcore2, trio

RUNTIMES = ("threads", "asyncio", "trio")
LIBRARIES = {"httpx": (kubeauth, httpx), "httpx2": (kubeauth.httpx2, httpx2)}


@dataclass(frozen=True, slots=True)
class Place:
    """A client: its number, and what it is made of."""

    number: int
    runtime: str
    library: str
    user: str


PLACES = [
    Place(number, runtime, library, user)
    for number, (runtime, library, user) in enumerate(
        (runtime, library, user) for runtime in RUNTIMES for library in LIBRARIES for user in USERS
    )
]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the soak knows that it did."""

    proxy: CuttingProxy
    killer: Killer
    plugins: Plugins

    def was_cut(self, place: int, begun: float, ended: float) -> bool:
        return self.proxy.was_cut(place, begun, ended)

    def was_down(self, begun: float, ended: float) -> bool:
        return self.killer.was_down(begun, ended)

    def runs(self, user: str) -> list[PluginRun]:
        return list(self.plugins.runs(user))


@dataclass
class Soak:
    """Everything there is to tell about one."""

    plan: Plan
    cluster: ControlPlane
    plugins: Plugins
    proxy: CuttingProxy
    killer: Killer
    audit: Audit
    gauges: Gauges
    ledger: Ledger
    tally: Tally
    began: float = 0.0
    ended: float = 0.0
    was_interrupted: bool = False
    left: list[str] = field(default_factory=list)
    contexts: tuple[int, int] = (0, 0)
    """Alive at the end, and how many there may be."""
    lost: list[str] = field(default_factory=list)
    _kept: list[Any] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        return (self.ended or time.monotonic()) - self.began if self.began else 0.0

    def run(self, tick: Callable[[Soak], None]) -> None:
        """Until its time is up, or somebody presses Ctrl-C; `tick` is called all the time."""
        crew = Crew(self.plan, self.ledger, self.tally, threading.Event(), threading.Event())
        before = Left.now()
        threads: list[threading.Thread] = []
        try:
            self._start(crew, threads)
            self._soak(crew, tick)
        except KeyboardInterrupt:
            self.was_interrupted = True
        finally:
            self._wind_down(crew, threads)
        self.ended = time.monotonic()
        # A plugin that was killed, or a connection of the proxy's, needs a moment.
        settled(lambda: not Left.now().more_than(before), 10.0)
        self.left = Left.now().more_than(before)

    def _start(self, crew: Crew, threads: list[threading.Thread]) -> None:
        """Every place has a client, and every client somebody who works and somebody who watches."""
        blocking = [place for place in PLACES if place.runtime == "threads"]
        threads += [threading.Thread(target=self._run_blocking, args=(place, crew)) for place in blocking]
        for runtime in ("asyncio", "trio"):
            threads.append(
                threading.Thread(
                    target=anyio.run, args=(self._main, crew, runtime), kwargs={"backend": runtime}
                )
            )
        for thread in threads:
            thread.start()

    def _soak(self, crew: Crew, tick: Callable[[Soak], None]) -> None:
        self.began = time.monotonic()
        end = self.began + self.plan.seconds
        faults_at = self.began + self.plan.warm_up
        self.plugins.faults_from = time.time() + self.plan.warm_up
        self.gauges.start()
        while (now := time.monotonic()) < end and not self.killer.problem:
            if faults_at <= now:
                faults_at = end
                self.proxy.start_cutting()
                self.killer.start()
            if self.plan.sabotage == "leak":
                self._kept.append(os.open(os.devnull, os.O_RDONLY))
            self.audit.read()
            tick(self)
            time.sleep(0.5)

    def _wind_down(self, crew: Crew, threads: list[threading.Thread]) -> None:
        """First the faults end, then the work; then the watches have time to see all of it, and end too."""
        self.proxy.stop_cutting()
        self.killer.stop()
        self.plugins.faults_from = float("inf")
        crew.stop_working.set()
        self.gauges.stop()
        settled(lambda: not self.ledger.unsettled(), 20.0)
        self.lost = self.ledger.lost()
        self.contexts = Left.now().contexts, self._most_contexts()
        crew.stop_watching.set()
        end = time.monotonic() + 60.0
        while any(thread.is_alive() for thread in threads) and time.monotonic() < end:
            # Whoever watches looks up when its connection is gone. Leaving a stream in the middle is nothing that
            # httpx does well on trio.
            self.proxy.cut_all()
            time.sleep(0.5)
        for thread in threads:
            if thread.is_alive():
                self.tally.unexpected(f"{thread.name} does not end")
        self.audit.read()

    def _most_contexts(self) -> int:
        # A client has one pool in use, and one that a watch on an older certificate holds; one is being made.
        return 3 * len(PLACES)

    def _config(self, place: Place) -> kubeauth.ClientConfig:
        server = f"https://127.0.0.1:{self.proxy.ports[place.number]}"
        document = self.cluster.kubeconfig(self.plugins.exec_config(place.user), {"server": server})
        timeout = self.plan.plugin_timeout
        if self.plan.sabotage == "twice":
            timeout += place.number  # no two clients are configured alike
        return kubeauth.load_config(document, exec_options=kubeauth.ExecOptions(timeout=timeout))

    def _run_blocking(self, place: Place, crew: Crew) -> None:
        client_class, _ = LIBRARIES[place.library]
        with client_class.Client(self._config(place)) as client:
            work = Worker(crew, BlockingSession(client, crew.stop_working), place.number, place.user)
            watch = Watcher(crew, BlockingSession(client, crew.stop_watching), place.number, place.user)
            watcher = threading.Thread(target=lambda: drive(watch.run()))
            watcher.start()
            drive(work.run())
            watcher.join()

    async def _main(self, crew: Crew, runtime: str) -> None:
        async with anyio.create_task_group() as group:
            for place in PLACES:
                if place.runtime == runtime:
                    group.start_soon(self._run_async, place, crew)

    async def _run_async(self, place: Place, crew: Crew) -> None:
        client_class, _ = LIBRARIES[place.library]
        async with (
            client_class.AsyncClient(self._config(place)) as client,
            anyio.create_task_group() as group,
        ):
            session = AsyncSession(client)
            group.start_soon(Worker(crew, session, place.number, place.user).run)
            group.start_soon(Watcher(crew, session, place.number, place.user).run)

    def close(self) -> None:
        """What the sabotage kept open."""
        for descriptor in self._kept:
            os.close(descriptor)


@contextmanager
def prepared(plan: Plan) -> Iterator[Soak]:
    """A control plane, a proxy in front of it, and plugins: everything but the callers."""
    with ExitStack() as stack:
        stack.enter_context(residue.private_temporary_directory())
        cluster = stack.enter_context(ControlPlane())
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for user in ("soak", "oidc:soak"):
            cluster.allow("cluster-admin", user=user)
        directory = Path(tempfile.mkdtemp())
        plugins = Plugins(directory, cluster.client_ca, cluster.issuer, plan)
        stack.callback(plugins.close)
        port = int(cluster.server.rpartition(":")[2])
        proxy = CuttingProxy(port, len(PLACES), cut_every=plan.cut_every, seed=plan.seed)
        stack.callback(proxy.close)
        killer = Killer(cluster, plan)
        tally = Tally(Facts(proxy, killer, plugins), plan.slow)
        audit = Audit(cluster, plugins, killer)
        stack.enter_context(nothing_escapes(tally))
        soak = Soak(plan, cluster, plugins, proxy, killer, audit, Gauges(), Ledger(len(PLACES)), tally)
        stack.callback(soak.close)
        yield soak
