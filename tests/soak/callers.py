"""Who uses the clients: well-written programs that read, write and watch ConfigMaps."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.soak.ledger import Ledger
from tests.soak.plan import Plan
from tests.soak.server import AGENT, NAMESPACE
from tests.soak.sessions import Session
from tests.soak.tally import Tally
from tests.soak.verdict import Asked

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_MOST = 4  # that one caller has at a time


@dataclass(frozen=True, slots=True)
class Crew:
    """What all callers have in common."""

    plan: Plan
    ledger: Ledger
    tally: Tally
    stop_working: threading.Event
    stop_watching: threading.Event


class _Caller:
    def __init__(self, crew: Crew, session: Session, place: int, user: str) -> None:
        self._crew, self._session, self._place, self._user = crew, session, place, user
        self._random = random.Random(f"{crew.plan.seed}-{place}")  # noqa: S311 -- repeatable, and no secret

    def _asked(self, what: str, begun: float) -> Asked:
        now, date = time.monotonic(), time.time()
        return Asked(self._place, self._user, what, begun, now, date - (now - begun), date)

    async def _ask(self, method: str, url: str, wanted: Iterable[int], **options: Any) -> Any:
        """The answer, or None; what came of it is written down. Some have no patience."""
        begun = time.monotonic()
        timeout = self._crew.plan.request_timeout
        asking = self._session.request(method, url, timeout=timeout, headers=_agent(), **options)
        try:
            if method == "GET" and self._random.random() < 0.06:
                response = await self._session.patiently(self._random.uniform(0, 0.01), asking)
            else:
                response = await asking
        except Exception as error:
            self._crew.tally.raised(error, self._asked(f"{method} {url}", begun))
            return None
        asked = self._asked(f"{method} {url}", begun)
        if response is None:
            self._crew.tally.given_up(asked)
        elif response.status_code in wanted:
            self._crew.tally.answered(asked)
            return response
        else:
            self._crew.tally.refused(response.status_code, response.text, asked)
        return None


class Worker(_Caller):
    """Makes ConfigMaps, looks at them, and removes them."""

    def __init__(self, crew: Crew, session: Session, place: int, user: str) -> None:
        super().__init__(crew, session, place, user)
        self._made = 0
        self._mine: list[str] = []
        self._unsure: list[str] = []
        """Asked for, and nobody knows whether they are there."""
        self._doomed: list[str] = []
        """Asked to be removed, and nobody knows whether they are."""

    async def run(self) -> None:
        while not all(watched.version for watched in self._crew.ledger.watches):
            await self._session.sleep(0.1)
            if self._crew.stop_working.is_set():
                return
        while not self._crew.stop_working.is_set():
            await self._turn()
            await self._session.sleep(self._crew.plan.pace * self._random.uniform(0.5, 1.5))

    async def _turn(self) -> None:
        chance = self._random.random()
        if self._doomed or self._unsure:
            await self._remove((self._doomed or self._unsure)[0])
        elif self._mine and (len(self._mine) >= _MOST or chance < 0.2):
            await self._remove(self._mine[0])
        elif chance < 0.5:
            await self._make()
        elif chance < 0.75 and self._mine:
            await self._ask("GET", f"{CONFIG_MAPS}/{self._random.choice(self._mine)}", [200])
        else:
            await self._ask("GET", CONFIG_MAPS, [200], params={"labelSelector": f"place=p{self._place}"})

    async def _make(self) -> None:
        self._made += 1
        name = f"p{self._place}-{self._made}"
        body = {
            "metadata": {"name": name, "labels": {"place": f"p{self._place}"}},
            "data": {"text": "x" * 400},
        }
        self._crew.ledger.begin(name, "ADDED", time.monotonic())
        # 409 is not wanted: a name is used once, so that would be a request that was sent twice.
        if await self._ask("POST", CONFIG_MAPS, [201], json=body):
            self._crew.ledger.confirm(name, "ADDED")
            self._mine.append(name)
        else:
            self._unsure.append(name)

    async def _remove(self, name: str) -> None:
        ledger = self._crew.ledger
        is_sure = name in self._mine or name in self._doomed
        wanted = [200, 404] if name not in self._mine else [200]
        ledger.begin(name, "DELETED", time.monotonic())
        response = await self._ask("DELETE", f"{CONFIG_MAPS}/{name}", wanted)
        if response is None:
            if name in self._mine:
                self._mine.remove(name)
                self._doomed.append(name)
            return
        if is_sure or response.status_code == 200:
            ledger.confirm(name, "ADDED")
            ledger.confirm(name, "DELETED")
        else:
            ledger.never_mind(name, "DELETED")
            ledger.never_mind(name, "ADDED")
        for names in (self._mine, self._doomed, self._unsure):
            if name in names:
                names.remove(name)


class Watcher(_Caller):
    """Lists once, then watches; goes on where it was when a watch ends, and lists again if that is too old."""

    def __init__(self, crew: Crew, session: Session, place: int, user: str) -> None:
        super().__init__(crew, session, place, user)
        self._version = ""
        self._events = 0

    async def run(self) -> None:
        while not self._crew.stop_watching.is_set():
            if self._version:
                await self._watch()
            else:
                await self._list()
            await self._session.sleep(self._random.uniform(0.1, 0.4))

    async def _list(self) -> None:
        response = await self._ask("GET", CONFIG_MAPS, [200])
        if response is not None:
            self._version = response.json()["metadata"]["resourceVersion"]
            self._crew.ledger.listed(self._place, int(self._version), time.monotonic())

    async def _watch(self) -> None:
        # Some end by themselves, as most do in practice; some last until somebody ends them.
        limit = 20 if self._place % 2 else 600
        params = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": limit,
        }
        begun = self._active = time.monotonic()
        tally = self._crew.tally
        try:
            async with self._session.stream(CONFIG_MAPS, params=params, timeout=40.0, headers=_agent()) as (
                response,
                lines,
            ):
                if response.status_code == 200:
                    async for line in lines:
                        self._active = time.monotonic()
                        self._take(json.loads(line))
        except Exception as error:
            # Until about the last event it was well: that may have waited a while to be read.
            tally.raised(error, self._asked("WATCH", max(begun, self._active - 2.0)))
        else:
            if response.status_code == 410:
                self._version = ""
            elif response.status_code != 200:
                tally.refused(response.status_code, "", self._asked("WATCH", self._active))
                return
            tally.answered(self._asked("WATCH", self._active))

    def _take(self, event: Any) -> None:
        """After an ERROR the server ends the watch."""
        kind, content, now = event["type"], event["object"], time.monotonic()
        ledger = self._crew.ledger
        if kind == "ERROR" and content["code"] == 410:
            self._version = ""
        elif kind == "ERROR":
            asked = self._asked("WATCH", self._active)
            self._crew.tally.refused(content["code"], content.get("message", ""), asked)
        else:
            self._version = content["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                ledger.bookmarked(self._place, int(self._version), now)
                return
            self._events += 1
            if self._crew.plan.sabotage != "lose" or self._events % 20:
                ledger.seen(self._place, content["metadata"]["name"], kind, int(self._version), now)


def _agent() -> dict[str, str]:
    return {"User-Agent": f"{AGENT}{time.time():.6f}"}
