"""Files that the command line names; `-` is stdin."""

from __future__ import annotations

import sys

from kubeauth.cli._ends import Failed, Status

STDIN = "-"


def read_given(path: str) -> bytes:
    """All that is in it. Failed if it cannot be read, or is larger than any such file."""
    from kubeauth._config.files import SMALL_FILE_LIMIT, describe_os_error, read_file

    if path == STDIN:
        data = b"" if sys.stdin is None else sys.stdin.buffer.read(SMALL_FILE_LIMIT + 1)
        if len(data) <= SMALL_FILE_LIMIT:
            return data
        # As of a file: of what is cut, nobody would know what is missing.
        raise Failed(
            f"error: stdin cannot be read: it is larger than {SMALL_FILE_LIMIT // 2**20} MiB", Status.CONFIG
        )
    try:
        return read_file(path)
    except OSError as error:
        why = describe_os_error(error)
    raise Failed(f"error: {path} cannot be read: {why}", Status.CONFIG)
