"""Where a pod names credential specs: the only place that knows the fields of a pod. Pure.

Every container has a place, also one that names nothing, in the order in which rules visit them (B14). What
is null and what is empty are kept apart. Nothing raises: a pod of another shape is a denial (B24), which
says what kind of thing stands where, and never repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kubeauth._parsing import DocumentError, Fields, Findings, Json, copy_plain
from kubeauth.gmsa._annotations import containers_of, contents_key, name_key, pointer
from kubeauth.gmsa._decision import Decision, Policy, denied
from kubeauth.gmsa._words import quoted

Level = Literal["pod", "container", "init container", "ephemeral container"]

_LISTS: dict[str, Level] = {
    "containers": "container",
    "initContainers": "init container",
    "ephemeralContainers": "ephemeral container",
}
_SHIPPED_LISTS: dict[str, Level] = {"containers": "container"}

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
    """What counts of a pod."""

    service_account: str
    hostname: str
    places: tuple[Place, ...]
    """The first is the pod itself."""
    strays: tuple[Place, ...] = ()
    """Annotations for containers that are not there."""
    os: str = ""
    """What `spec.os.name` says, if it says anything."""

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
    findings = Findings()
    fields = findings.root(document)
    lists = map(fields.within("spec").raw, _LISTS)
    if sum(len(each) for each in lists if isinstance(each, list)) > MAX_CONTAINERS:
        return denied(422, f"the pod has more than {MAX_CONTAINERS} containers")
    pod = _pod(fields, policy)
    for problem in findings.schema_problems:
        return _bad_pod(f"{problem.field}: {problem.message}")
    return pod


def _bad_pod(reason: str) -> Decision:
    return denied(400, f"this is not a pod: {reason}")


def _pod(fields: Fields, policy: Policy) -> Pod:
    metadata, spec = fields.within("metadata"), fields.within("spec")
    generate_name = metadata.string("generateName")
    name = metadata.string("name") or generate_name
    if policy.mode == "alpha":
        places, strays = _annotated(name, metadata.within("annotations"), spec)
    else:
        places, strays = _in_fields(name, spec, _SHIPPED_LISTS if policy.compat else _LISTS), ()
    account = spec.string("serviceAccountName")
    if not policy.compat:
        account = account or spec.string("serviceAccount")  # an older name, which the API server still takes
    os = spec.within("os").string("name")
    return Pod(account, spec.string("hostname"), places, strays, os)


def _in_fields(name: str, spec: Fields, lists: dict[str, Level]) -> tuple[Place, ...]:
    """By the fields of the pod's spec (B11, B15)."""
    places = [_in_context(spec, "pod", name, "/spec")]
    for member, level in lists.items():
        for index, container in enumerate(spec.each(member)):
            resource = container.string("name")
            places.append(_in_context(container, level, resource, f"/spec/{member}/{index}"))
    return tuple(places)


def _in_context(fields: Fields, level: Level, resource: str, path: str) -> Place:
    options = fields.within("securityContext").within("windowsOptions")
    return Place(
        level,
        resource,
        f"{path}/securityContext/windowsOptions/gmsaCredentialSpec",
        _text(options, "gmsaCredentialSpecName"),
        _text(options, "gmsaCredentialSpec"),
        options.is_present,
    )


def _text(fields: Fields, name: str) -> str | None:
    text = fields.string(name)
    return None if fields.raw(name) is None else text


def _annotated(name: str, given: Fields, spec: Fields) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """By the annotations of the alpha stage (B84)."""
    values = {key: given.string(key) for key in given.names()}

    def place(level: Level, resource: str, container: str | None) -> Place:
        key = contents_key(container)
        name = values.get(name_key(container))
        return Place(level, resource, pointer(key), name, values.get(key))

    places = [place("pod", name, None)]
    known: set[str] = set()
    for member, level in _LISTS.items():
        for fields in spec.each(member):
            resource = fields.string("name")
            if resource not in known:  # of two with one name the annotation is the same
                known.add(resource)
                places.append(place(level, resource, resource))
    strays = [each for each in containers_of(values) if each not in known]
    return tuple(places), tuple(place("container", each, each) for each in strays)
