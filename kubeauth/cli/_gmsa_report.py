"""What becomes of a pod, for people and for programs. Contents of credential specs are in neither. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubeauth._parsing import Json
from kubeauth.cli._tables import cell, facts, fitted
from kubeauth.gmsa._decision import Decision
from kubeauth.gmsa._explain import Outcome, PlaceOutcome
from kubeauth.gmsa._lint import CredSpecReport

if TYPE_CHECKING:
    from kubeauth.errors import Problem

_NONE = "-"
_NO_NAME = "<no name>"


@dataclass(frozen=True, slots=True)
class Checked:
    """A pod that was looked at."""

    of: str
    namespace: str
    outcome: Outcome
    was_asked: bool
    """Whether the API server said who may use what."""


def as_text(checked: Checked, specs: Mapping[str, CredSpecReport], width: int | None) -> str:
    """Facts about the pod; a row for each place in it; below that what is wrong with which."""
    outcome = checked.outcome
    about = [
        ("Pod", cell(checked.of)),
        ("Namespace", cell(checked.namespace)),
        ("Runs as", f"service account {cell(outcome.service_account)}" if outcome.service_account else _NONE),
        ("Decision", _decision(outcome.decision)),
    ]
    if outcome.has_new_hostname:
        about.append(("Hostname", "a random one"))
    parts = [facts(about, width)]
    if outcome.places:
        parts.append(fitted(_rows(outcome), width))
    if remarks := list(_remarks(checked, specs)):
        parts.append(facts(remarks, width))
    return "\n".join(parts)


def as_document(checked: Checked, specs: Mapping[str, CredSpecReport]) -> Json:
    """For CI: the keys are stable, more may come."""
    outcome = checked.outcome
    return {
        "pod": checked.of,
        "namespace": checked.namespace,
        "serviceAccount": outcome.service_account or None,
        **_verdict(outcome.decision),
        "rightsAsked": checked.was_asked,
        "randomHostname": outcome.has_new_hostname,
        "places": [
            {
                "level": each.place.level,
                "name": each.place.resource,
                "credentialSpecName": each.place.name,
                "contents": each.contents,
                "lookedAt": each.is_looked_at,
                **_verdict(each.decision),
                "runsWith": _identity(each) if outcome.decision.allowed and _is_container(each) else None,
            }
            for each in outcome.places
        ],
        "credentialSpecs": [
            {
                "name": name,
                "errors": [_finding(each) for each in specs[name].errors],
                "warnings": [_finding(each) for each in specs[name].warnings],
            }
            for name in _named(outcome)
            if name in specs
        ],
    }


def _decision(decision: Decision) -> str:
    return "admitted" if decision.allowed else f"denied ({decision.code}): {decision.message}"


def _rows(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    yield "WHERE", "NAMES", "CONTENTS", "DECISION", "RUNS WITH"
    for each in outcome.places:
        place = each.place
        yield (
            cell("the pod" if place.level == "pod" else f"{place.level} {place.resource}"),
            _NONE if place.name is None else cell(place.name) or _NO_NAME,
            each.contents or _NONE,
            _short(each),
            _runs_with(each, outcome.decision),
        )


def _short(each: PlaceOutcome) -> str:
    if not each.is_looked_at:
        return "not looked at"
    return "ok" if each.decision.allowed else f"denied ({each.decision.code})"


def _runs_with(each: PlaceOutcome, decision: Decision) -> str:
    if not decision.allowed or not _is_container(each):
        return _NONE  # it does not run; or is none that does
    name = _identity(each)
    if name is None:
        return "no identity"
    assert each.runs_with is not None  # noqa: S101 -- else it has none
    return cell(name) + ("" if each.runs_with is each.place else ", the pod's")


def _identity(each: PlaceOutcome) -> str | None:
    """The name of the credential spec that it runs with."""
    return None if each.runs_with is None else each.runs_with.name or _NO_NAME


def _is_container(each: PlaceOutcome) -> bool:
    return each.place.level != "pod"


def _remarks(checked: Checked, specs: Mapping[str, CredSpecReport]) -> Iterator[tuple[str, str]]:
    outcome = checked.outcome
    told = outcome.decision.message
    for each in outcome.places:
        if not each.decision.allowed and each.decision.message != told:  # the first one is told above
            yield "Denied, too", each.decision.message
    for name in _named(outcome):
        report = specs.get(name, CredSpecReport())
        for level, problems in (("Error", report.errors), ("Warning", report.warnings)):
            for problem in problems:
                yield f"{level} in {cell(name)}", f"{_words(problem)}. {problem.hint}"
    if any(not each.is_looked_at and each.contents for each in outcome.places):
        yield (
            "Warning",
            "contents in init and ephemeral containers count, and nobody looks at them (--compat)",
        )
    if not checked.was_asked and _named(outcome):
        yield "Not asked", "whether the service account may use them: --specs asks no cluster"


def _named(outcome: Outcome) -> list[str]:
    """The credential specs that it names, each once."""
    return list(dict.fromkeys(each.place.name for each in outcome.places if each.place.name))


def _verdict(decision: Decision) -> dict[str, Json]:
    return {"allowed": decision.allowed, "code": decision.code, "message": decision.message}


def _finding(problem: Problem) -> Json:
    return {"problem": _words(problem), "hint": problem.hint}


def _words(problem: Problem) -> str:
    """Names of members are strangers' words."""
    return cell(f"{problem.field}: {problem.message}" if problem.field else problem.message)
