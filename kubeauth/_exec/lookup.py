"""Find a plugin's command (X12-X14), check the plugin policy (P4-P8), limit the install hint (X28, X29)."""

from __future__ import annotations

import os
import os.path
import shutil
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from kubeauth._exec.config import ALLOWLIST, DENY_ALL, PluginPolicy, clean_path


@dataclass(frozen=True, slots=True)
class NotFound:
    """Why the command was not found."""

    reason: str


def has_separator(command: str) -> bool:
    """Return whether `command` is a path. A bare name is looked up on PATH."""
    return os.path.basename(command) != command


def find_command(command: str, path: str) -> str | NotFound:
    """Return the path of the executable. `path` is the PATH of this process, not of the plugin."""
    if has_separator(command):
        return command if _is_executable(command) else NotFound(_explain_not_executable(command))
    if os.name == "nt":
        return shutil.which(command, path=path) or NotFound("executable file not found in %PATH%")
    for directory in path.split(os.pathsep):
        found = clean_path(os.path.join(directory or ".", command))
        if _is_executable(found):
            if not os.path.isabs(found):
                # Otherwise any user who can write to the current directory could replace the plugin.
                return NotFound(
                    "it was found relative to the current directory, by an entry of PATH that is not absolute"
                )
            return found
    return NotFound("executable file not found in $PATH")


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _explain_not_executable(path: str) -> str:
    if not os.path.exists(path):
        return "no such file or directory"
    return "is a directory" if os.path.isdir(path) else "permission denied"


class PolicyCheck:
    """Checks the plugin policy before every run. Names in the allowlist are resolved once (P8)."""

    def __init__(self, policy: PluginPolicy) -> None:
        self._policy = policy
        self._allowed = set(policy.commands)

    def denial_reason(self, command: str, found: str | NotFound, path: str) -> str | None:
        """Return why `command`, found at `found`, is not allowed; None if it is.

        Only text is compared: neither links nor contents, neither arguments nor environment (P6).
        """
        if self._policy.kind == DENY_ALL:
            return f'plugin "{command}" not allowed: policy set to "{DENY_ALL}"'
        if self._policy.kind != ALLOWLIST or command in self._allowed:
            return None
        if isinstance(found, NotFound):
            return (
                f'plugin path "{command}" cannot be resolved for credential plugin allowlist check: '
                f"{found.reason}"
            )
        if found not in self._allowed:
            name = os.path.basename(command)
            for entry in self._policy.commands:
                if os.path.basename(entry) == name:
                    resolved = find_command(entry, path)
                    if not isinstance(resolved, NotFound):
                        self._allowed.add(resolved)
        if found in self._allowed:
            return None
        return f'plugin path "{found}" is not permitted by the credential plugin allowlist'


_SPACES = frozenset("\t\n\v\f\r")


def escape_terminal(text: str) -> str:
    """Write every character that could control a terminal as U+XXXX (X29)."""
    # Each distinct character is checked once: the text may be long.
    unsafe = {
        ord(char): f"U+{ord(char):04X}"
        for char in set(text)
        if char not in _SPACES and unicodedata.category(char)[0] not in "LMNPSZ"
    }
    return text.translate(unsafe) if unsafe else text


class HintLimit:
    """Limits how often the install hint is shown: ten times an hour (X28)."""

    def __init__(self, now: Callable[[], float], *, max_shown: int = 10, interval: float = 3600.0) -> None:
        self._now = now
        self._max_shown = max_shown
        self._interval = interval
        self._since: float | None = None
        self._shown = 0

    def allows(self) -> bool:
        """Return whether the hint may be shown again. Called by one thread at a time."""
        now = self._now()
        if self._since is None or now - self._since >= self._interval:
            self._since, self._shown = now, 0
        self._shown += 1
        return self._shown <= self._max_shown
