"""What becomes of a new pod: of all of it, and of each place in it that can name a credential spec. Pure.

The webhook stops at the first thing that is wrong. Whoever mends a pod wants to see them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from kubeauth.gmsa._authorize import creation
from kubeauth.gmsa._credspec import MAX_CONTENTS, is_too_long
from kubeauth.gmsa._decision import ALLOWED, STRICT, Decision, Policy, denied
from kubeauth.gmsa._effective import decides
from kubeauth.gmsa._expand import expansion, new_hostname
from kubeauth.gmsa._places import Place, Pod, pod_of
from kubeauth.gmsa._steps import Steps, bad_name, refused_outright

Contents = Literal["filled in", "given"]


@dataclass(frozen=True, slots=True)
class PlaceOutcome:
    """What becomes of one place: the pod itself, or a container. Printing it hides the contents."""

    place: Place
    """With its contents, if they were filled in."""
    decision: Decision
    """As if this place alone counted."""
    contents: Contents | None
    """Where they come from; None if it has none of its own."""
    runs_with: Place | None = field(repr=False)
    """The place whose credential spec this container runs with: its own or the pod's (B62). None for none."""
    is_looked_at: bool = True
    """Not by the webhook of kubernetes-sigs, if it is an init or an ephemeral container (B15)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a pod."""

    decision: Decision
    """What the API server would be told: the first thing that is wrong, or that it is admitted."""
    places: tuple[PlaceOutcome, ...]
    """The first is the pod itself."""
    service_account: str = ""
    has_new_hostname: bool = False


def outcome(
    document: object, namespace: str, policy: Policy, hostname: Callable[[], str] = new_hostname
) -> Steps[Outcome]:
    """Expander, API server and authorizer, one after the other. No I/O here."""
    pod, everything = pod_of(document, policy), pod_of(document, replace(policy, compat=False))
    if isinstance(pod, Decision) or isinstance(everything, Decision):
        # They are the same denial: whatever the policy, a pod is validated as a whole, as in Go.
        return Outcome(pod if isinstance(pod, Decision) else cast(Decision, everything), ())
    # The API server fills it in before it asks anybody (B46).
    account = everything.service_account or "default"
    pod = replace(pod, service_account=account)
    decision, expanded, has_new_hostname = yield from _decided(pod, namespace, policy, hostname)
    if refused_outright(pod):
        return Outcome(decision, (), account)
    of_pod, visited = expanded.places[0], {place.path for place in pod.places}
    places: list[PlaceOutcome] = []
    for before in everything.places:
        own, place = _unfit(before, pod.spec.os.name, policy) or ALLOWED, before
        if before.path in visited:
            alone = replace(pod, places=(before,))
            own, after, _ = yield from _decided(alone, namespace, policy, hostname)
            place = after.places[0]
        elif decision.allowed:
            decision = own  # nobody else looks at it, and the API server does
        source: Contents = "given" if place == before else "filled in"
        runs_with = place if decides(place, policy.mode) else of_pod
        places.append(
            PlaceOutcome(
                place,
                own,
                None if place.contents is None else source,
                None if before.level == "pod" or not runs_with.contents else runs_with,
                before.path in visited,
            )
        )
    return Outcome(decision, tuple(places), account, has_new_hostname)


def _decided(
    pod: Pod, namespace: str, policy: Policy, hostname: Callable[[], str]
) -> Steps[tuple[Decision, Pod, bool]]:
    """What is decided, the pod after that, and whether it gets a hostname."""
    mutated = yield from expansion(pod, policy, hostname)
    values = {each["path"]: each["value"] for each in mutated.patch}
    places = tuple(replace(place, contents=values.get(place.path, place.contents)) for place in pod.places)
    expanded = replace(pod, places=places)
    if mutated.allowed:
        # The API server looks at a pod before it asks who only validates.
        unfit = next(filter(None, (_unfit(place, pod.spec.os.name, policy) for place in places)), None)
        decision = unfit or (yield from creation(expanded, namespace, None, policy))
    else:
        decision = mutated
    return decision, expanded, "/spec/hostname" in values


def _unfit(place: Place, os: str, policy: Policy) -> Decision | None:
    """What the API server itself refuses about the fields of a place (B13)."""
    if policy.mode == "alpha":
        return None
    if os == "linux" and place.has_options:
        return denied(422, f"{place.words} has windowsOptions, and spec.os.name of the pod is linux")
    if place.name is not None and (refused := bad_name(place, STRICT)):
        return refused
    if place.contents == "":
        return denied(422, f"the contents of the GMSA credential spec in {place.words} are empty")
    if place.contents is not None and is_too_long(place.contents):
        return denied(
            422,
            f"the contents of the GMSA credential spec in {place.words} are longer than {MAX_CONTENTS} bytes",
        )
    return None
