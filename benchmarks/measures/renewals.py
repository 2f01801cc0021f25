"""One caller in a process that outlives its credential three times: what it waits for, and what fails."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks import figures, markdown
from benchmarks.results import Results
from benchmarks.stage import Round, Rounds, Stage
from benchmarks.subjects import Subject
from benchmarks.telling import (
    Told,
    failures,
    is_ahead,
    middle,
    ratio,
    reason,
    told_duration,
    told_range,
    told_ratio,
    values,
)

LIFETIME = 3.0
PLUGIN_SECONDS = 1.0
PAUSE = 0.008
# Half of a lifetime passes before kubeauth renews, since two runs must fit into the rest.
CONTROL_EVERY = (LIFETIME + 0.5) / 2
SLOW = 0.1
# How long a point of the picture stands for.
BUCKET = 0.05

CONTROL = "static token"
ON_EXPIRY = "kubeauth, renewing on expiry"


@dataclass(frozen=True, slots=True)
class Turn:
    name: str
    subject: Subject

    def __str__(self) -> str:
        return self.name


def one_of_each(subjects: list[Subject]) -> list[Turn]:
    """The first that a package has to offer, and its first on another transport: that will do."""
    first: dict[tuple[str, str], Turn] = {}
    for each in subjects:
        if each.signs:
            first.setdefault((each.package, each.transport), Turn(each.name, each))
    return list(first.values())


def tokens(stage: Stage) -> Rounds:
    turns = one_of_each(stage.subjects)
    if turns and (ours := turns[0].subject).is_ours:
        beside = [Turn(CONTROL, ours), Turn(ON_EXPIRY, replace(ours, face="sync_on_expiry"))]
        turns = [beside[0], turns[0], beside[1], *turns[1:]]
    return measure(stage, turns, "token", stage.sizes.renewal_rounds)


def certificates(stage: Stage) -> Rounds:
    return measure(stage, one_of_each(stage.subjects), "certificate", stage.sizes.certificate_rounds)


def measure(stage: Stage, turns: list[Turn], kind: str, count: int) -> Rounds:
    rounds = stage.measure(
        f"renewals, {kind}",
        turns,
        count,
        lambda turn: one(stage, turn, kind),
        at_once=stage.sizes.at_once,
    )
    for mine in rounds.values():
        for later in mine[1:]:
            later.pop("series", None)  # one of them is drawn
    return rounds


def one(stage: Stage, turn: Turn, kind: str) -> Round:
    run = stage.new_run(kind=kind, lifetime=LIFETIME, delay=PLUGIN_SECONDS)
    order: Round = {"seconds": stage.sizes.renewal_seconds, "pause": PAUSE}
    kubeconfig = stage.server.with_plugin(run)
    if turn.name == CONTROL:
        kubeconfig = stage.server.with_token(stage.new_run(lifetime=86400.0))
        order |= {"beside": stage.server.plugin_command(run), "every": CONTROL_EVERY}
    with stage.worker(turn.subject) as worker:
        worker.order("open", kubeconfig=kubeconfig)
        worker.order("ask")
        answer = worker.order("steady", **order, limit=stage.sizes.renewal_seconds + 30)
    latencies = [took for _, took, _ in answer["samples"]]
    return {
        "requests": len(latencies),
        "p50": figures.percentile(latencies, 0.5),
        "p99": figures.percentile(latencies, 0.99),
        "p99.9": figures.percentile(latencies, 0.999),
        "slow": sum(took >= SLOW * 1e6 for took in latencies),
        "failures": answer["failures"],
        "failed_calls": sum(answer["failures"].values()),
        "runs": stage.server.counts(run).issued,
        "series": series(answer["samples"]),
    }


def series(samples: list[tuple[int, int, int]]) -> list[list[int]]:
    """Of each twentieth of a second: when (ms), its slowest request (us), and how many failed."""
    buckets: dict[int, list[int]] = {}
    for start, took, failed in samples:
        number = int(start / 1e6 / BUCKET)
        bucket = buckets.setdefault(number, [round(number * BUCKET * 1e3), 0, 0])
        bucket[1] = max(bucket[1], took)
        bucket[2] += failed
    return list(buckets.values())


def tell_tokens(results: Results) -> Told:
    told = Told(
        markdown.prose(f"""
        One caller, which waits {PAUSE * 1e3:g} ms between an answer and its next request, for
        {results.sizes["renewal_seconds"]:g} s. Tokens live for {LIFETIME:g} s, rounded up to a whole
        second; the server refuses them from then on; the plugin takes {PLUGIN_SECONDS:g} s. In 15 s a
        client that renews on expiry outlives three of them. Rounds: {results.sizes["renewal_rounds"]:.0f}.

        - `{CONTROL}` is kubeauth with a token that stays, while the same plugin is started in the same
        process at the same pace and not listened to: what that costs on this machine.
        - `{ON_EXPIRY}` is kubeauth with `ExecOptions(refresh_ahead=False)`.
        - kubernetes asks for a new token in the last five minutes of each, httpx2-k8s in the last ten
        seconds: with tokens as short as these, that is with each request.
        - `slow` counts requests that took {SLOW * 1e3:g} ms or more. Who waits asks nothing meanwhile: a
        client that runs the plugin with each request has few requests, all slow.
        - Failed requests are requests too, and most are quick. Ratios are of p99.9, to kubeauth's: above 1
        is slower.
        """)
    )
    told.text += table(results, results.found["renewals"], told, "token")
    return told


def tell_certificates(results: Results) -> Told:
    told = Told(
        markdown.prose(f"""
        The same with client certificates. The server looks at the end of the certificate with each request,
        as kube-apiserver does: that a connection is kept does not make it last longer. Rounds:
        {results.sizes["certificate_rounds"]:.0f}.
        """)
    )
    told.text += table(results, results.found["certificates"], told, "certificate")
    return told


def table(results: Results, rounds: Rounds, told: Told, kind: str) -> str:
    ours = {each.name for each in results.listed if each.is_ours}
    rows = []
    for name, mine in rounds.items():
        if why := reason(mine):
            rows.append([name, *[""] * 6, why, ""])
            continue
        found = ratio(rounds, name, "kubeauth", "p99.9")
        is_rival = name not in {*ours, CONTROL, ON_EXPIRY} and not any(values(mine, "failed_calls"))
        if found and is_rival and is_ahead(found, more_is_better=False):
            told.ahead(f"p99.9 while a {kind} is renewed", name, found)
        rows.append([
            f"**{name}**" if name in {*ours, ON_EXPIRY} else name,
            told_range(values(mine, "requests")),
            told_duration(middle(mine, "p50")),
            told_duration(middle(mine, "p99")),
            told_duration(middle(mine, "p99.9")),
            told_ratio(found),
            told_range(values(mine, "slow")),
            failures(mine),
            told_range(values(mine, "runs")),
        ])  # fmt: skip
    head = ["", "requests", "p50", "p99", "p99.9", "ratio", "slow", "failures, all rounds", "plugin runs"]
    return "\n" + markdown.table(head, rows)
