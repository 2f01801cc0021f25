"""Requests a second, and how long one takes, with a credential at hand and connections open."""

from __future__ import annotations

from benchmarks import figures, markdown
from benchmarks.process import Failed, Worker
from benchmarks.results import Results
from benchmarks.stage import Kept, Round, Rounds, Sizes, Stage
from benchmarks.subjects import DIRECT, Subject
from benchmarks.telling import (
    Told,
    failures,
    is_ahead,
    middle,
    ratio,
    reason,
    told_duration,
    told_number,
    told_ratio,
)

CALLERS = (1, 64)
AGAIN = "httpx again"


def measure(stage: Stage) -> Rounds:
    run = stage.new_run()

    def prepare(subject: Subject, worker: Worker) -> None:
        worker.order("open", kubeconfig=stage.kubeconfig(subject, run))
        worker.order("ask")

    with Kept(stage, prepare) as workers:
        return stage.measure(
            "warm",
            stage.subjects,
            stage.sizes.warm_rounds,
            lambda subject: one(workers[subject], stage.sizes),
        )


def one(worker: Worker, sizes: Sizes) -> Round:
    found: Round = {"failures": {}}
    for callers in CALLERS:
        # Some close what was idle for five seconds: whoever waited for its turn connects again, unmeasured.
        worker.order("warm", callers=callers, seconds=sizes.settle_seconds)
        answer = worker.order("warm", callers=callers, seconds=sizes.warm_seconds)
        latencies: list[int] = answer["latencies"]
        if not latencies:
            raise Failed(max(answer["failures"], default="nothing"))
        found["failures"] |= answer["failures"]
        found[f"rate_{callers}"] = len(latencies) / answer["us"] * 1e6
        found[f"p50_{callers}"] = figures.percentile(latencies, 0.5)
        found[f"p99_{callers}"] = figures.percentile(latencies, 0.99)
    return found


def tell(results: Results) -> Told:
    rounds = results.found["warm"]
    told = Told(
        markdown.prose(f"""
        A credential from the plugin is at hand, connections are kept. Each caller asks again as soon as it
        has its answer, for {results.sizes["warm_seconds"]:g} s a round. Ratios are of requests a second, to
        kubeauth's of the same colour in the same round: above 1 is faster than kubeauth. client-go has no
        colour, and stands in both tables. `{AGAIN}` is plain httpx once more: what those two differ by is
        noise. **{DIRECT}** is [a faster transport](transports.md) below the client. pykube-ng runs the plugin
        with each request.
        """)
    )
    told.text += not_the_server(results)
    for colour in ("sync", "async"):
        rows = []
        for each in results.of_colour(colour):
            mine = rounds[each.key]
            row = [each.shown]
            for callers in CALLERS:
                found = ratio(rounds, each.key, f"kubeauth {colour}", f"rate_{callers}")
                who = "1 caller" if callers == 1 else f"{callers} callers"
                if not each.is_ours and each.name != AGAIN:
                    for ours, beside in (("kubeauth", ""), (DIRECT, f", beside {DIRECT}")):
                        theirs = ratio(rounds, each.key, f"{ours} {colour}", f"rate_{callers}")
                        if theirs and is_ahead(theirs, more_is_better=True):
                            told.ahead(f"requests a second, {who}, {colour}{beside}", each.name, theirs)
                row += [
                    told_number(middle(mine, f"rate_{callers}")),
                    told_ratio(found),
                    told_duration(middle(mine, f"p50_{callers}")),
                    told_duration(middle(mine, f"p99_{callers}")),
                ]
            rows.append([*row, reason(mine) or failures(mine)])
        head = [colour]
        for callers in CALLERS:
            who = "1 caller" if callers == 1 else f"{callers} callers"
            head += [f"{who}: req/s", "ratio", "p50", "p99"]
        told.text += "\n" + markdown.table([*head, "failures"], rows)
    return told


def not_the_server(results: Results) -> str:
    """What the server can do, where somebody has shown it."""
    rates = [
        middle(results.found["warm"][each.key], f"rate_{CALLERS[-1]}")
        for each in results.listed
        if each.colour == "go"
    ]
    if not rates or rates[0] is None:
        return ""
    return "\n" + markdown.prose(f"""
        The server has answered client-go {figures.number(rates[0])} times a second while both shared these
        cores: it is not what holds the others back.
        """)
