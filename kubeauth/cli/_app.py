"""The command line, put together: one module per command, imported when that command is given.

Such a module has `Options`, the command's own flags with their defaults; `add_arguments(parser)`; and
`run(options)`, which returns the exit status, and whose docstring is what `--help` says. A command's name may
have more words than one: `registry match` is a command of the group `registry`, in the module
`_registry_match`. A name can be both: `discover HOST:PORT` is a command, and `discover pin` one of its group.

argparse, because a command that is typed all day must start at once: it takes a tenth of the time that
click or typer take to be imported, and needs nothing installed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from textwrap import dedent
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar, cast

import kubeauth
from kubeauth._compat import argparse_actions, argparse_options
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags, add_flags

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = {
    "get": "ask the API server for a path, and print the answer",
    "token": "print the token that a request would be signed with",
    "whoami": "say who you are to the API server",
    "completion": "print a script that completes commands in bash, zsh or fish",
    "demo": "replace credentials under load, live on the screen",
    "doctor": "look at everything between the kubeconfig and the server's answer",
    "fleet get": "ask the API servers of many contexts for a path, and print the answers",
    "fleet contexts": "list the contexts that patterns mean",
    "proxy": "serve the API server on loopback, and sign what is passed on",
    "schema": "print the JSON Schema of a kubeconfig or another document",
    "registry match": "say which credential providers an image matches, and why not the others",
    "registry credentials": "run them for an image, and print what they give",
    "registry check": "look at a configuration of credential providers",
    "registry manifest": "fetch the manifest of an image with those credentials",
    "discover": "find a cluster by a bootstrap token, a file or a URL, and say whom to trust there",
    "discover pin": "print the pins of certificates",
    "discover token create": "create a bootstrap token, and print it",
    "discover token list": "list the bootstrap tokens of a cluster",
    "discover token delete": "delete bootstrap tokens",
    "gmsa check": "say what becomes of a pod that names credential specs, container by container",
    "gmsa serve": "serve the admission webhook",
    "gmsa manifests": "print what the GMSA webhook needs in a cluster, for kubectl",
}
COMPLETE = "__complete"
"""Not for people: see `_complete`."""
GROUPS = {
    "fleet": "many clusters at once: the contexts of a kubeconfig",
    "registry": "image credentials, as the kubelet's credential providers give them",
    "discover": "clusters that are not known yet, and what they are found by",
    "discover token": "the bootstrap tokens of a cluster",
    "gmsa": "Windows pods with an identity of Active Directory (GMSA)",
}
"""What the commands of a group are about, by its name. A group may be a command, too."""

# What a command may need, and the extra that brings it.
_EXTRAS = {"rich": "cli", "starlette": "gmsa"}

# As Go reads them, behind a flag that needs no value: --insecure-skip-tls-verify=true.
_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "False", "FALSE"), False
)

_BOOTSTRAP_TOKEN = re.compile(r"\b([a-z0-9]{6})\.[a-z0-9]{16}\b")

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
    while name not in COMMANDS or goes_on(name, rest):
        parser = group_parser(name)
        before, rest = (parser_of(name) if name in COMMANDS else parser).split(rest)
        given, unread = parser.read(before, given)
        if not rest:
            parser.print_help(sys.stderr)
            return Status.USAGE
        name = _known(f"{name} {rest[0]}".lstrip(), parser)
        rest = [*unread, *rest[1:]]
    command, parser = command_of(name), parser_of(name)
    options, unread = parser.read(rest, command.Options(**vars(given)))
    if unread:
        word = next(iter(parser.split(rest)[1]), "")
        if name in GROUPS and not unread[0].startswith("-") and meant_by(word, name):
            _known(f"{name} {word}", parser)
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
            found[word] = COMMANDS.get(name, about)
    return found


def goes_on(name: str, rest: list[str]) -> bool:
    """Whether a command is meant for the group that it is: its first argument is a command of that."""
    return name in GROUPS and any(word in commands_of(name) for word in parser_of(name).split(rest)[1][:1])


def _known(name: str, parser: Parser) -> str:
    """`name`, if it is that of a command or a group."""
    if name in COMMANDS or name in GROUPS:
        return name
    group, _, word = name.rpartition(" ")
    close = meant_by(word, group)
    meant = f" Did you mean {close}?" if close else ""
    parser.error(f'unknown command "{word}" for "{parser.prog}".{meant}')


def meant_by(word: str, group: str) -> str | None:
    """The command of `group` that is spelled nearly so."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, commands_of(group), n=1)), None)


