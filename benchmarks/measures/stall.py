"""How long an event loop stands still while a plugin runs."""

from __future__ import annotations

from benchmarks import markdown
from benchmarks.process import Worker
from benchmarks.results import Results
from benchmarks.stage import Kept, Rounds, Stage
from benchmarks.subjects import Subject
from benchmarks.telling import Told, middle, reason, told_duration, values

BEAT = 0.002
DELAYS = {"control": 0.0, "longest": 1.0}


def measure(stage: Stage) -> Rounds:
    subjects = [each for each in stage.subjects if each.signs and each.colour == "async"]

    def prepare(_subject: Subject, worker: Worker) -> None:
        once(stage, worker, 0.0)  # what is imported or built with the first client of a process

    with Kept(stage, prepare) as workers:
        return stage.measure(
            "stall",
            subjects,
            stage.sizes.stall_rounds,
            lambda subject: {name: once(stage, workers[subject], delay) for name, delay in DELAYS.items()},
        )


def once(stage: Stage, worker: Worker, delay: float) -> int:
    kubeconfig = stage.server.with_plugin(stage.new_run(delay=delay))
    longest: int = worker.order("stall", kubeconfig=kubeconfig, beat=BEAT)["longest"]
    return longest


def tell(results: Results) -> Told:
    rounds = results.found["stall"]
    told = Told(
        markdown.prose(f"""
        A client is opened and asked once, on a loop on which another task wants to run every {BEAT * 1e3:g}
        ms: the longest that it had to wait beyond that. With a plugin that answers at once (what opening a
        client takes), and with one that takes a second.
        """)
    )
    rows = [
        [
            each.shown,
            told_duration(middle(rounds[each.key], "control")),
            reason(rounds[each.key]) or told_duration(middle(rounds[each.key], "longest")),
            " - ".join(told_duration(edge(values(rounds[each.key], "longest"))) for edge in (min, max))
            if values(rounds[each.key], "longest")
            else "",
        ]
        for each in results.listed
        if each.key in rounds
    ]
    told.text += "\n" + markdown.table(["async", "plugin of 0 s", "plugin of 1 s", "least - most"], rows)
    return told
