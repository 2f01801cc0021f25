"""The contents of a credential spec: as Go writes them, and whether two are the same. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeauth._parsing import DocumentError, Json, read_json
from kubeauth._parsing.go import go_json, sort_keys

MAX_CONTENTS = 65536
"""Bytes, as the API server has it (B13)."""


@dataclass(frozen=True, slots=True)
class CredSpec:
    """What a GMSACredentialSpec has in it. Printing it hides that."""

    members: Mapping[str, Json] = field(repr=False)
    text: str = field(repr=False)
    """What is put into pods. Written once: a pod may have thousands of containers."""


def credspec_of(members: Mapping[str, Json]) -> CredSpec:
    return CredSpec(members, canonical(members))


def canonical(members: Mapping[str, Json]) -> str:
    """Byte for byte what the webhook of kubernetes-sigs puts into a pod (B32)."""
    return go_json(sort_keys(members))


def is_too_long(contents: str) -> bool:
    return len(contents.encode("utf-8", "surrogatepass")) > MAX_CONTENTS


def mismatch(contents: str, credspec: CredSpec) -> str | None:
    """Why what stands in a pod is not this credential spec; None if it is (B41). Repeats neither."""
    if contents == credspec.text:
        return None
    if is_too_long(contents):
        return f"they are longer than {MAX_CONTENTS} bytes"
    repeated: list[str] = []
    try:
        found = read_json(contents.encode("utf-8", "surrogatepass"), repeated=repeated, finite=True)
    except DocumentError as error:
        return str(error)
    if not isinstance(found, dict):
        return "they are no JSON object"
    if repeated:
        # Of two with one name this program and another may read a different one (B42).
        return "a member is there twice"
    return None if same(found, credspec.members) else "they differ"


def same(one: Json, other: Json) -> bool:
    """As Go compares what it decoded: numbers are float64, and true is not 1 (B41, B42)."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return float(one) == float(other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other