def group_parser(group: str) -> Parser:
    """What reads the flags before the command; `group` is "" for the program itself."""
    program = f"kubeauth {group}".rstrip()
    about = f"{GROUPS.get(group, 'Kubernetes credentials, the way client-go does them')}."
    about = about[0].upper() + about[1:]
    parser = Parser(
        program,
        usage=f"{program} [flags] COMMAND ...",
        description=f"{about}\n\n{_listed(group)}",
        epilog="Global flags may stand before the command, its own behind it. "
        f"`{program} COMMAND --help` says more.",
    )
    if not group:
        version = f"kubeauth {kubeauth.__version__}"
        parser.add_argument("--version", action="version", version=version, help="show the version, and exit")
    add_flags(parser, shown=not group)
    return parser


def _listed(group: str) -> str:
    commands = commands_of(group)
    width = max(map(len, commands))
    return "\n".join(["commands:", *(f"  {name:{width}}  {about}" for name, about in commands.items())])


def command_of(name: str) -> Command:
    """Its module."""
    return cast(Command, import_module(f"kubeauth.cli._{name.replace(' ', '_')}"))


def parser_of(name: str) -> Parser:
    """What reads the arguments of a command, and explains them."""
    command = command_of(name)
    about = dedent(f"    {command.run.__doc__}").strip()
    parser = Parser(
        f"kubeauth {name}",
        description=f"{about}\n\n{_listed(name)}" if name in GROUPS else about,
        epilog="--context, --namespace, --as, -v and the like: see `kubeauth --help`.",
    )
    command.add_arguments(parser)
    add_flags(parser, shown=False, but=parser.flags)
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
        return self.parse_known_args(list(self._for_argparse(arguments)), into)

    def error(self, message: str) -> NoReturn:
        """Not with the whole usage: what is wrong would not be seen behind it."""
        # A token that stands where something else should is not repeated.
        message = _BOOTSTRAP_TOKEN.sub(r"\1.****", message)
        raise Failed(f"error: {message}\nSee `{self.prog} --help`.", Status.USAGE)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """argparse's own is content if it cannot be written."""
        (file or sys.stderr).write(message)
        sys.stdout.flush()

    @property
    def actions(self) -> list[argparse.Action]:
        """All that it reads."""
        return argparse_actions(self)

    @property
    def flags(self) -> set[str]:
        return set(argparse_options(self))

    def action_of(self, flag: str) -> argparse.Action | None:
        """What reads that flag, if it is one."""
        return argparse_options(self).get(flag)

    def _for_argparse(self, arguments: Sequence[str]) -> Iterator[str]:
        """What kubectl takes, and argparse does not: a value that begins with a dash, and --flag=false."""
        rest = iter(arguments)
        for argument in rest:
            flag, has_value, value = argument.partition("=")
            action = self.action_of(flag)
            if argument == "--":
                yield argument
                yield from rest
            elif action is None or (has_value and action.nargs != 0):
                yield argument
            elif not has_value:
                # The next word is its value, whatever it looks like.
                following = None if action.nargs == 0 else next(rest, None)
                if following == "--":  # which argparse would lose
                    self.error(f"argument {flag}: expected one argument")
                yield flag if following is None else f"{flag}={following}"
            elif value not in _BOOLEANS:
                self.error(f'invalid argument "{value}" for "{flag}": it is true or false')
            elif _BOOLEANS[value]:
                yield flag


class _Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Paragraphs as wide as the terminal, up to what can be read; what is indented stays as it is."""
        return "\n\n".join(
            block if "\n " in f"\n{block}" else super(_Help, self)._fill_text(block, min(width, 100), indent)
            for block in text.split("\n\n")
        )
