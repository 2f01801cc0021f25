"""A cluster's CA in a file, for clients that take it in no other form. It is no secret; keys are."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass

from kubeauth._config.client_config import ClientConfig


@dataclass(frozen=True, slots=True)
class _Made:
    path: str
    owner: int
    """The process that made it."""
    identity: tuple[int, int]
    """Device and inode, by which it can be told from another file of that name."""

    def is_there(self) -> bool:
        # Cleaners of temporary files do come by, and then anybody may write a CA of theirs to its name.
        with suppress(OSError):
            return _identity(os.lstat(self.path)) == self.identity
        return False


# Guards _files. CAs to the files that hold them, for as long as the process lives.
_lock = threading.Lock()
_files: dict[bytes, _Made] = {}


def ca_file(config: ClientConfig) -> str | None:
    """Where the CA of `config` is: its own file, or one that is removed at exit. None for the system's."""
    if not config.ca_data:
        return config.ca_file
    with _lock:
        made = _files.get(config.ca_data)
        if made is None or not made.is_there():
            descriptor, path = tempfile.mkstemp(prefix="kubeauth-ca-", suffix=".crt")
            with os.fdopen(descriptor, "wb") as file:
                file.write(config.ca_data)
                made = _Made(path, os.getpid(), _identity(os.fstat(descriptor)))
            _files[config.ca_data] = made
        return made.path


@atexit.register
def remove_ca_files() -> None:
    """Those of this process: after a fork the parent's are still in use."""
    for made in list(_files.values()):
        if made.owner == os.getpid() and made.is_there():
            with suppress(OSError):
                os.unlink(made.path)
    _files.clear()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
