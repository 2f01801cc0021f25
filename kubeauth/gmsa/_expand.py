"""The expander: the credential specs that a pod names are written into it (B27-B35)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeauth.errors import AdmissionError
from kubeauth.gmsa._decision import ALLOWED, STRICT, Decision, PatchOperation, Policy, denied
from kubeauth.gmsa._driver import Lookup, settled
from kubeauth.gmsa._places import Place, Pod, pod_of
from kubeauth.gmsa._steps import Questions, Steps, bad_name, refused_outright

_HOSTNAME_LENGTH = 15  # of a NetBIOS name

MAX_PATCH = 3 * 2**20
"""Characters, of all that is written into a pod: no API server takes more. Without a limit a pod of 3 MB
could ask for 64 KB in each of 20,000 containers."""


def expand(
    pod: Mapping[str, object],
    lookup: Lookup,
    *,
    policy: Policy = STRICT,
    hostname: Callable[[], str] | None = None,
) -> list[PatchOperation]:
    """The JSON patch that writes into a pod the contents of each credential spec that it names.

    `lookup` is called with the name of a GMSACredentialSpec and returns it, whole, as the API server has it;
    None if there is none; or `Unavailable`. Whether the pod may use them is for `authorize` to say.
    `hostname` makes the one that a policy with `random_hostname` gives.

    Raises AdmissionError, whose `code` is the status that a webhook would answer with.
    """
    decision = _decided(pod, lookup, policy, hostname or new_hostname)
    del pod, lookup  # what raises does not hold them
    if not decision.allowed:
        raise AdmissionError(decision.message, status_code=decision.code)
    return list(decision.patch)


def _decided(document: object, lookup: Lookup, policy: Policy, hostname: Callable[[], str]) -> Decision:
    pod = pod_of(document, policy)
    if isinstance(pod, Decision):
        return pod
    # Nobody is asked who may use it: that is for authorize.
    return settled(expansion(pod, policy, hostname), lookup, lambda _review: False)


def new_hostname() -> str:
    """The beginning of a random UUID."""
    from uuid import uuid4

    return str(uuid4())[:_HOSTNAME_LENGTH]


def expansion(pod: Pod, policy: Policy, hostname: Callable[[], str]) -> Steps[Decision]:
    """How a new pod is patched, or why it is denied. No I/O here."""
    if refused := refused_outright(pod):
        return refused
    questions = Questions(policy)
    patch: list[PatchOperation] = []
    size = 0
    for place in pod.places:
        if place.name is None or not _is_to_be_filled(place, policy):
            continue
        if refused := bad_name(place, policy):
            return refused
        credspec = yield from questions.credspec(place.name)
        if isinstance(credspec, Decision):
            return credspec
        size += len(credspec.text)
        if size > MAX_PATCH:
            return denied(422, "the pod names more GMSA credential specs than there is room for in a pod")
        patch.append(
            {
                "op": "add" if place.contents is None else "replace",
                "path": place.path,
                "value": credspec.text,
            }
        )
    if policy.random_hostname and pod.spec_names and not pod.spec.hostname:
        patch.append({"op": "add", "path": "/spec/hostname", "value": hostname()})
    return Decision(True, patch=tuple(patch)) if patch else ALLOWED


def _is_to_be_filled(place: Place, policy: Policy) -> bool:
    """What is there is left alone, even if it is wrong (B29). What is empty is not there (B30)."""
    return place.contents is None or (not place.contents and not policy.compat)
