"""What must be known to decide, as steps that somebody else takes: no I/O here.

Decisions are generators. They yield a step, whoever drives them does what it says and writes the answer
into it, and in the end they return a `Decision`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from kubeauth._parsing import DocumentError, copy_plain
from kubeauth.gmsa._credspec import CredSpec, credspec_of
from kubeauth.gmsa._decision import Decision, Policy, denied
from kubeauth.gmsa._places import MAX_SPECS, Place, Pod
from kubeauth.gmsa._words import is_object_name, quoted, with_reason


@dataclass(frozen=True, slots=True)
class User:
    """Who wants to use a credential spec."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether they may."""

    allowed: bool
    reason: str = ""
    """In the words of the authoriser, or why it could not be asked (B59)."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why a credential spec could not be looked up. That it does not exist is None instead."""

    reason: str


Answer: TypeAlias = Mapping[str, object] | Unavailable | None
"""A GMSACredentialSpec, whole, as the API server has it."""


@dataclass(slots=True)
class Fetch:
    """Look up a credential spec."""

    name: str
    answer: Answer = field(init=False, repr=False, compare=False)


@dataclass(slots=True)
class Review:
    """Ask whether a user may use a credential spec, in a namespace (B58)."""

    user: User
    namespace: str
    name: str
    verdict: Verdict = field(init=False, repr=False, compare=False)


Step: TypeAlias = Fetch | Review
T = TypeVar("T")
Steps: TypeAlias = Generator[Step, None, T]


class Questions:
    """Asks each thing once for one decision, and for no other: who loses a right loses it at once (B57)."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._specs: dict[str, CredSpec | Decision] = {}
        self._verdicts: dict[tuple[User, str, str], Verdict] = {}

    def verdict(self, user: User, namespace: str, name: str) -> Steps[Verdict]:
        key = (user, namespace, name)
        if key not in self._verdicts:
            review = Review(*key)
            yield review
            self._verdicts[key] = review.verdict
        return self._verdicts[key]

    def credspec(self, name: str) -> Steps[CredSpec | Decision]:
        """What a credential spec has in it, or a denial (B54-B56)."""
        if name not in self._specs:
            self._specs[name] = yield from self._fetched(name)
        return self._specs[name]

    def _fetched(self, name: str) -> Steps[CredSpec | Decision]:
        spec = f"GMSACredentialSpec {quoted(name)}"
        if not name:
            # Whose path would be that of all. So client-go says it.
            return denied(500, f"{spec} cannot be looked up: name is required")
        answer: Answer = None
        if is_object_name(name):  # no other exists, and some would be another path
            fetch = Fetch(name)
            yield fetch
            answer = fetch.answer
        if answer is None:
            return denied(self._policy.missing_code, f"{spec} does not exist")
        if isinstance(answer, Unavailable):
            return denied(500, with_reason(f"{spec} cannot be looked up", answer.reason))
        return _credspec(spec, answer)


def _credspec(spec: str, answer: object) -> CredSpec | Decision:
    """Of what a caller's own function found, too."""
    try:
        found = copy_plain(answer)
    except DocumentError as error:
        return denied(500, f"{spec} cannot be looked up: {error}")
    if not isinstance(found, dict):
        return denied(500, f"{spec} cannot be looked up: what was found is no object")
    members = found.get("credspec")
    if not isinstance(members, dict):
        return denied(417, f"{spec} has no credspec")
    return credspec_of(members)


def refused_outright(pod: Pod) -> Decision | None:
    """Why nobody is asked anything about a new pod."""
    for place in pod.strays:
        return denied(
            422, f"an annotation names a GMSA credential spec for {place.words}, which the pod does not have"
        )
    if len(pod.spec_names) > MAX_SPECS:
        return denied(422, f"the pod names more than {MAX_SPECS} GMSA credential specs")
    return None


def bad_name(place: Place, policy: Policy) -> Decision | None:
    """An empty name would ask about all objects (B47), and some no object can have (B13)."""
    name = place.name or ""
    if policy.compat or is_object_name(name):
        return None
    why = "is not one that an object can have" if name else "is empty"
    return denied(422, f"the name of the GMSA credential spec in {place.words} {why}")
