"""Read kubeconfigs from files (K13-K16), text or parsed documents, and validate their fields (K1-K12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubeauth._config.files import KUBECONFIG_LIMIT, describe_os_error, make_absolute, read_file
from kubeauth._parsing import DocumentError, Json, copy_plain, read_document
from kubeauth._parsing.models import MAX_PROBLEMS, Origin, describe_type, validate_document
from kubeauth.errors import Problem
from kubeauth.schemas._kubeconfig import (
    NO_CLUSTER,
    NO_USER,
    NOT_A_KUBECONFIG_HINT,
    Cluster,
    Kubeconfig,
    User,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values that take precedence over the files, like kubectl's flags (K24, K31, K32)."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    cluster_info: Cluster = NO_CLUSTER
    user_info: User = NO_USER
    cluster_defaults: Cluster = NO_CLUSTER
    """Used where the files have no value: a caller can set a default server here (K57)."""


def decode(document: Json, *, origin: str = "") -> Kubeconfig | list[Problem]:
    """Validate `document`, or return all its problems. `origin` is the path of the file."""
    path = origin or None
    if document is not None and not isinstance(document, dict):
        message = f"a kubeconfig must be a mapping, not {describe_type(document)}"
        return [Problem(message, path, hint=NOT_A_KUBECONFIG_HINT)]
    result = validate_document(
        Kubeconfig, document, origin=origin, context=Origin(origin) if origin else None
    )
    if isinstance(result, Kubeconfig):
        return result
    if result.type_problem_count > MAX_PROBLEMS:
        message = f"{result.type_problem_count:,} fields have the wrong type"
        return [Problem(message, path, hint=NOT_A_KUBECONFIG_HINT)]
    return result.problems


_NOT_A_DOCUMENT_HINT = "A kubeconfig is YAML or JSON text; compare it with the output of: kubectl config view"


def decode_bytes(data: bytes, *, origin: str = "") -> Kubeconfig | list[Problem]:
    """Decode a kubeconfig in YAML or JSON. Empty text is an empty kubeconfig (K8)."""
    try:
        document = read_document(data, limit=KUBECONFIG_LIMIT)
    except DocumentError as error:
        return [Problem(str(error), origin or None, hint=_NOT_A_DOCUMENT_HINT)]
    return decode(document, origin=origin)


def decode_mapping(document: Mapping[str, object]) -> Kubeconfig | list[Problem]:
    """Decode a parsed kubeconfig. It is copied, so that later changes to it have no effect."""
    try:
        copied = copy_plain(document)
    except DocumentError as error:
        return [Problem(str(error), hint="Pass the result of yaml.safe_load or json.load.")]
    return decode(copied)


def read_kubeconfig(path: str) -> Kubeconfig | list[Problem] | None:
    """Read and decode one file; None if it does not exist.

    Problems are returned and not raised, so that no traceback refers to the content of the file.
    """
    try:
        data = read_file(path, limit=KUBECONFIG_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f'error loading config file "{path}": cannot read it: {describe_os_error(error)}'
        return [Problem(message, path, hint="Check the path and its permissions.")]
    decoded = decode_bytes(data, origin=path)
    if isinstance(decoded, Kubeconfig):
        return decoded
    return [
        Problem(
            f'error loading config file "{path}": {_field_prefix(problem)}{problem.message}',
            path,
            problem.field,
            problem.hint,
        )
        for problem in decoded
    ]


def _field_prefix(problem: Problem) -> str:
    return f"{problem.field}: " if problem.field else ""


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """The decoded kubeconfigs, the files that do not exist, and the problems of invalid files."""

    configs: tuple[Kubeconfig, ...]
    missing: tuple[str, ...]
    problems: tuple[Problem, ...]


def read_kubeconfigs(paths: Sequence[str]) -> LoadedFiles:
    """Read all files. Skip missing files, and collect the problems of invalid ones (K15, K16)."""
    configs: list[Kubeconfig] = []
    missing: list[str] = []
    problems: list[Problem] = []
    for path in paths:
        if not path:
            continue
        result = read_kubeconfig(make_absolute(path))
        if result is None:
            missing.append(path)
        elif isinstance(result, Kubeconfig):
            configs.append(result)
        else:
            problems.extend(result)
    return LoadedFiles(tuple(configs), tuple(missing), tuple(problems))
