"""Small local files, read with a limit; and the chain of kubeconfig files (K13-K16)."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from kubeauth._config._model import Kubeconfig
from kubeauth._config._surroundings import Surroundings
from kubeauth.errors import Problem

KUBECONFIG_LIMIT = 32 * 2**20
SMALL_FILE_LIMIT = 2**20
_NO_PATH = "the path has characters that no path can have"


def read_file(path: str, *, limit: int = SMALL_FILE_LIMIT, can_wait: bool = True) -> bytes:
    """The whole file. OSError if it cannot be read, is not a file, or is larger than `limit` bytes.

    Unless it `can_wait`, so is a FIFO, and whatever else may never have anything to say.
    """
    try:
        # Without O_NONBLOCK a FIFO would block here for as long as nobody writes to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError:
        raise OSError(_NO_PATH) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            if not can_wait:
                raise OSError(None, "it is not a file", path)
            # /dev/stdin, <(process substitution): fine, but wait for what they have to say.
            os.set_blocking(descriptor, True)
        # Not closefd=True: that leaks the descriptor of a directory, which open() refuses.
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise OSError(f"it is larger than {limit // 2**20} MiB")
    return data


def absolute(path: str) -> str:
    """`path` that survives a chdir. Not abspath: that takes `link/..` for the directory of the link."""
    return os.path.join(working_directory(), path)


# Another process has its own: /dev/stdin, /dev/fd/63 of <(process substitution), /proc/self/fd/3.
_OF_THIS_PROCESS = ("/dev/stdin", "/dev/fd/", "/proc/")


def means_the_same_elsewhere(path: str) -> bool:
    """Whether another process, which looks later, may look at `path` and find what this one did."""
    if not os.path.isabs(path) or path.startswith(_OF_THIS_PROCESS):
        return False
    return os.path.isfile(path) or not os.path.exists(path) or path == os.devnull


def working_directory() -> str:
    """The working directory; empty if it was removed under us, as happens to long-lived processes.

    Relative paths stay relative then, and lead nowhere.
    """
    try:
        return os.getcwd()
    except OSError:
        return ""


def reason(error: OSError) -> str:
    """Why a file could not be read, without its name (the caller says it)."""
    return error.strerror or str(error)


def unreadable(path: str) -> str | None:
    """Why `path` cannot be opened; None if it can."""
    try:
        os.close(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)))
    except OSError as error:
        return reason(error)
    except ValueError:
        return _NO_PATH
    return None


@dataclass(frozen=True, slots=True)
class Chain:
    """The files to merge, first wins, and whether KUBECONFIG named them."""

    paths: tuple[str, ...]
    from_environment: bool


def chain(surroundings: Surroundings) -> Chain:
    """The files of KUBECONFIG, else `~/.kube/config` (K13)."""
    listed = surroundings.environ.get("KUBECONFIG", "")
    if listed:
        return Chain(tuple(dict.fromkeys(listed.split(surroundings.separator))), from_environment=True)
    return Chain((surroundings.in_home(".kube", "config"),), from_environment=False)


def read_kubeconfig(path: str) -> Kubeconfig | list[Problem] | None:
    """One file decoded; None if it does not exist; else all that is wrong with it.

    Returns its problems, so that no frame that held the text is part of a traceback.
    """
    try:
        data = read_file(path, limit=KUBECONFIG_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return [_unloadable(path, f"cannot read it: {reason(error)}", "Check the path and its permissions.")]
    # The codec is imported when there is something to decode, not before.
    from kubeauth._config._source import decode_bytes

    decoded = decode_bytes(data, origin=path)
    if isinstance(decoded, Kubeconfig):
        return decoded
    return [
        Problem(f'error loading config file "{path}": {_at(item)}{item.message}', path, item.field, item.hint)
        for item in decoded
    ]


def _at(problem: Problem) -> str:
    return f"{problem.field}: " if problem.field else ""


def _unloadable(path: str, message: str, hint: str) -> Problem:
    return Problem(f'error loading config file "{path}": {message}', path, hint=hint)


@dataclass(frozen=True, slots=True)
class Found:
    """What a chain of files came to."""

    configs: tuple[Kubeconfig, ...]
    missing: tuple[str, ...]
    problems: tuple[Problem, ...]


def read_chain(paths: Sequence[str]) -> Found:
    """Every file of a chain; the missing are skipped, the broken collected (K15, K16)."""
    configs: list[Kubeconfig] = []
    missing: list[str] = []
    problems: list[Problem] = []
    for path in paths:
        if not path:
            continue
        found = read_kubeconfig(absolute(path))
        if found is None:
            missing.append(path)
        elif isinstance(found, Kubeconfig):
            configs.append(found)
        else:
            problems.extend(found)
    return Found(tuple(configs), tuple(missing), tuple(problems))
