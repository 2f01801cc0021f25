"""What could stand where the cursor is: `kubeauth __complete WORD...`, for the scripts of `completion`.

The first line of its answer says what follows: `words`, each with a tab and what it is, or `files`, which a
shell knows best. No server is asked: it must be there before the finger has left the key.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kubeauth.cli._app import COMMANDS, GROUPS, Parser, command_of, commands_of, group_parser, parser_of
from kubeauth.cli._ends import Status
from kubeauth.cli._output import write_text

# What a kubeconfig has a list of, by the flag that chooses of it.
_NAMED = {**{kind: kind for kind in ("context", "cluster", "user", "namespace")}, "contexts": "context"}

Names = Callable[[str, str], Iterable[str]]
"""Those of one kind, in the kubeconfig at a path or, if that is empty, in the one that kubectl would read."""


class Offer(NamedTuple):
    """What could stand there: words and what each is, or a path."""

    words: dict[str, str]
    files: bool = False

    def lines(self) -> Iterator[str]:
        """As the scripts read it."""
        yield "files" if self.files else "words"
        yield from (f"{word}\t{about}" for word, about in self.words.items())


class _Line:
    """The words before the cursor, as far as they are understood."""

    def __init__(self) -> None:
        self.name = ""
        """Of the command, or of the group that it is in."""
        self.parser: Parser = group_parser("")
        self.waiting: argparse.Action | None = None
        """For its value, which is the next word."""
        self.kubeconfig = ""
        self.arguments = 0
        self.has_no_more_flags = False

    @property
    def has_command(self) -> bool:
        return self.name in COMMANDS

    def takes_a_command(self, word: str) -> bool:
        """Whether it is one of the group that this command is."""
        return self.name in GROUPS and not self.arguments and word in commands_of(self.name)

    def add(self, word: str) -> bool:
        """Takes one word more. False if it makes no sense, so that nothing can follow."""
        if self.waiting is not None:
            self._given(self.waiting, word)
            self.waiting = None
        elif word == "--" and not self.has_no_more_flags:
            self.has_no_more_flags = True
        elif word.startswith("-") and word != "-" and not self.has_no_more_flags:
            flag, has_value, value = word.partition("=")
            action = self.parser.action_of(flag)
            if action is not None and has_value:
                self._given(action, value)
            elif action is not None and action.nargs is None:
                self.waiting = action
        elif self.has_command and not self.takes_a_command(word):
            self.arguments += 1
        else:
            self.name = f"{self.name} {word}".lstrip()
            if self.has_command:
                self.parser = parser_of(self.name)
            elif self.name in GROUPS:
                self.parser = group_parser(self.name)
            else:
                return False
        return True

    def _given(self, action: argparse.Action, value: str) -> None:
        if action.dest == "kubeconfig":
            self.kubeconfig = os.path.expanduser(value)


def offered(words: Sequence[str], names: Names) -> Offer:
    """What could take the place of the last of `words`, which may be the beginning of it or empty."""
    line, last = _Line(), words[-1] if words else ""
    if not all(line.add(word) for word in words[:-1]):
        return Offer({})
    if line.waiting is not None:
        return _beginning_with(last, _values(line.waiting, line, names))
    if last.startswith("-") and not line.has_no_more_flags:
        flag, has_value, value = last.partition("=")
        if not has_value:
            return _beginning_with(last, Offer(_flags(line.parser)))
        action = line.parser.action_of(flag)
        if action is None or action.nargs is not None:
            return Offer({})
        found = _beginning_with(value, _values(action, line, names))
        return found._replace(words={f"{flag}={word}": about for word, about in found.words.items()})
    if not line.has_command:
        return _beginning_with(last, Offer(commands_of(line.name)))
    return _beginning_with(last, _argument(line))


def _beginning_with(start: str, offer: Offer) -> Offer:
    # A word that is no word to a shell or a terminal is of no use there.
    fitting = {
        word: about for word, about in offer.words.items() if word.startswith(start) and word.isprintable()
    }
    return offer._replace(words=fitting)


def _values(action: argparse.Action, line: _Line, names: Names) -> Offer:
    if action.choices is not None:
        return Offer(dict.fromkeys(map(str, action.choices), ""))
    if action.dest in _NAMED:
        kind = _NAMED[action.dest]
        return Offer(dict.fromkeys(sorted(names(kind, line.kubeconfig)), kind))
    return Offer({}, files=action.metavar == "PATH")


def _flags(parser: Parser) -> dict[str, str]:
    """Every flag by its long name. What is not told in each command's help is told in that of all."""
    told = {flag: action for action in group_parser("").actions for flag in action.option_strings}
    return {
        flag: (told.get(flag, action) if action.help == argparse.SUPPRESS else action).help or ""
        for action in parser.actions
        for flag in action.option_strings
        if flag.startswith("--")
    }


def _argument(line: _Line) -> Offer:
    """For the arguments of a command that are no flags."""
    positional = [action for action in line.parser.actions if not action.option_strings]
    if not positional or (line.arguments >= len(positional) and positional[-1].nargs not in ("*", "+")):
        return Offer({})
    action = positional[min(line.arguments, len(positional) - 1)]
    if action.choices is not None:
        return Offer(dict.fromkeys(map(str, action.choices), ""))
    words = dict.fromkeys(getattr(command_of(line.name), "COMPLETIONS", {}).get(action.dest, ()), "")
    if line.name in GROUPS and not line.arguments:
        words |= commands_of(line.name)
    return Offer(words, files=action.metavar in ("CONFIG", "CERT"))


def names_in_kubeconfig(kind: str, path: str) -> Iterable[str]:
    """The names of that kind; none if there is no kubeconfig that can be read."""
    from kubeauth._config.environment import Environment
    from kubeauth._config.files import find_kubeconfig_paths
    from kubeauth._config.kubeconfig import read_kubeconfigs
    from kubeauth._config.resolve import merge_kubeconfigs

    config = merge_kubeconfigs(
        read_kubeconfigs((path,) if path else find_kubeconfig_paths(Environment()).paths).configs
    )
    if kind == "namespace":
        # Those that contexts are about: for all there are, a server would have to be asked.
        return {context.namespace for context in config.contexts.values() if context.namespace}
    return {"context": config.contexts, "cluster": config.clusters, "user": config.users}[kind]


def complete(words: Sequence[str]) -> int:
    """Prints what could take the place of the last of `words`."""
    write_text("".join(f"{line}\n" for line in offered(words, names_in_kubeconfig).lines()))
    return Status.OK
