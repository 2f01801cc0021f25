"""The annotations of the alpha stage: how they are called, and whom they are about (B12, B84-B87). Pure."""

from __future__ import annotations

from collections.abc import Mapping

_HOST = "alpha.windows.kubernetes.io"
_CONTAINER = f".container.{_HOST}"
_CONTENTS = "gmsa-credential-spec"
_NAME = "gmsa-credential-spec-name"


def prefix_of(container: str | None) -> str:
    """What the keys of a container begin with; None: those of the pod."""
    return f"pod.{_HOST}" if container is None else f"{container}{_CONTAINER}"


def name_key(container: str | None) -> str:
    return f"{prefix_of(container)}/{_NAME}"


def contents_key(container: str | None) -> str:
    return f"{prefix_of(container)}/{_CONTENTS}"


def container_of(key: str) -> str | None:
    """The container whose credential spec an annotation is about, if it is about one's."""
    prefix, _, member = key.rpartition("/")
    if member not in (_NAME, _CONTENTS) or not prefix.endswith(_CONTAINER):
        return None
    return prefix.removesuffix(_CONTAINER)


def containers_of(annotations: Mapping[str, str]) -> list[str]:
    """All of them, in the order in which they are named first."""
    found = (container_of(key) for key in annotations)
    return list(dict.fromkeys(name for name in found if name is not None))


def pointer(key: str) -> str:
    """Where an annotation is in a pod, as a JSON pointer (B85)."""
    return f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}"
