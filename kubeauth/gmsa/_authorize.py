"""The authorizer: whether a new pod may have what it names (B36-B47); what no update changes (B48-B52)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias, overload

from kubeauth.errors import ConfigError
from kubeauth.gmsa._credspec import mismatch
from kubeauth.gmsa._decision import ALLOWED, STRICT, Decision, Policy, denied
from kubeauth.gmsa._driver import Lookup, Reviewer, settled
from kubeauth.gmsa._places import Place, Pod, pod_of
from kubeauth.gmsa._steps import Questions, Steps, User, bad_name, refused_outright
from kubeauth.gmsa._words import is_namespace, quoted, with_reason


@overload
def authorize(
    pod: Mapping[str, object],
    *,
    namespace: str,
    lookup: Lookup,
    review: Reviewer,
    user: User | None = None,
    policy: Policy = STRICT,
) -> Decision: ...
@overload
def authorize(
    pod: Mapping[str, object], *, old_pod: Mapping[str, object], policy: Policy = STRICT
) -> Decision: ...
def authorize(
    pod: Mapping[str, object],
    *,
    old_pod: Mapping[str, object] | None = None,
    namespace: str = "",
    lookup: Lookup | None = None,
    review: Reviewer | None = None,
    user: User | None = None,
    policy: Policy = STRICT,
) -> Decision:
    """Whether a pod may have the credential specs that it names.

    A new pod needs a service account that may `use` each of them, as `review` says, and contents that are
    those that `lookup` finds (see `expand`). Who creates the pod is `user`, which counts if the policy says
    so. With `old_pod` it is an update: nobody is asked, and nothing about credential specs may change.
    """
    found = pod_of(pod, policy)
    if isinstance(found, Decision):
        return found
    if old_pod is not None:
        before = pod_of(old_pod, policy)
        return before if isinstance(before, Decision) else update(found, before, policy)
    if lookup is None or review is None:
        raise ConfigError(
            "authorize needs namespace=, lookup= and review= for a new pod, old_pod= for an update."
        )
    return settled(creation(found, namespace, user, policy), lookup, review)


def creation(pod: Pod, namespace: str, user: User | None, policy: Policy) -> Steps[Decision]:
    """Whether a new pod is admitted. No I/O here."""
    if refused := refused_outright(pod):
        return refused
    questions = Questions(policy)
    for place in pod.places:
        if place.name is None:
            if place.contents is not None:
                return denied(422, _without_name(place))
            continue
        if refused := bad_name(place, policy) or _nowhere(namespace) or _by_nobody(user, policy):
            return refused
        for whose, asking in _users(pod, namespace, user, policy):
            verdict = yield from questions.verdict(asking, namespace, place.name)
            if not verdict.allowed:
                return denied(403, _may_not(whose, place, verdict.reason))
        if place.contents is not None:
            credspec = yield from questions.credspec(place.name)
            if isinstance(credspec, Decision):
                return credspec
            if reason := mismatch(place.contents, credspec):
                return denied(422, _no_match(place, reason))
    return ALLOWED


def _users(pod: Pod, namespace: str, user: User | None, policy: Policy) -> list[tuple[str, User]]:
    """Who must be allowed, and what they are called."""
    name = pod.service_account
    if not policy.compat:
        name = name or "default"  # as the API server has it, before it asks a webhook (B46)
    account = User(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )
    users = [(f"service account {quoted(name)} of namespace {quoted(namespace)}", account)]
    if policy.check_requesting_user and user is not None:
        users.append((f"user {quoted(user.name)}, who creates the pod,", user))
    return users


def _nowhere(namespace: str) -> Decision | None:
    # It becomes part of a path.
    return None if is_namespace(namespace) else denied(400, "the pod must be in a namespace")


def _by_nobody(user: User | None, policy: Policy) -> Decision | None:
    if not policy.check_requesting_user or (user is not None and user.name):
        return None
    return denied(
        400, "it must be said who creates the pod: whether they may use its credential specs is checked"
    )


def _may_not(whose: str, place: Place, reason: str) -> str:
    what = f"{whose} is not allowed to `use` GMSACredentialSpec {_spec(place)}, which {place.words} names"
    return f"{with_reason(what, reason)}. Bind a role with that verb to it, in this namespace."


def _without_name(place: Place) -> str:
    return (
        f"{place.words} has the contents of a GMSA credential spec without its name. Give the name, and "
        "leave the contents out: they will be filled in."
    )


def _no_match(place: Place, reason: str) -> str:
    return (
        f"the contents of the GMSA credential spec in {place.words} do not match those of GMSACredentialSpec "
        f"{_spec(place)}: {reason}. Leave them out: they will be filled in."
    )


def _spec(place: Place) -> str:
    return quoted(place.name or "")


_Key: TypeAlias = tuple[str, str, int]


def update(pod: Pod, old: Pod, policy: Policy) -> Decision:
    """Nothing about credential specs may change, or be removed. Nobody is asked (B48-B51)."""
    now, before = _by_key(pod), _by_key(old)
    # The shipped webhook looks at what the new pod has, and so never at what is gone (B50).
    visited = [key for key, place in now.items() if place.has_options] if policy.compat else {**now, **before}
    for key in visited:
        place = now.get(key) or before[key]
        if changed := _changed(now.get(key), before.get(key)):
            return denied(
                policy.changed_code,
                f"the {changed} of the GMSA credential spec in {place.words} cannot be changed, added or "
                "removed. Create another pod.",
            )
    return ALLOWED


def _by_key(pod: Pod) -> dict[_Key, Place]:
    """Containers by name, not by index. Should two have the same, each is compared with its like."""
    times: Counter[tuple[str, str]] = Counter()
    found: dict[_Key, Place] = {}
    for place in (*pod.places, *pod.strays):
        whose = (place.level, "" if place.level == "pod" else place.resource)
        found[*whose, times[whose]] = place
        times[whose] += 1
    return found


def _changed(now: Place | None, before: Place | None) -> str:
    """What differs, in words. What is null differs from what is empty, and contents are compared as text."""
    name = (now and now.name) != (before and before.name)
    contents = (now and now.contents) != (before and before.contents)
    return " and ".join(word for word, differs in (("name", name), ("contents", contents)) if differs)
