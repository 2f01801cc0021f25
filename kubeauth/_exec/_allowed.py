"""Whether a plugin may be run, by its policy (P4-P8)."""

from __future__ import annotations

import os.path

from kubeauth._exec._command import NotFound, find_command
from kubeauth._exec._policy import ALLOWLIST, DENY_ALL, PluginPolicy


class Allowance:
    """A policy that is asked before every run. What its names stand for is found out once (P8)."""

    def __init__(self, policy: PluginPolicy) -> None:
        self._policy = policy
        self._allowed = set(policy.commands)

    def refusal(self, command: str, found: str | NotFound, path: str) -> str | None:
        """Why `command`, found at `found`, may not be run; None if it may.

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
