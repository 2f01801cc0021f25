"""Where a command is, as Go's os/exec finds it (X12-X14)."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from kubeauth._exec._policy import clean_path


@dataclass(frozen=True, slots=True)
class NotFound:
    """Why there is no such command."""

    reason: str


def has_separator(command: str) -> bool:
    """Whether it is a path. A bare name is looked for on PATH."""
    return os.path.basename(command) != command


def find_command(command: str, path: str) -> str | NotFound:
    """The executable that `command`, cleaned, stands for; `path` is our own PATH, not the plugin's."""
    if has_separator(command):
        return command if _is_executable(command) else NotFound(_why_not(command))
    if os.name == "nt":
        return shutil.which(command, path=path) or NotFound("executable file not found in %PATH%")
    for directory in path.split(os.pathsep):
        found = clean_path(os.path.join(directory or ".", command))
        if _is_executable(found):
            if not os.path.isabs(found):
                # Whoever can write into the working directory would choose the plugin.
                return NotFound(
                    "it was found in the current directory, by an entry of PATH that is not absolute"
                )
            return found
    return NotFound("executable file not found in $PATH")


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why_not(path: str) -> str:
    if not os.path.exists(path):
        return "no such file or directory"
    return "is a directory" if os.path.isdir(path) else "permission denied"
