"""The configuration of image credential providers, from a file or a directory (1.12-1.18)."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from dataclasses import replace

from kubeauth._config.files import describe_os_error, read_file
from kubeauth.errors import Problem, ProviderConfigError
from kubeauth.registry._config import MAX_CONFIG, decode, validate, warnings
from kubeauth.schemas._credential_provider import CredentialProvider, CredentialProviderConfig

logger = logging.getLogger("kubeauth.registry")

_ENDINGS = (".json", ".yaml", ".yml")


def load_provider_config(path: str | os.PathLike[str]) -> CredentialProviderConfig:
    """The configuration in a file, or in the .json, .yaml and .yml files of a directory, put together.

    As strict as the kubelet: ProviderConfigError with all that is wrong with it. Patterns that can never
    match are accepted, as there; each is in `.warnings`, and logged.
    """
    found = _loaded(os.fspath(path))
    if isinstance(found, list):
        raise ProviderConfigError.from_problems(found)
    for warning in found.warnings:
        logger.warning("%s", warning)
    return found


def _loaded(path: str) -> CredentialProviderConfig | list[Problem]:
    paths = _files(path)
    if isinstance(paths, Problem):
        return [paths]
    digest = hashlib.sha256()
    providers: list[CredentialProvider] = []
    problems: list[Problem] = []
    for each in paths:
        data = _read(each)
        if isinstance(data, Problem):
            problems.append(data)
            continue
        # File names are not in it, so lengths are: else two files could be one (1.18).
        digest.update(len(data).to_bytes(8, "big") + data)
        decoded = decode(data, each)
        if isinstance(decoded, list):
            problems += decoded
        else:
            providers += decoded.providers
    if not problems:
        # What is about no one file is about the path that was asked for.
        problems = [replace(each, path=each.path or path) for each in validate(providers)]
    if problems:
        return problems
    return CredentialProviderConfig(providers=tuple(providers)).with_files(
        tuple(paths), hash=f"sha256:{digest.hexdigest()}", warnings=tuple(warnings(providers))
    )


def _files(path: str) -> list[str] | Problem:
    """The files to read, in order."""
    if not path:
        return Problem("credential provider config path is empty", hint="Name a file or a directory.")
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return [path]
        with os.scandir(path) as entries:
            # A link is no directory here, wherever it leads: reading it will tell (1.14).
            found = [entry.path for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        return Problem(f"unable to access path: {error.strerror}", path, hint="Check the path.")
    except ValueError:
        return Problem("unable to access path: no file can have such a name", path, hint="Check the path.")
    files = sorted((each for each in found if each.endswith(_ENDINGS)), key=os.fsencode)
    if not files:
        hint = f"Put one there whose name ends with {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}."
        return Problem("no configuration files found in directory", path, hint=hint)
    return files


def _read(path: str) -> bytes | Problem:
    try:
        return read_file(path, limit=MAX_CONFIG)
    except OSError as error:
        return Problem(
            f"unable to read file: {describe_os_error(error)}", path, hint="All of them must be readable."
        )
