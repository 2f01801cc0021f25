"""The command line, put together: one module per command, imported when that command is given.

Such a module has `Options`, the command's own flags with their defaults; `add_arguments(parser)`; and
`run(options)`, which returns the exit status, and whose docstring is what `--help` says.

argparse, because a command that is typed all day must start at once: it takes a tenth of the time that
click or typer take to be imported, and needs nothing installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from textwrap import dedent
from typing import NoReturn, Protocol, cast

import kubeauth
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags, add_flags

COMMANDS = {
    "demo": "replace credentials under load, live on the screen",
    "doctor": "look at everything between the kubeconfig and the server's answer",
}

# What a command may need, and the extra that brings it.
_EXTRAS = {"rich": "cli"}


class Command(Protocol):
    """A command's module."""

    Options: type[Flags]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, options: Flags) -> int: ...


def run(arguments: Sequence[str]) -> int:
    """Does what `arguments` say, and returns the exit status. SystemExit for help."""
    first, rest = _first_parser().parse_known_args(arguments, _First())
    if not first.command:
        _first_parser().print_help(sys.stderr)
        return Status.USAGE
    command = command_of(first.command)
    options = parser_of(first.command).parse_args([*first.rest, *rest], command.Options(**first.flags()))
    options.set_up_logging()
    try:
        return command.run(options)
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRAS:
            raise
        message = f"error: this command needs {name}. Install it: pip install 'kubeauth[{_EXTRAS[name]}]'"
    raise Failed(message)


class _First(Flags):
    """What stands before the command and may stand behind it, the command, and what is for it to read."""

    command: str | None = None
    rest: Sequence[str] = ()

    def flags(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("command", "rest")}


def _first_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items())
    parser = _Parser(
        "kubeauth",
        usage="kubeauth [flags] COMMAND ...",
        description="Kubernetes credentials, the way client-go does them.\n\ncommands:\n" + listed,
        epilog="Flags may stand before or behind the command. `kubeauth COMMAND --help` says more.",
    )
    version = f"kubeauth {kubeauth.__version__}"
    parser.add_argument("--version", action="version", version=version, help="show the version, and exit")
    parser.add_argument("command", nargs="?", default=None, choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    add_flags(parser, shown=True)
    return parser


def command_of(name: str) -> Command:
    """Its module."""
    return cast(Command, import_module(f"kubeauth.cli._{name}"))


def parser_of(name: str) -> argparse.ArgumentParser:
    """What reads the arguments of a command, and explains them."""
    command = command_of(name)
    parser = _Parser(
        f"kubeauth {name}",
        description=dedent(f"    {command.run.__doc__}").strip(),
        epilog="--context, --namespace, --as, -v and the like: see `kubeauth --help`.",
    )
    command.add_arguments(parser)
    add_flags(parser, shown=False)
    return parser


class _Parser(argparse.ArgumentParser):
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

    def error(self, message: str) -> NoReturn:
        """Not with the whole usage: what is wrong would not be seen behind it."""
        raise Failed(f"error: {message}\nSee `{self.prog} --help`.", Status.USAGE)


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)
