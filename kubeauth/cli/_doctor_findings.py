"""What the doctor finds, as values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kubeauth._documents import Json
from kubeauth._exec._hint import clean_hint

# Of a table. What is there and not here would be forgotten in the docs too: a test compares them.
SECTIONS: dict[str, tuple[str, ...]] = {
    "kubeconfig": ("file", "context", "entries", "others"),
    "the way to the server": ("proxy", "dns", "connect", "tls", "server-cert", "ca"),
    "credential": ("policy", "plugin", "issuer", "client-cert", "credential"),
    "the server's answer": ("whoami", "clock", "version", "ready"),
    "this machine": ("leftovers", "versions"),
}

HIDDEN = "<hidden>"
# A shorter secret is a word that may stand anywhere.
_LEAST = 8


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, what came of it, and what to do next."""

    id: str
    level: Level
    summary: str
    next_step: str = ""
    facts: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def __post_init__(self) -> None:
        # Names and messages are strangers' text on its way to a terminal.
        object.__setattr__(self, "summary", _line(self.summary))
        object.__setattr__(self, "next_step", _line(self.next_step))

    def without(self, secrets: Iterable[str]) -> Finding:
        """The same without any of these: a server or a plugin may repeat what it was told."""
        # The longest first: one may be the beginning of another.
        hide = sorted((secret for secret in secrets if len(secret) >= _LEAST), key=len, reverse=True)
        facts = {name: _hidden(value, hide) for name, value in self.facts.items()}
        return Finding(self.id, self.level, _hidden(self.summary, hide), _hidden(self.next_step, hide), facts)


def ok(id: str, summary: str, **facts: Json) -> Finding:
    """Nothing to do."""
    return Finding(id, Level.OK, summary, facts=facts)


def warning(id: str, summary: str, next_step: str, **facts: Json) -> Finding:
    """It works, and somebody should look at it."""
    return Finding(id, Level.WARNING, summary, next_step, facts)


def error(id: str, summary: str, next_step: str, **facts: Json) -> Finding:
    """It does not work."""
    return Finding(id, Level.ERROR, summary, next_step, facts)


def skipped(id: str, why: str, **facts: Json) -> Finding:
    """It was not looked at."""
    return Finding(id, Level.SKIPPED, why, facts=facts)


def worst(findings: Iterable[Finding]) -> Level:
    """Of all. What was skipped is not bad by itself."""
    found = {finding.level for finding in findings}
    return next((level for level in (Level.ERROR, Level.WARNING) if level in found), Level.OK)


def _line(text: str) -> str:
    return " ".join(clean_hint(text).split())


def _hidden(value: Json, secrets: list[str]) -> Json:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, list):
        return [_hidden(item, secrets) for item in value]
    if isinstance(value, dict):
        return {name: _hidden(item, secrets) for name, item in value.items()}
    return value
