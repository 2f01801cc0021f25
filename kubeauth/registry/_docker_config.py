"""Docker configs from files: one that is named, or the first that a node has (5.14, 5.15)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kubeauth._config.environment import Environment
from kubeauth._config.files import describe_os_error, read_file
from kubeauth._config.validate import redact_path
from kubeauth.errors import Problem
from kubeauth.registry._entries import (
    LIMIT,
    Decode,
    Entries,
    config_entries,
    document_of,
    either_entries,
    flat_entries,
    mapping_document,
)

KUBELET_ROOT = "/var/lib/kubelet"
CONFIG_JSON = "config.json"
DOCKERCFG = ".dockercfg"
# How a JSON object begins, also in base64: whoever passes one of these has mistaken text for a path.
_OBJECTS = ("{", "eyJ", "eyA", "ewo", "ew0")


@dataclass(frozen=True, slots=True)
class LoadedEntries:
    """The entries of a docker config, and the file that they came from."""

    # A key may hold a password, which no traceback with locals should show.
    entries: Entries = field(repr=False)
    source: str = ""


def given_config(source: object, *, with_tokens: bool) -> LoadedEntries | Problem:
    """What a caller passed for a docker config: a path, bytes, a document, or None for the user's own."""
    if source is None:
        return _users_config(Environment(), with_tokens=with_tokens)
    if isinstance(source, str | os.PathLike):
        path = os.fsdecode(source)
        if path.lstrip().startswith(_OBJECTS) and not os.path.exists(path):
            hint = "For the text of a docker config pass bytes: from_docker_config(text.encode())."
            return Problem("a str is taken for a path, and this one looks like a docker config", hint=hint)
        decode = flat_entries if os.path.basename(path) == DOCKERCFG else either_entries
        return _named_config(path, decode, hint="Check the path.", with_tokens=with_tokens)
    if isinstance(source, Mapping):
        document = mapping_document(source)
    elif isinstance(source, bytes | bytearray | memoryview):
        document = document_of(bytes(source))
    else:
        kind = type(source).__name__
        return Problem(f"a docker config is a path, bytes or a parsed document, not {kind}")
    if isinstance(document, Problem):
        return document
    entries = either_entries(document, with_tokens=with_tokens)
    return entries if isinstance(entries, Problem) else LoadedEntries(entries)


def _users_config(environment: Environment, *, with_tokens: bool) -> LoadedEntries | Problem:
    directory = environment.environ.get("DOCKER_CONFIG", "") or environment.join_home(".docker")
    if not directory:
        return Problem("there is no home directory to look for a docker config in", hint="Pass its path.")
    path, hint = os.path.join(directory, CONFIG_JSON), "`docker login` writes it."
    return _named_config(path, config_entries, hint=hint, with_tokens=with_tokens)


def _named_config(path: str, decode: Decode, *, hint: str, with_tokens: bool) -> LoadedEntries | Problem:
    """`hint` is for a file that does not exist; what is in the file has hints of its own."""
    found = read_config(path, decode, with_tokens=with_tokens) or Problem("it does not exist", hint=hint)
    if isinstance(found, LoadedEntries):
        return found
    message = f"cannot use the docker config {redact_path(path)}: {found.message}"
    return replace(found, message=message, path=redact_path(path))


def read_config(path: str, decode: Decode, *, with_tokens: bool) -> LoadedEntries | Problem | None:
    """One file, decoded; None if it does not exist; else what is wrong with it.

    Returns its problem, so that no frame that held the text is part of a traceback.
    """
    try:
        data = read_file(path, limit=LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(
            f"cannot read it: {describe_os_error(error)}", hint="Check the path and its permissions."
        )
    document = document_of(data)
    found = document if isinstance(document, Problem) else decode(document, with_tokens=with_tokens)
    return found if isinstance(found, Problem) else LoadedEntries(found, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlaces:
    """The directories that the kubelet looks in. An empty one is none."""

    kubelet_root: str = KUBELET_ROOT
    working_directory: str = ""
    home: str = ""
    root: str = "/"

    def files(self) -> Iterator[tuple[str, Decode]]:
        """What it looks for there, in order, and what it takes each for."""
        home, root = (os.path.join(at, ".docker") if at else "" for at in (self.home, self.root))
        for directory in (self.kubelet_root, self.working_directory, home, root):
            if directory:
                yield os.path.join(directory, CONFIG_JSON), config_entries
        for directory in (self.kubelet_root, self.working_directory, self.home, self.root):
            if directory:
                yield os.path.join(directory, DOCKERCFG), flat_entries
