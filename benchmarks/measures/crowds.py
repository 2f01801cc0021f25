"""Plugin runs: a thousand callers at once who have no credential, one that was revoked, one that is over."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from benchmarks import markdown
from benchmarks.measures import warm
from benchmarks.process import Failed
from benchmarks.results import Results
from benchmarks.stage import Round, Rounds, Stage
from benchmarks.subjects import Subject
from benchmarks.telling import Told, middle, reason, told_duration, told_range, values

SCENES = {"none": "no credential yet", "revoked": "revoked (401)", "over": "at expiry"}
PLUGIN_SECONDS = 0.2
# From the first credential to its end: time enough to open a client and to ask once.
MARGIN = 4


@dataclass(frozen=True, slots=True)
class Turn:
    subject: Subject
    scene: str

    def __str__(self) -> str:
        return f"{self.subject.key}: {self.scene}"


def measure(stage: Stage) -> Rounds:
    turns = [
        Turn(each, scene)
        for scene in SCENES
        for each in stage.subjects
        if each.signs or (scene == "none" and each.name != warm.AGAIN)
    ]
    stopped: set[Turn] = set()

    def once(turn: Turn) -> Round:
        if turn in stopped:
            return {}  # it would be again
        found = one(stage, turn)
        if "stopped" in found:
            stopped.add(turn)
        return found

    return stage.measure("crowds", turns, stage.sizes.crowd_rounds, once, at_once=stage.sizes.at_once)


def one(stage: Stage, turn: Turn) -> Round:
    server, callers, limit = stage.server, stage.sizes.callers, stage.sizes.crowd_limit
    with stage.worker(turn.subject) as worker:
        until = math.ceil(time.time()) + MARGIN if turn.scene == "over" else 0
        run = stage.new_run(delay=PLUGIN_SECONDS, until=until)
        worker.order("open", kubeconfig=stage.kubeconfig(turn.subject, run))
        before = 0 if turn.subject.signs else 1  # the token that it was given
        if turn.scene != "none":
            worker.order("ask")
            before = server.counts(run).issued
        if turn.scene == "revoked":
            server.revoke(run)
        if turn.scene == "over":
            time.sleep(max(0.0, until + 0.05 - time.time()))
        try:
            answer = worker.order("crowd", callers=callers, limit=limit)
        except Failed as error:
            # What it has done until then has been done.
            return {"runs": server.counts(run).issued - before, "stopped": str(error)}
        return {
            "runs": server.counts(run).issued - before,
            "us": answer["us"],
            "failures": answer["failures"],
            "failed_calls": sum(answer["failures"].values()),
        }


def tell(results: Results) -> Told:
    rounds = results.found["crowds"]
    callers, limit = int(results.sizes["callers"]), results.sizes["crowd_limit"]
    told = Told(
        markdown.prose(f"""
        {callers:,} callers at once (threads, tasks or goroutines), once each, on one client, with a plugin
        that takes {PLUGIN_SECONDS:g} s. Each cell: runs of the plugin; requests that failed; when all were
        done. With no credential yet; with one that the server no longer accepts; with one that is over.
        Every credential that follows lives for an hour. Who was not done after {limit:.0f} s was stopped.
        `httpx` and `httpx2` have a static token: what so many connections cost without kubeauth. Rounds:
        {results.sizes["crowd_rounds"]:.0f}.
        """)
    )
    rows = []
    for each in results.listed:
        if f"{each.key}: none" in rounds:
            shown = f"**{each.key}**" if each.is_ours else each.key
            rows.append([shown, *(cell(rounds.get(f"{each.key}: {scene}", [])) for scene in SCENES)])
    told.text += "\n" + markdown.table(["", *SCENES.values()], rows)
    return told


def cell(rounds: list[Round]) -> str:
    runs = told_range(values(rounds, "runs"))
    if not runs:
        return reason(rounds)
    said = f"{runs} run{'' if runs == '1' else 's'}"
    if stopped := [each["stopped"] for each in rounds if "stopped" in each]:
        return f"{said}; {stopped[0]}"
    lost = told_range(values(rounds, "failed_calls"))
    return f"{said}; {lost} failed; {told_duration(middle(rounds, 'us'))}"
