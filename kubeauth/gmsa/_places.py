"""Where a pod names credential specs: in its fields, or in its annotations. Pure.

Every container has a place, also one that names nothing, in the order in which rules visit them (B14). What
is null and what is empty are kept apart. Nothing raises: a pod of another shape is a denial (B24), which
says what kind of thing stands where, and never repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from kubeauth import schemas
from kubeauth._parsing import DocumentError, Json, copy_plain
from kubeauth._parsing.models import Invalid, validate_document
from kubeauth.gmsa._annotations import containers_of, contents_key, name_key, pointer
from kubeauth.gmsa._decision import Decision, Policy, denied
from kubeauth.gmsa._words import quoted

Level = Literal["pod", "container", "init container", "ephemeral container"]

_LISTS = ("containers", "initContainers", "ephemeralContainers")

MAX_CONTAINERS = 1000
"""So many a pod may have. No node could run more, and to look at 300,000 would hold everybody up."""
MAX_SPECS = 100
"""So many a pod may name. Each costs two requests, and a pod of 3 MB could name 30,000."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pod or a container, and the credential spec that it names there. Printing it hides the contents."""

    level: Level
    resource: str
    """Name of the pod or container. A pod that its controller has not named yet has its generateName."""
    path: str
    """Where the contents are, as a JSON pointer."""
    name: str | None
    contents: str | None = field(repr=False)
    has_options: bool = True
    """Whether there is anything for Windows at all: an empty one counts to the shipped webhook (B50)."""

    @property
    def words(self) -> str:
        return f"{self.level} {quoted(self.resource)}"


@dataclass(frozen=True, slots=True)
class Pod:
    """What a policy reads from a pod."""

    spec: schemas.PodSpec = field(repr=False)
    service_account: str
    """The one that the policy reads from the spec."""
    places: tuple[Place, ...]
    """The first is the pod itself."""
    strays: tuple[Place, ...] = ()
    """Annotations for containers that are not there."""

    @property
    def spec_names(self) -> frozenset[str]:
        return frozenset(place.name for place in self.places if place.name is not None)


def pod_of(document: object, policy: Policy) -> Pod | Decision:
    """A pod from whoever calls. Its size and its depth are bounded, too."""
    try:
        copy = copy_plain(document)
    except DocumentError as error:
        return _bad_pod(str(error))
    return read_pod(copy, policy)


def read_pod(document: Json, policy: Policy) -> Pod | Decision:
    """A pod that a reader of documents made, or a denial (B24)."""
    if not isinstance(document, dict):
        return _bad_pod("it must be a mapping")
    if document.get("kind") not in ("Pod", None):  # a template does not say it
        return _bad_pod("its kind is another")
    spec = document.get("spec")
    lists = [spec.get(name) for name in _LISTS] if isinstance(spec, dict) else []
    if sum(len(each) for each in lists if isinstance(each, list)) > MAX_CONTAINERS:
        return denied(422, f"the pod has more than {MAX_CONTAINERS} containers")
    pod = validate_document(schemas.Pod, document)
    if isinstance(pod, Invalid):
        problem = pod.problems[0]
        return _bad_pod(f"{problem.field}: {problem.message}")
    return _pod(pod, policy)


def _bad_pod(reason: str) -> Decision:
    return denied(400, f"this is not a pod: {reason}")


def _pod(pod: schemas.Pod, policy: Policy) -> Pod:
    name = pod.metadata.name or pod.metadata.generate_name
    strays: tuple[Place, ...] = ()
    if policy.mode == "alpha":
        places, strays = _annotated(name, pod)
    else:
        places = _in_fields(name, pod.spec, policy)
    account = pod.spec.service_account_name
    if not policy.compat:
        account = account or pod.spec.service_account  # as the API server does
    return Pod(pod.spec, account, places, strays)


def _iter_containers(spec: schemas.PodSpec) -> Iterator[tuple[Level, str, schemas.Container]]:
    """Yield all containers, each with its level and its path as a JSON pointer."""
    for index, container in enumerate(spec.containers):
        yield "container", f"/spec/containers/{index}", container
    for index, container in enumerate(spec.init_containers):
        yield "init container", f"/spec/initContainers/{index}", container
    for index, container in enumerate(spec.ephemeral_containers):
        yield "ephemeral container", f"/spec/ephemeralContainers/{index}", container


def _in_fields(name: str, spec: schemas.PodSpec, policy: Policy) -> tuple[Place, ...]:
    """By the fields of the pod's spec (B11, B15)."""
    places = [_in_context(spec.security_context, "pod", name, "/spec")]
    for level, path, container in _iter_containers(spec):
        if level == "container" or not policy.compat:
            places.append(_in_context(container.security_context, level, container.name, path))
    return tuple(places)


def _in_context(context: schemas.SecurityContext, level: Level, resource: str, path: str) -> Place:
    path += "/securityContext/windowsOptions/gmsaCredentialSpec"
    if (options := context.windows_options) is None:
        return Place(level, resource, path, None, None, has_options=False)
    return Place(level, resource, path, options.gmsa_credential_spec_name, options.gmsa_credential_spec)


def _annotated(name: str, pod: schemas.Pod) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """By the annotations of the alpha stage (B84)."""
    values = pod.metadata.annotations

    def place(level: Level, resource: str, container: str | None) -> Place:
        key = contents_key(container)
        name = values.get(name_key(container))
        return Place(level, resource, pointer(key), name, values.get(key))

    places = [place("pod", name, None)]
    known: set[str] = set()
    for level, _path, container in _iter_containers(pod.spec):
        if container.name not in known:  # of two with one name the annotation is the same
            known.add(container.name)
            places.append(place(level, container.name, container.name))
    strays = [each for each in containers_of(values) if each not in known]
    return tuple(places), tuple(place("container", each, each) for each in strays)
