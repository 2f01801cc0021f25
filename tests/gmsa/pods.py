"""Pods and a cluster to decide about."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeauth.gmsa import Decision, PatchOperation, Policy, Review, Unavailable, Verdict, authorize, expand

Document = dict[str, Any]

LISTS = {
    "container": "containers",
    "init container": "initContainers",
    "ephemeral container": "ephemeralContainers",
}
LEVELS = ("pod", *LISTS)
SHIPPED_LEVELS = LEVELS[:2]
STRICT = Policy()
COMPAT = Policy(compat=True)

# As upstream's: one value is a list, and one an object.
CREDSPEC = {
    "plugins": ["ActiveDirectory", "Other"],
    "join": {"Sid": "S-1-5-21-1-2-3", "DnsName": "example.test"},
}
CONTENTS = '{"join":{"DnsName":"example.test","Sid":"S-1-5-21-1-2-3"},"plugins":["ActiveDirectory","Other"]}'


def context(name: str | None = None, contents: str | None = None) -> Document:
    """A securityContext. What is None is not there."""
    options = {"gmsaCredentialSpecName": name, "gmsaCredentialSpec": contents}
    return {"windowsOptions": {key: value for key, value in options.items() if value is not None}}


def container(name: str, *options: str | None) -> Document:
    """Without options it has no securityContext at all."""
    made: Document = {"name": name, "image": "i"}
    if options:
        made["securityContext"] = context(*options)
    return made


def pod(*options: str | None, **lists: list[Document]) -> Document:
    spec: Document = {"serviceAccountName": "robot", **lists}
    if options:
        spec["securityContext"] = context(*options)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}


def pod_at(level: str, *options: str | None, extras: int = 0, bare: bool = False) -> Document:
    """A pod with options at one level, among well-formed containers in random order; `bare`: names alone."""
    others = [container(f"c{n}", f"extra-{n}", None if bare else extra_contents(n)) for n in range(extras)]
    if level == "pod":
        made = pod(*options, containers=others)
    else:
        member = LISTS[level]
        others = [*others, container("here", *options)]
        random.Random(f"{level} {extras}").shuffle(others)  # noqa: S311 -- an order, the same each time
        made = pod(containers=[])
        made["spec"][member] = others
    return made


def extra_contents(number: int) -> str:
    return json.dumps({"extra": str(number)}, separators=(",", ":"))


def resource_at(level: str) -> str:
    return "web" if level == "pod" else "here"


def options_at(document: Document, level: str) -> Document:
    """The windowsOptions that `pod_at` has put there."""
    spec = document["spec"]
    if level != "pod":
        (spec,) = (each for each in spec[LISTS[level]] if each["name"] == "here")
    found: Document = spec["securityContext"]["windowsOptions"]
    return found


@dataclass
class Cluster:
    """Knows credential specs and who may use them, and what it was asked."""

    specs: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """By the name of a spec, or of a user: why not."""
    broken: str | None = None
    fetched: list[str] = field(default_factory=list)
    reviewed: list[Review] = field(default_factory=list)

    def lookup(self, name: str) -> Any:
        self.fetched.append(name)
        if self.broken is not None:
            return Unavailable(self.broken)
        return self.specs.get(name)

    def review(self, review: Review) -> Verdict:
        self.reviewed.append(review)
        for each in (review.name, review.user.name):
            if each in self.refusals:
                return Verdict(False, self.refusals[each])
        return Verdict(True)

    def expand(self, document: Mapping[str, object], policy: Policy = STRICT) -> list[PatchOperation]:
        return expand(document, self.lookup, policy=policy, hostname=lambda: "a-random-name-4")

    def create(self, document: Mapping[str, object], policy: Policy = STRICT, **given: Any) -> Decision:
        given = {"namespace": "shop", **given}
        return authorize(document, lookup=self.lookup, review=self.review, policy=policy, **given)

    @property
    def was_asked(self) -> bool:
        return bool(self.fetched or self.reviewed)


def spec_of(credspec: object) -> Document:
    return {"apiVersion": "windows.k8s.io/v1", "kind": "GMSACredentialSpec", "credspec": credspec}


def cluster(**specs: object) -> Cluster:
    """With the credential spec `web-spec`, five others, and whichever are given."""
    known = {"web-spec": spec_of(CREDSPEC), **{f"extra-{n}": spec_of({"extra": str(n)}) for n in range(6)}}
    return Cluster(known | {name.replace("_", "-"): spec_of(value) for name, value in specs.items()})


def patched(document: Document, patch: list[PatchOperation]) -> Document:
    """By RFC 6902, as far as `add` and `replace` of members go; strict about what must be there."""
    result = copy.deepcopy(document)
    for operation in patch:
        assert set(operation) == {"op", "path", "value"}
        assert operation["path"].startswith("/")
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/"))
        target: Any = result
        for part in way:
            target = target[int(part)] if isinstance(target, list) else target[part]
        assert isinstance(target, dict)
        assert operation["op"] == "add" or last in target
        target[last] = operation["value"]
    return result
