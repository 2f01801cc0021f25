"""The command line, put together: one module per command, imported when that command is given.

Such a module has `Options`, the command's own flags with their defaults; `add_arguments(parser)`; and
`run(options)`, which returns the exit status, and whose docstring is what `--help` says. A command's name may
have two words: `registry match` is a command of the group `registry`, in the module `_registry_match`.

argparse, because a command that is typed all day must start at once: it takes a tenth of the time that
click or typer take to be imported, and needs nothing installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from textwrap import dedent
from typing import NoReturn, Protocol, TypeVar, cast

import kubeauth
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags, add_flags

COMMANDS = {
    "get": "ask the API server for a path, and print the answer",
    "token": "print the token that a request would be signed with",
    "whoami": "say who you are to the API server",
    "completion": "print a script that completes commands in bash, zsh or fish",
    "demo": "replace credentials under load, live on the screen",
    "doctor": "look at everything between the kubeconfig and the server's answer",
}
COMPLETE = "__complete"
"""Not for people: see `_complete`."""
GROUPS: dict[str, str] = {}
"""What the commands of a group are about, by its name."""

# What a command may need, and the extra that brings it.
_EXTRAS = {"rich": "cli"}

# As Go reads them, behind a flag that needs no value: --insecure-skip-tls-verify=true.
_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "False", "FALSE"), False
)

N = TypeVar("N", bound=argparse.Namespace)


class Command(Protocol):
    """A command's module."""

    Options: type[Flags]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, options: Flags) -> int: ...


def run(arguments: Sequence[str]) -> int:
    """Does what `arguments` say, and returns the exit status. SystemExit for help."""
    name, given, rest = "", Flags(), list(arguments)
    if rest[:1] == [COMPLETE]:
        from kubeauth.cli._complete import complete

        return complete(rest[1:])
    while name not in COMMANDS:
        parser = group_parser(name)
        before, rest = parser.split(rest)
        given, unread = parser.read(before, given)
        if not rest:
            parser.print_help(sys.stderr)
            return Status.USAGE
        name = _known(f"{name} {rest[0]}".lstrip(), parser)
        rest = [*unread, *rest[1:]]
    command, parser = command_of(name), parser_of(name)
    options, unread = parser.read(rest, command.Options(**vars(given)))
    if unread:
        what = "unknown flag" if unread[0].startswith("-") else "unexpected argument"
        parser.error(f"{what}: {unread[0].partition('=')[0]}")  # a value may be a secret
    options.set_up_logging()
    try:
        return command.run(options)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        message = (
            f"error: this command needs {package}. Install it: pip install 'kubeauth[{_EXTRAS[package]}]'"
        )
    raise Failed(message)


def commands_of(group: str) -> dict[str, str]:
    """The commands and groups in `group` ("" for all), each by its last word, and what they are about."""
    within = f"{group} ".lstrip()
    found = {}
    for name, about in {**COMMANDS, **GROUPS}.items():
        word = name.removeprefix(within)
        if name.startswith(within) and " " not in word:
            found[word] = about
    return found


def _known(name: str, parser: Parser) -> str:
    """`name`, if it is that of a command or a group."""
    if name in COMMANDS or name in GROUPS:
        return name
    group, _, word = name.rpartition(" ")
    from difflib import get_close_matches

    close = get_close_matches(word, commands_of(group), n=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    parser.error(f'unknown command "{word}" for "{parser.prog}".{meant}')


def group_parser(group: str) -> Parser:
    """What reads the flags before the command; `group` is "" for the program itself."""
    program = f"kubeauth {group}".rstrip()
    commands = commands_of(group)
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:{width}}  {about}" for name, about in commands.items())
    about = GROUPS.get(group, "Kubernetes credentials, the way client-go does them.")
    parser = Parser(
        program,
        usage=f"{program} [flags] COMMAND ...",
        description=f"{about}\n\ncommands:\n{listed}",
        epilog=f"Flags may stand before or behind the command. `{program} COMMAND --help` says more.",
    )
    if not group:
        version = f"kubeauth {kubeauth.__version__}"
        parser.add_argument("--version", action="version", version=version, help="show the version, and exit")
    add_flags(parser, shown=not group)
    return parser


def command_of(name: str) -> Command:
    """Its module."""
    return cast(Command, import_module(f"kubeauth.cli._{name.replace(' ', '_')}"))


def parser_of(name: str) -> Parser:
    """What reads the arguments of a command, and explains them."""
    command = command_of(name)
    parser = Parser(
        f"kubeauth {name}",
        description=dedent(f"    {command.run.__doc__}").strip(),
        epilog="--context, --namespace, --as, -v and the like: see `kubeauth --help`.",
    )
    command.add_arguments(parser)
    add_flags(parser, shown=False)
    return parser


class Parser(argparse.ArgumentParser):
    """argparse's, with kubectl's manners."""

    def __init__(self, program: str, *, description: str, epilog: str, usage: str | None = None) -> None:
        super().__init__(
            program,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=_Help,
            # A flag that was not given is not set: its default is the class's.
            argument_default=argparse.SUPPRESS,
            # An abbreviation that works today would be another flag's tomorrow.
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("-h", "--help", action="help", help="show this, and exit")

    def split(self, arguments: list[str]) -> tuple[list[str], list[str]]:
        """The flags with their values, and the rest: from the first word on that is neither."""
        is_value = False
        for number, word in enumerate(arguments):
            if not (is_value or word.startswith("-")):
                return arguments[:number], arguments[number:]
            action = None if is_value else self.action_of(word)
            is_value = action is not None and action.nargs is None
        return arguments, []

    def read(self, arguments: Sequence[str], into: N) -> tuple[N, list[str]]:
        """`into` with what they say, and those that say nothing to this parser."""
        return self.parse_known_args(list(self._without_booleans(arguments)), into)

    def error(self, message: str) -> NoReturn:
        """Not with the whole usage: what is wrong would not be seen behind it."""
        raise Failed(f"error: {message}\nSee `{self.prog} --help`.", Status.USAGE)

    @property
    def actions(self) -> list[argparse.Action]:
        """All that it reads."""
        return self._actions

    def action_of(self, flag: str) -> argparse.Action | None:
        """What reads that flag, if it is one."""
        return self._option_string_actions.get(flag)

    def _without_booleans(self, arguments: Sequence[str]) -> Iterator[str]:
        """--flag=true is --flag, and --flag=false is nothing: argparse does not know the like."""
        for number, argument in enumerate(arguments):
            if argument == "--":
                yield from arguments[number:]
                return
            flag, has_value, value = argument.partition("=")
            action = self.action_of(flag) if has_value else None
            if action is None or action.nargs != 0:
                yield argument
            elif value not in _BOOLEANS:
                self.error(f'invalid argument "{value}" for "{flag}": it is true or false')
            elif _BOOLEANS[value]:
                yield flag


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)
