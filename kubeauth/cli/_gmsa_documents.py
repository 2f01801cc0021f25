"""Pods, and credential specs, in the files that people have of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kubeauth._config.files import SMALL_FILE_LIMIT
from kubeauth._parsing import DocumentError, Json, read_document
from kubeauth._parsing.models import Invalid, validate_document
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._tables import cell
from kubeauth.schemas import ObjectMeta, PartialObjectMetadata

# As kubectl splits a file: a document ends at a line that begins with three dashes. Nothing is behind them.
_BETWEEN = re.compile(rb"^---(.*)\n?", re.MULTILINE)
_NOTHING = re.compile(rb"[ \t]*(#.*)?\r?")
# Where a workload has the pods that it makes. CronJob: of the jobs that it makes.
_TEMPLATES = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"), ("spec", "template")),
    "ReplicationController": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
SPEC_KIND = "GMSACredentialSpec"
_KINDS = {kind.lower(): kind for kind in ("Pod", SPEC_KIND, "List", *_TEMPLATES)}


@dataclass(frozen=True, slots=True)
class FoundPod:
    """A pod, or what pods of it a workload makes. Printing it hides them."""

    of: str
    """What it is in the file, and its name there."""
    namespace: str
    """As it says itself; mostly it does not."""
    document: dict[str, Json] = field(repr=False)


def objects_of(data: bytes, path: str) -> Iterator[dict[str, Json]]:
    """The objects in a file of JSON or YAML: in several documents, in a List. Failed if they are none."""
    documents = [data] if data.lstrip()[:1] in (b"{", b"[") else _split(data, path)
    for number, part in enumerate(documents, 1):
        try:
            found = read_document(part, limit=SMALL_FILE_LIMIT, whole=True)
        except DocumentError as error:
            where = f"{path}, document {number}" if len(documents) > 1 else path
            # Not `from`: there may be credentials in it.
            raise Failed(f"error: {where}: {error}", Status.CONFIG) from None
        yield from _each(found, path)


def _split(data: bytes, path: str) -> list[bytes]:
    if any(not _NOTHING.fullmatch(each[1]) for each in _BETWEEN.finditer(data)):
        raise Failed(
            f"error: {path}: something stands behind a --- between documents. Put it on a line of its own.",
            Status.CONFIG,
        )
    return _BETWEEN.split(data)[::2]


def _each(found: Json, path: str) -> Iterator[dict[str, Json]]:
    if found is None:
        return  # nothing but comments
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str) or not found["kind"]:
        raise Failed(f"error: {path}: there is something in it that is no Kubernetes object", Status.CONFIG)
    items = found.get("items")
    if found["kind"].endswith("List") and isinstance(items, list):
        kind = found["kind"].removesuffix("List")
        for item in items:
            # Those of a PodList do not say again what they are.
            yield from _each({"kind": kind, **item} if isinstance(item, dict) else item, path)
    else:
        meant = _KINDS.get(found["kind"].lower(), found["kind"])
        if meant != found["kind"]:
            # Beside others it would just not be looked at, and nobody would miss it.
            what = f"kind {cell(found['kind'])} is unknown to Kubernetes. Did you mean {meant}?"
            raise Failed(f"error: {path}: {what}", Status.CONFIG)
        yield found


def pods_in(found: dict[str, Json]) -> Iterator[FoundPod]:
    """The pod that an object is, or has a template of; else none."""
    kind = found["kind"]
    if kind == "Pod":
        metadata = _read_metadata(found)
        name = metadata.name or metadata.generate_name
        yield FoundPod(f"Pod {name}".rstrip(), metadata.namespace, found)
    elif kind in _TEMPLATES:
        metadata = _read_metadata(found)
        name = metadata.name
        template: Json = found
        for member in _TEMPLATES[kind]:
            template = template.get(member) if isinstance(template, dict) else None
        if not isinstance(template, dict):
            place = ".".join(_TEMPLATES[kind])
            raise Failed(f"error: {kind} {cell(name)} has no pod template: {place} is none", Status.CONFIG)
        # As its controller will name it.
        named = template.get("metadata") or {}
        if isinstance(named, dict):
            named = {"generateName": f"{name}-", **named}
        yield FoundPod(f"{kind} {name}".rstrip(), metadata.namespace, {**template, "metadata": named})


def specs_in(objects: Iterator[dict[str, Json]]) -> dict[str, dict[str, Json]]:
    """The credential specs among them, by name."""
    found: dict[str, dict[str, Json]] = {}
    for each in objects:
        if each["kind"] == SPEC_KIND:
            name = _read_metadata(each).name
            if not name or name in found:
                why = f"{cell(name)} is there twice" if name else "one has no name"
                raise Failed(f"error: --specs: of the {SPEC_KIND}s, {why}", Status.CONFIG)
            found[name] = each
    return found


def _read_metadata(found: dict[str, Json]) -> ObjectMeta:
    read = validate_document(PartialObjectMetadata, found)
    if isinstance(read, Invalid):
        problem = read.problems[0]
        raise Failed(f"error: {found['kind']}: {cell(problem.field)}: {problem.message}", Status.CONFIG)
    return read.metadata
