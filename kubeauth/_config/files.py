"""Small local files, read with a limit; and the chain of kubeconfig files (K13-K16)."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from kubeauth._config.environment import Environment
from kubeauth._config.kubeconfig import KUBECONFIG_LIMIT, Kubeconfig, decode_bytes
from kubeauth._config.validate import redact_path
from kubeauth._secret import Secret
from kubeauth.errors import Problem, TokenFileError

SMALL_FILE_LIMIT = 2**20
_INVALID_PATH = "the path has characters that no path can have"


def read_file(path: str, *, limit: int = SMALL_FILE_LIMIT, can_wait: bool = True) -> bytes:
    """The whole file. OSError if it cannot be read, is not a file, or is larger than `limit` bytes.

    Unless it `can_wait`, so is a FIFO, and whatever else may never have anything to say.
    """
    try:
        # Without O_NONBLOCK a FIFO would block here for as long as nobody writes to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError:
        raise OSError(_INVALID_PATH) from None
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


def make_absolute(path: str) -> str:
    """`path` that survives a chdir. Not abspath: that takes `link/..` for the directory of the link."""
    return os.path.join(get_working_directory(), path)


# Another process has its own: /dev/stdin, /dev/fd/63 of <(process substitution), /proc/self/fd/3.
_PROCESS_LOCAL_PATHS = ("/dev/stdin", "/dev/fd/", "/proc/")


def is_same_for_other_processes(path: str) -> bool:
    """Whether another process, which looks later, may look at `path` and find what this one did."""
    if not os.path.isabs(path) or path.startswith(_PROCESS_LOCAL_PATHS):
        return False
    return os.path.isfile(path) or not os.path.exists(path) or path == os.devnull


def get_working_directory() -> str:
    """The working directory; empty if it was removed under us, as happens to long-lived processes.

    Relative paths stay relative then, and lead nowhere.
    """
    try:
        return os.getcwd()
    except OSError:
        return ""


def describe_os_error(error: OSError) -> str:
    """Why a file could not be read, without its name (the caller says it)."""
    return error.strerror or str(error)


def try_open(path: str) -> str | None:
    """Why `path` cannot be opened; None if it can."""
    try:
        os.close(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)))
    except OSError as error:
        return describe_os_error(error)
    except ValueError:
        return _INVALID_PATH
    return None


@dataclass(frozen=True, slots=True)
class KubeconfigPaths:
    """The files to merge, first wins, and whether KUBECONFIG named them."""

    paths: tuple[str, ...]
    from_environment: bool


def find_kubeconfig_paths(environment: Environment) -> KubeconfigPaths:
    """The files of KUBECONFIG, else `~/.kube/config` (K13)."""
    listed = environment.environ.get("KUBECONFIG", "")
    if listed:
        return KubeconfigPaths(
            tuple(dict.fromkeys(listed.split(environment.separator))), from_environment=True
        )
    return KubeconfigPaths((environment.in_home(".kube", "config"),), from_environment=False)


def read_kubeconfig(path: str) -> Kubeconfig | list[Problem] | None:
    """One file decoded; None if it does not exist; else all that is wrong with it.

    Returns its problems, so that no frame that held the text is part of a traceback.
    """
    try:
        data = read_file(path, limit=KUBECONFIG_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return [
            _load_problem(
                path, f"cannot read it: {describe_os_error(error)}", "Check the path and its permissions."
            )
        ]
    decoded = decode_bytes(data, origin=path)
    if isinstance(decoded, Kubeconfig):
        return decoded
    return [
        Problem(
            f'error loading config file "{path}": {_field_prefix(item)}{item.message}',
            path,
            item.field,
            item.hint,
        )
        for item in decoded
    ]


def _field_prefix(problem: Problem) -> str:
    return f"{problem.field}: " if problem.field else ""


def _load_problem(path: str, message: str, hint: str) -> Problem:
    return Problem(f'error loading config file "{path}": {message}', path, hint=hint)


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """What a chain of files came to."""

    configs: tuple[Kubeconfig, ...]
    missing: tuple[str, ...]
    problems: tuple[Problem, ...]


def read_kubeconfigs(paths: Sequence[str]) -> LoadedFiles:
    """Every file of a chain; the missing are skipped, the broken collected (K15, K16)."""
    configs: list[Kubeconfig] = []
    missing: list[str] = []
    problems: list[Problem] = []
    for path in paths:
        if not path:
            continue
        found = read_kubeconfig(make_absolute(path))
        if found is None:
            missing.append(path)
        elif isinstance(found, Kubeconfig):
            configs.append(found)
        else:
            problems.extend(found)
    return LoadedFiles(tuple(configs), tuple(missing), tuple(problems))


def read_raw_token(path: str) -> Secret[str]:
    """All that is in the file, which must be more than white space. TokenFileError if it is not."""
    token: Secret[str] | None = None
    # Raised behind the except clauses: the errors hold the path, which may be the token itself, and bytes.
    try:
        token = Secret(read_file(path).decode())
        why = f"read empty token from file {redact_path(path)}"
    except OSError as error:
        why = f"cannot read the token file {redact_path(path)}: {describe_os_error(error)}"
    except UnicodeDecodeError:
        why = f"cannot read the token file {redact_path(path)}: it is not text"
    if token is None or not token.reveal().strip():
        raise TokenFileError(why, path=redact_path(path))
    return token


def read_token_file(path: str) -> Secret[str]:
    """The token in the file, without the white space around it. TokenFileError if there is none."""
    return Secret(read_raw_token(path).reveal().strip())


_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"


def split_pem_certificates(data: bytes) -> list[str]:
    """Each certificate block, without the text around it; blocks with PEM headers do not count."""
    text = data.decode("ascii", "replace")
    found: list[str] = []
    # Not a regular expression: many BEGINs without an END would take it a time that grows as their square.
    start = 0
    while (end := text.find(_END, start)) >= 0:
        begin = text.rfind(_BEGIN, start, end)
        if begin >= 0 and ":" not in (body := text[begin + len(_BEGIN) : end]):
            found.append(f"{_BEGIN}{body}{_END}\n")
        start = end + len(_END)
    return found
