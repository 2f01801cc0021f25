"""One thing that is wrong with a configuration, as a value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN_PROBLEMS = 20


def spelled_out(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else f"U+{ord(char):04X}" for char in text)


def _printable(text: str, limit: int = 600) -> str:
    """A stranger's text for a terminal: no control characters, and not pages of it."""
    if len(text) > limit:
        # The reason stands at the end of a sentence.
        text = f"{text[: limit // 2]}...{text[-limit // 2 :]}"
    return spelled_out(text)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration: what, where, and what to do about it.

    Names and paths in it come from the file: they are cut short and cannot steer a terminal.
    """

    message: str
    path: str | None = None
    """The file it stands in, if it came from a file."""
    field: str | None = None
    """Where in the file, as `users["alice"].user.exec.command`."""
    hint: str = ""
    """What to do next."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _printable(self.message))
        object.__setattr__(self, "hint", _printable(self.hint))
        if self.field:
            object.__setattr__(self, "field", _printable(self.field))

    @property
    def place(self) -> str:
        """File and field, as far as the message does not name them already."""
        parts = (_printable(part) for part in (self.path, self.field) if part and part not in self.message)
        return ", ".join(parts)


def told(problems: Sequence[Problem]) -> str:
    """All of them, as client-go does; below, where each is and what to do. Twenty, if there are more."""
    more = len(problems) - SHOWN_PROBLEMS
    problems = problems[:SHOWN_PROBLEMS]
    messages = [problem.message for problem in problems]
    if more > 0:
        messages.append(f"and {more:,} more")
    lines = [messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"]
    for number, problem in enumerate(problems, start=1):
        mark = "" if len(problems) == 1 else f"{number}. "
        if problem.place:
            lines.append(f"  {mark}in {problem.place}")
            mark = " " * len(mark)
        if problem.hint:
            lines.append(f"  {mark}{problem.hint}")
    return "\n".join(lines)
