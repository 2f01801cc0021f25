"""Which plugins may be run: the policy and its own consistency (P1, P2)."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

from kubeauth._field_types import check_fields, field_types
from kubeauth.errors import ConfigError

ALLOW_ALL = "AllowAll"
DENY_ALL = "DenyAll"
ALLOWLIST = "Allowlist"


@dataclass(frozen=True, slots=True)
class PluginPolicy:
    """Which exec plugins may run. Make one with `allow_all()`, `deny_all()` or `allowlist([...])`."""

    kind: str = ALLOW_ALL
    """`AllowAll`, `DenyAll` or `Allowlist`."""
    commands: tuple[str, ...] = ()
    """What an `Allowlist` allows."""

    def __post_init__(self) -> None:
        check_fields(self, _FIELDS)
        object.__setattr__(self, "kind", self.kind or ALLOW_ALL)
        problem = policy_problem(
            self.kind, self.commands if self.kind == ALLOWLIST else self.commands or None
        )
        if problem:
            raise ConfigError(f"invalid plugin policy: {problem}")

    @classmethod
    def allow_all(cls) -> Self:
        """Any plugin may run: what client-go and kubectl do unless told otherwise."""
        return cls(ALLOW_ALL)

    @classmethod
    def deny_all(cls) -> Self:
        """No plugin may run."""
        return cls(DENY_ALL)

    @classmethod
    def allowlist(cls, commands: Sequence[str]) -> Self:
        """Only these may run: names looked up on PATH, or absolute paths."""
        return cls(ALLOWLIST, cast("tuple[str, ...]", commands))  # a list becomes one in __post_init__


_FIELDS = field_types(PluginPolicy)


def policy_problem(kind: str, commands: Sequence[str] | None) -> str | None:
    """What is wrong with a policy, in client-go's words; None if nothing is.

    `commands` is None when no list was given at all: that is not the same as an empty list.
    """
    if kind in ("", ALLOW_ALL, DENY_ALL):
        if commands is not None:
            return (
                "misconfigured credential plugin allowlist: "
                f'plugin policy is "{kind}" but allowlist is non-nil'
            )
        return None
    if kind != ALLOWLIST:
        return f'unknown plugin policy: "{kind}"'
    if commands is None:
        return f'credential plugin policy set to "{ALLOWLIST}", but allowlist is unspecified'
    if not commands:
        return (
            f'credential plugin policy set to "{ALLOWLIST}", but allowlist is empty; '
            f'use "{DENY_ALL}" policy instead'
        )
    for number, command in enumerate(commands, start=1):
        if not command:
            return f"misconfigured credential plugin allowlist: empty allowlist entry #{number}"
        if command != (cleaned := clean_path(command)):
            return f'non-normalized file path: "{command}" vs "{cleaned}"'
    return None


def clean_path(path: str) -> str:
    """The shortest equal path, as Go's filepath.Clean gives it."""
    cleaned = os.path.normpath(path)
    # POSIX lets `//x` mean something else, so normpath keeps it; Go does not.
    return cleaned[1:] if os.sep == "/" and cleaned.startswith("//") else cleaned
