"""A cluster's CA in a file, for clients that take it in no other form. It is no secret; keys are."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from contextlib import suppress

from kubeauth._config._client_config import ClientConfig

# Guards _files. CAs to the files that hold them, for as long as the process lives.
_lock = threading.Lock()
_files: dict[bytes, tuple[str, int]] = {}


def ca_file(config: ClientConfig) -> str | None:
    """Where the CA of `config` is: its own file, or one that is removed at exit. None for the system's."""
    if not config.ca_data:
        return config.ca_file
    with _lock:
        path, _ = _files.get(config.ca_data, ("", 0))
        if not path or not os.path.exists(path):  # cleaners of temporary files do come by
            descriptor, path = tempfile.mkstemp(prefix="kubeauth-ca-", suffix=".crt")
            with os.fdopen(descriptor, "wb") as file:
                file.write(config.ca_data)
            _files[config.ca_data] = path, os.getpid()
        return path


@atexit.register
def remove_ca_files() -> None:
    """Those of this process: after a fork the parent's are still in use."""
    for path, owner in list(_files.values()):
        if owner == os.getpid():
            with suppress(OSError):
                os.unlink(path)
    _files.clear()
