"""`kubeauth discover token list`: the bootstrap tokens that a cluster knows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth._secret import Secret
from kubeauth.cli._discover import width_of_stdout
from kubeauth.cli._ends import Status, tell
from kubeauth.cli._flags import Flags, add_output
from kubeauth.cli._output import as_json, read_json, write, write_text
from kubeauth.cli._tables import cell, fitted

if TYPE_CHECKING:
    from kubeauth._parsing import Json
    from kubeauth.discovery._secrets import TokenInfo

_NONE = "<none>"
# As kubectl writes how old something is.
_UNITS = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class Output(StrEnum):
    table = "table"
    json = "json"


class Options(Flags):
    show_secrets: bool = False
    output: Output = Output.table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--show-secrets",
        action="store_true",
        help="print whole tokens, as kubeadm does, in place of their ids",
    )
    add_output(parser, Output, "table (default) or json; json has tokens with --show-secrets alone")


def run(options: Options) -> int:
    """List the bootstrap tokens of the kubeconfig's cluster, as `kubeadm token list` does.

    Of each token its id is shown, which is enough to delete it; --show-secrets shows the whole. What is wrong
    with a token that cannot be used is said, too.
    """
    from kubeauth.cli._asking import Asking
    from kubeauth.cli._discover_tokens import ALL

    now = time.time()
    with Asking(options) as asking, asking.answer(ALL) as response:
        found = _listed(read_json(response.read()), now)
    if options.output is Output.json:
        write(as_json([each.facts(options.show_secrets) for each in found]))
    elif found:
        write_text(fitted(_rows(found, now, options.show_secrets), width_of_stdout()))
    else:
        tell("No bootstrap tokens found in kube-system namespace.")
    return Status.OK


@dataclass(frozen=True, slots=True)
class _Listed:
    """A token, as the cluster has it."""

    name: str
    """Its id; of a Secret that is not called as it should be, all of its name."""
    info: TokenInfo
    secret: Secret[str]
    has_end: bool
    """Or says something in place of one."""

    @property
    def token(self) -> str:
        return f"{self.name}.{self.secret.reveal()}"

    def facts(self, show_secrets: bool) -> Json:
        from kubeauth.cli._doctor_words import day

        shown: dict[str, Json] = {"token": self.token} if show_secrets else {}
        return {
            "id": self.name,
            **shown,
            "expires": day(self.info.expires),
            "usages": list(self.info.usages),
            "description": self.info.description,
            "groups": list(self.info.groups),
            "problem": self.info.problem,
        }


def _listed(answer: object, now: float) -> list[_Listed]:
    from kubeauth.discovery._secrets import expiry_of, stored_token, tokens_of

    items = answer.get("items") if isinstance(answer, dict) else None
    found = []
    for item in items if isinstance(items, list) else ():
        stored = stored_token(item)
        for info in tokens_of([item], now=now):  # none, if it is some other Secret
            has_end = expiry_of(stored) is not None
            found.append(_Listed(info.id or stored.metadata.name, info, stored.secret(), has_end))
    return sorted(found, key=lambda each: each.name)


def _rows(found: Sequence[_Listed], now: float, show_secrets: bool) -> Iterator[tuple[str, ...]]:
    """kubeadm's columns, and one more if there is something to say in it."""
    has_problems = any(each.info.problem for each in found)
    names = "TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"
    yield (*names, "PROBLEM") if has_problems else names
    for each in found:
        info = each.info
        row = (
            cell(each.token if show_secrets else each.name),
            *_end(each, now),
            ",".join(info.usages) or _NONE,
            cell(info.description) or _NONE,
            ",".join(info.groups) or _NONE,
        )
        yield (*row, info.problem or _NONE) if has_problems else row


def _end(listed: _Listed, now: float) -> tuple[str, str]:
    from kubeauth.cli._doctor_words import day

    if not listed.has_end:
        return "<forever>", "<never>"
    end = listed.info.expires
    if end is None:
        return "<over>", "<no date>"
    return "<over>" if end <= now else _short(end - now), day(end) or "<no date>"


def _short(seconds: float) -> str:
    """`23h`, `6d`: in the largest unit of which there is one."""
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return f"{int(seconds // size)}{unit}"
