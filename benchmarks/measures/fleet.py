"""Memory: a client per cluster, for a thousand clusters, in one process."""

from __future__ import annotations

from benchmarks import figures, markdown
from benchmarks.results import Results
from benchmarks.stage import Round, Rounds, Stage
from benchmarks.subjects import Subject
from benchmarks.telling import Told, comparison, told_duration

LIMIT = 300.0


def measure(stage: Stage) -> Rounds:
    subjects = [each for each in stage.subjects if each.imports or each.colour == "go"]
    token = {"token": stage.server.token(stage.new_run(lifetime=86400.0))}
    # A file each, since some keep a client per path, and a CA each, since some keep connections per CA.
    # JSON is YAML too, and httpx can be told with nothing else.
    kubeconfigs = [
        stage.server.kubeconfig(f"cluster-{number}.json", token) for number in range(stage.sizes.clusters + 1)
    ]
    return stage.measure(
        "fleet", subjects, stage.sizes.fleet_rounds, lambda subject: one(stage, subject, kubeconfigs)
    )


def one(stage: Stage, subject: Subject, kubeconfigs: list[str]) -> Round:
    first, *others = kubeconfigs
    with stage.worker(subject) as worker:
        worker.order("open", kubeconfig=first)
        worker.order("ask")
        answer = worker.order("fleet", kubeconfigs=others, limit=LIMIT)
    return {"kib": answer["bytes"] / 1024 / len(others), "us": answer["us"] / len(others)}


def tell(results: Results) -> Told:
    rounds = results.found["fleet"]
    clusters = f"{results.sizes['clusters']:,.0f}"
    told = Told(
        markdown.prose(f"""
        {clusters} clusters, each with a kubeconfig of its own and a static token; a client for each, which
        has asked once and keeps its connection. By how much the process has grown since the first, and how
        long it took, per cluster. Ratios are of memory, to kubeauth: below 1 is less.
        """)
    )
    rows = comparison(
        results,
        rounds,
        told,
        shows={"kib": told_kib, "us": told_duration},
        compares="kib",
        base="kubeauth sync",
        what="memory per cluster",
    )
    told.text += "\n" + markdown.table(["", "memory", "opened and asked in", "ratio"], rows)
    return told


def told_kib(value: float | None) -> str:
    return "" if value is None else f"{figures.number(value)} KiB"
