"""`kubeauth discover token delete`: bootstrap tokens that nobody should join with any more."""

from __future__ import annotations

import argparse

from kubeauth._secret import Secret
from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.cli._flags import Flags
from kubeauth.cli._output import write_text


class Options(Flags):
    tokens: list[Secret[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tokens", metavar="TOKEN", nargs="+", type=Secret[str], help="the id of a token, or the whole"
    )


def run(options: Options) -> int:
    """Delete bootstrap tokens from the cluster of the kubeconfig.

    By their ids, which `kubeauth discover token list` shows. All are looked at before the first is deleted,
    and one that is not there does not keep the others. Exits with 1 if one could not be deleted.
    """
    from kubeauth.cli._asking import Asking
    from kubeauth.cli._discover_tokens import secret_of
    from kubeauth.cli._refusals import Refused

    status = Status.OK
    ids = dict.fromkeys(_id(token, number) for number, token in enumerate(options.tokens, start=1))
    with Asking(options) as asking:
        for token_id in ids:
            try:
                with asking.answer(secret_of(token_id), method="DELETE") as response:
                    response.read()
            except Refused as refused:
                tell(str(refused))
                status = Status.FAILED
            else:
                write_text(f'bootstrap token "{token_id}" deleted\n')
    return status


def _id(token: Secret[str], number: int) -> str:
    from kubeauth.discovery._token import BootstrapToken, is_token_id
    from kubeauth.errors import ConfigError

    if is_token_id(token.reveal()):
        return token.reveal()
    try:
        return BootstrapToken.parse(token).id
    except ConfigError:
        pass
    raise Failed(
        f"error: argument {number} is neither the id of a bootstrap token, which is six of a-z and 0-9, nor "
        "a whole one.\nSee `kubeauth discover token delete --help`.",
        Status.USAGE,
    )
