"""Find kubeconfigs (K13), and read token files, PEM files and others with a size limit."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from kubeauth._config.environment import Environment
from kubeauth._config.validate import redact_path
from kubeauth._secret import Secret
from kubeauth.errors import TokenFileError

SMALL_FILE_LIMIT = 2**20
KUBECONFIG_LIMIT = 32 * 2**20
_INVALID_PATH = "the path contains invalid characters"


def read_file(path: str, *, limit: int = SMALL_FILE_LIMIT, can_block: bool = True) -> bytes:
    """Return the content of a file. Raise OSError if it cannot be read or is larger than `limit` bytes.

    If `can_block` is False, raise OSError also for a FIFO and other files that a read may block on.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO blocks until a process opens it for writing.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError:
        raise OSError(_INVALID_PATH) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            if not can_block:
                raise OSError(None, "it is not a regular file", path)
            # /dev/stdin or <(process substitution): reads must wait for data.
            os.set_blocking(descriptor, True)
        # Not closefd=True: open() rejects the descriptor of a directory without closing it.
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise OSError(f"it is larger than {limit // 2**20} MiB")
    return data


def make_absolute(path: str) -> str:
    """Return an absolute path. Unlike os.path.abspath, do not collapse `link/..`."""
    return os.path.join(get_working_directory(), path)


# These differ between processes: /dev/stdin, /dev/fd/63 of <(process substitution), /proc/self/fd/3.
_PROCESS_LOCAL_PATHS = ("/dev/stdin", "/dev/fd/", "/proc/")


def is_shared_path(path: str) -> bool:
    """Return whether another process that opens `path` later finds the same file."""
    if not os.path.isabs(path) or path.startswith(_PROCESS_LOCAL_PATHS):
        return False
    return os.path.isfile(path) or not os.path.exists(path) or path == os.devnull


def get_working_directory() -> str:
    """Return the working directory; empty if it has been removed, as happens to long-lived processes.

    Relative paths then stay relative, and opening them fails.
    """
    try:
        return os.getcwd()
    except OSError:
        return ""


def describe_os_error(error: OSError) -> str:
    """Return the reason without the file name, which the caller adds to its message."""
    return error.strerror or str(error)


def find_open_problem(path: str) -> str | None:
    """Return why `path` cannot be opened; None if it can."""
    try:
        os.close(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)))
    except OSError as error:
        return describe_os_error(error)
    except ValueError:
        return _INVALID_PATH
    return None


@dataclass(frozen=True, slots=True)
class KubeconfigPaths:
    """The kubeconfig files to merge, in order of precedence, and whether KUBECONFIG lists them."""

    paths: tuple[str, ...]
    from_environment: bool


def find_kubeconfig_paths(environment: Environment) -> KubeconfigPaths:
    """Return the files in KUBECONFIG, else `~/.kube/config` (K13)."""
    path_list = environment.environ.get("KUBECONFIG", "")
    if path_list:
        paths = dict.fromkeys(path_list.split(environment.path_list_separator))
        return KubeconfigPaths(tuple(paths), from_environment=True)
    return KubeconfigPaths((environment.join_home(".kube", "config"),), from_environment=False)


def read_raw_token(path: str) -> Secret[str]:
    """Return the unstripped content of a token file. Raise TokenFileError if it is blank or unreadable."""
    token: Secret[str] | None = None
    # Not raised in the except clauses: the caught errors contain the bytes, and the path, which may be the
    # token itself if the kubeconfig is wrong.
    try:
        token = Secret(read_file(path).decode())
        message = f"read empty token from file {redact_path(path)}"
    except OSError as error:
        message = f"cannot read the token file {redact_path(path)}: {describe_os_error(error)}"
    except UnicodeDecodeError:
        message = f"cannot read the token file {redact_path(path)}: it is not UTF-8 text"
    if token is None or not token.reveal().strip():
        raise TokenFileError(message, path=redact_path(path))
    return token


def read_token_file(path: str) -> Secret[str]:
    """Return the token in a file, stripped. Raise TokenFileError if the file has none or is unreadable."""
    return Secret(read_raw_token(path).reveal().strip())


_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"


def split_pem_certificates(data: bytes) -> list[str]:
    """Return each certificate block, without the text around it. Blocks with PEM headers are ignored."""
    text = data.decode("ascii", "replace")
    blocks: list[str] = []
    # Not a regular expression: many BEGINs without an END would take quadratic time.
    start = 0
    while (end := text.find(_END, start)) >= 0:
        begin = text.rfind(_BEGIN, start, end)
        if begin >= 0 and ":" not in (body := text[begin + len(_BEGIN) : end]):
            blocks.append(f"{_BEGIN}{body}{_END}\n")
        start = end + len(_END)
    return blocks
