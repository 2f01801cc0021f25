"""What the doctor finds, as values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kubeauth._exec.lookup import escape_terminal
from kubeauth._parsing import Json
from kubeauth.cli._doctor_words import cut

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
# Strangers may say pages. What is to be done is no stranger's, and a command must stay whole.
_MOST_SUMMARY, _MOST_FACT = 600, 4096


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
    command: str = ""
    """What the next step ends with, if that is to be copied and run: it must stay on one line."""

    def __post_init__(self) -> None:
        # Names and messages are strangers' text on its way to a terminal.
        object.__setattr__(self, "summary", _line(self.summary))
        object.__setattr__(self, "next_step", _line(self.next_step))
        object.__setattr__(self, "command", _line(self.command))

    @property
    def advice(self) -> str:
        """The next step without the command."""
        return self.next_step.removesuffix(self.command).rstrip()

    def without(self, secrets: Iterable[str]) -> Finding:
        """To be shown: without any of these, as a server or a plugin may repeat what it was told; then cut.

        Not the other way round: of a secret that was cut, the beginning would be shown.
        """
        # Also as they are in a line.
        secrets = {form for secret in secrets for form in (secret, _line(secret))}
        facts = {
            name: _each(self.facts[name], lambda text: cut(hidden(text, secrets), _MOST_FACT))
            for name in self.facts
        }
        summary = cut(hidden(self.summary, secrets), _MOST_SUMMARY)
        next_step, command = hidden(self.next_step, secrets), hidden(self.command, secrets)
        return Finding(self.id, self.level, summary, next_step, facts, command)


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
    return " ".join(escape_terminal(text).split())


def hidden(text: str, secrets: Iterable[str]) -> str:
    """`text` without these."""
    # The longest first: one may be the beginning of another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN) if len(secret) >= _LEAST else text
    return text


def _each(value: Json, change: Callable[[str], str]) -> Json:
    """`value` with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    if isinstance(value, dict):
        return {name: _each(item, change) for name, item in value.items()}
    return value
