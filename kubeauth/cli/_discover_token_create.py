"""`kubeauth discover token create`: a new bootstrap token, known to the cluster."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from kubeauth._secret import Secret
from kubeauth.cli._discover import seconds
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags
from kubeauth.cli._output import write_text
from kubeauth.errors import ConfigError

if TYPE_CHECKING:
    from kubeauth.discovery._new import NewToken

_STDIN = "-"


class Options(Flags):
    given: Secret[str] | None = None
    ttl: float | None = None
    usages: list[str] | None = None
    groups: list[str] | None = None
    description: str = ""
    even_if_weak: bool = False
    print_join_command: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "given",
        metavar="TOKEN",
        nargs="?",
        default=None,  # which is not given to `type`, as the parser's own would be
        type=Secret[str],
        help="this one; - reads it from stdin (default: a new one, from the system's source of randomness)",
    )
    parser.add_argument(
        "--ttl", metavar="TIME", type=seconds, help="how long it is good; 0 is for ever (default: 24h)"
    )
    parser.add_argument(
        "--usages",
        metavar="USAGES",
        action="append",
        help="what it is for: signing, authentication or both (default: both), with commas between",
    )
    parser.add_argument(
        "--groups",
        metavar="GROUPS",
        action="append",
        help="whose member its bearer is: system:bootstrappers:..., with commas between "
        "(default: kubeadm's for nodes that join)",
    )
    parser.add_argument("--description", metavar="TEXT", help="for people: what it is for")
    parser.add_argument(
        "--even-if-weak", action="store_true", help="take a TOKEN that was plainly made by hand"
    )
    parser.add_argument(
        "--print-join-command",
        action="store_true",
        help="print the lines that find and join the cluster with it, in place of the token",
    )


def run(options: Options) -> int:
    """Create a bootstrap token in the cluster of the kubeconfig, and print it.

    It is a Secret in kube-system, as `kubeadm token create` makes it. With --print-join-command there are two
    lines in place of the token: `kubeauth discover` and `kubeadm join`, with the address that the cluster
    publishes and the pins of its CA. The token is in both.
    """
    from kubeauth.cli._asking import Asking
    from kubeauth.cli._discover_tokens import SECRETS, endpoint_of, join_commands, published
    from kubeauth.cli._paths import Target

    new = _new(options)
    with Asking(options) as asking:
        found = None
        if options.print_join_command:
            # Before there is a token: what cannot be said is known by then.
            found = published(asking)
            endpoint_of(found)
        with asking.answer(Target(SECRETS), method="POST", json=new.secret) as response:
            response.read()
    if found is None:
        write_text(f"{new.token.reveal()}\n")
    else:
        write_text(join_commands(found, new.token).reveal())
    return Status.OK


def _new(options: Options) -> NewToken:
    from kubeauth.cli._discover_given import token_from_stdin
    from kubeauth.discovery._new import new_token
    from kubeauth.discovery._token import AUTHENTICATION, SIGNING, BootstrapToken

    given = options.given
    if given is not None and given.reveal() == _STDIN:
        given = token_from_stdin()
    usages = _several(options.usages)
    if options.print_join_command and usages is not None and SIGNING not in usages:
        raise _unusable("a token that a cluster is to be discovered with needs the usage signing")
    try:
        token = None if given is None else BootstrapToken.parse(given)
    except ConfigError as error:
        # Not with its last sentence, which is for whoever has to have one.
        raise _unusable(f"{str(error).partition('. ')[0]}. Give none, and one is generated") from None
    try:
        return new_token(
            token,
            now=time.time(),
            ttl=options.ttl,
            usages=(SIGNING, AUTHENTICATION) if usages is None else usages,
            groups=_several(options.groups),
            description=options.description,
            even_if_weak=options.even_if_weak,
        )
    except ConfigError as error:
        raise _unusable(str(error)) from None


def _unusable(what: str) -> Failed:
    return Failed(f"error: {what.rstrip('.')}.\nSee `kubeauth discover token create --help`.", Status.USAGE)


def _several(given: list[str] | None) -> list[str] | None:
    """As kubeadm takes them: with commas between, and the flag more than once."""
    return None if given is None else [each for text in given for each in text.split(",") if each]
