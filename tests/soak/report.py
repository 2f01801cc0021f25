"""What a soak has to say: a table for people, and a verdict for who runs it."""

from __future__ import annotations

from dataclasses import dataclass

import kubeauth
from tests.soak.gauges import JUDGED_FROM
from tests.soak.run import PLACES, Soak
from tests.soak.verdict import OURS, THEIRS


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: str
    note: str = ""
    is_bad: bool = False


def rows(soak: Soak, *, at_end: bool = False) -> list[Row]:
    """The table. What grows, and what is lost, can only be told at its end."""
    told = _requests(soak) + _plugin(soak) + _watches(soak, at_end=at_end)
    return told + (_residue(soak) if at_end else _gauges(soak))


def faults(soak: Soak) -> list[str]:
    """Everything that is ours, in words. None, and the soak was a success."""
    found = [f"{row.name}: {row.value} {row.note}" for row in rows(soak, at_end=True) if row.is_bad]
    if soak.killer.problem:
        found.append(f"the API server did not come back: {soak.killer.problem}")
    return (
        found + soak.tally.ours + soak.audit.stale[:20] + soak.audit.unknown[:20] + soak.lost[:20] + soak.left
    )


def _requests(soak: Soak) -> list[Row]:
    tally, audit = soak.tally, soak.audit
    rate = tally.requests / max(soak.elapsed, 1.0)
    told = [Row("requests", f"{tally.requests:,}", f"{rate:.1f}/s from {2 * len(PLACES)} callers")]
    for whose in (*THEIRS, OURS):
        kinds = ", ".join(
            f"{kind} {count}"
            for (fault, kind), count in sorted(tally.kinds.items(), key=lambda each: -each[1])
            if fault == whose
        )
        name = "  failed: OURS" if whose == OURS else f"  failed: {whose}"
        told.append(Row(name, f"{tally.failed[whose]:,}", kinds, whose == OURS and tally.failed[whose] > 0))
    others = tally.ours_count - tally.failed[OURS]
    return [
        *told,
        Row("  given up by the caller", f"{tally.cancelled:,}", "cancelled in the middle, on purpose"),
        Row("unexpected besides", f"{others:,}", "errors logged, threads that died, warnings", others > 0),
        Row(
            "sockets left to the collector",
            f"{tally.unclosed:,}",
            f"by httpx, when given up in a handshake; {tally.generators} generators of its on trio",
            tally.unclosed > tally.cancelled,
        ),
        Row(
            "slowest", f"{tally.slowest_calm:.2f} s", f"{tally.slowest:.2f} s with restarts and quiet watches"
        ),
        Row(
            "server saw",
            f"{audit.requests:,}",
            f"its audit log: 401s {audit.refused}, unknown credentials {len(audit.unknown)}; the latest came "
            f"{audit.latest:.1f} s after its credential's end",
            bool(audit.unknown),
        ),
        Row(
            "  signed with one that was over",
            f"{len(audit.stale):,}",
            "begun after the end of the credential that it came with",
            bool(audit.stale),
        ),
        Row("API server killed", f"{soak.killer.kills:,}"),
        Row("connections cut", f"{soak.proxy.cuts:,}"),
    ]


def _plugin(soak: Soak) -> list[Row]:
    plugins = soak.plugins
    outcomes = dict(plugins.outcomes)
    failed, hung = outcomes.get("fails", 0), outcomes.get("hangs", 0)
    return [
        Row("plugin runs", f"{sum(outcomes.values()):,}", f"{failed} made to fail, {hung} made to hang"),
        Row("  two at once", f"{plugins.at_once:,}", "for one user", plugins.at_once > 0),
        Row("renewals", "", ", ".join(_renewals())),
    ]


def _renewals() -> list[str]:
    told: dict[str, list[str]] = {}
    for family in kubeauth.metrics.Collector().collect():
        for sample in family.samples:
            if sample.name == "kubeauth_credential_refreshes_total" and sample.value:
                told.setdefault(sample.labels["reason"], []).append(
                    f"{sample.value:.0f} {sample.labels['result']}"
                )
    return [f"{reason} {' / '.join(results)}" for reason, results in told.items()]


def _watches(soak: Soak, *, at_end: bool) -> list[Row]:
    watches = soak.ledger.watches
    twice = sum(each.duplicates for each in watches)
    relists = sum(each.relists for each in watches)
    note = f"on {len(watches)} watches; {relists} times the server had forgotten, and was listed again"
    return [
        Row("watch events", f"{sum(each.events for each in watches):,}", note),
        Row("  lost", f"{len(soak.lost):,}" if at_end else "", "", bool(soak.lost)),
        Row("  twice", f"{twice:,}", "", twice > 0),
    ]


def _gauges(soak: Soak) -> list[Row]:
    latest = zip(soak.gauges.NAMES, soak.gauges.latest(), strict=True)
    return [Row(name, f"{value:.0f}") for name, value in latest]


def _residue(soak: Soak) -> list[Row]:
    """Early and late while it ran; then what is left when every client is closed."""
    is_judged = soak.plan.seconds >= JUDGED_FROM and not soak.was_interrupted
    told: list[Row] = []
    for each in soak.gauges.growth():
        note = f"{each.early:.0f} early on, may be {each.allowed:.0f}"
        if not is_judged:
            note += f"; not judged under {JUDGED_FROM:g} s"
        told.append(Row(each.name, f"{each.late:.0f}", note, is_judged and each.is_too_much))
    alive, most = soak.contexts
    told.append(Row("TLS contexts alive", f"{alive}", f"may be {most}", alive > most))
    left = "; ".join(soak.left) or "as before: descriptors, threads, children, temporary files, TLS contexts"
    told.append(Row("left behind", f"{len(soak.left)}", left, bool(soak.left)))
    return told
