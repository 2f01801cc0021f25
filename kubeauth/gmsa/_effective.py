"""Which credential spec each container runs with, as the kubelet has it (B61-B66). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kubeauth.errors import AdmissionError
from kubeauth.gmsa._decision import Decision, Mode, Policy, denied
from kubeauth.gmsa._places import Place, pod_of
from kubeauth.gmsa._words import quoted


def effective_credential_specs(pod: Mapping[str, object], *, mode: Mode = "fields") -> dict[str, str | None]:
    """The contents of the credential spec of each container, by its name: of init and ephemeral ones, too.

    None: it runs without. So does one that names a credential spec whose contents are not there, whatever
    the pod has (B63). Raises AdmissionError if this is no pod, or two containers have one name: annotations
    are by name, so that in alpha mode those two run with the same.
    """
    found = _found(pod, mode)
    del pod  # what raises does not hold it
    if isinstance(found, Decision):
        raise AdmissionError(found.message, status_code=found.code)
    return found


def _found(document: object, mode: Mode) -> dict[str, str | None] | Decision:
    pod = pod_of(document, Policy(mode=mode))
    if isinstance(pod, Decision):
        return pod
    of_pod, *containers = pod.places
    effective: dict[str, str | None] = {}
    for place in containers:
        if place.resource in effective:
            return denied(400, f"two containers are named {quoted(place.resource)}")
        contents = place.contents if decides(place, mode) else of_pod.contents
        # In the alpha stage what is empty is not there (B65).
        effective[place.resource] = (contents or None) if mode == "alpha" else contents
    return effective


def decides(place: Place, mode: Mode) -> bool:
    """Whether a container's own credential spec counts, and not the pod's.

    Name and contents come from one of the two together (B62). In the alpha stage nobody looks at names (B65).
    """
    if mode == "alpha":
        return bool(place.contents)
    return place.name is not None or place.contents is not None
