"""`kubeauth demo`: credentials that live for seconds, replaced under load, live on the screen."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._flags import Flags, one_of

if TYPE_CHECKING:
    from kubeauth.cli._demo_run import Run, Screen


class Mode(StrEnum):
    """What the plugin issues."""

    token = "token"  # noqa: S105 -- a word
    cert = "cert"
    both = "both"


class Options(Flags):
    seconds: float = 20.0
    mode: Mode | None = None
    lifetime: float | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=_at_least(1.0), metavar="N", help="how long to go on (default: 20)"
    )  # fmt: skip
    here = parser.add_argument_group("here, without a cluster")
    here.add_argument(
        "--mode", type=one_of(Mode), choices=list(Mode), help="what the plugin issues (default: both)"
    )
    here.add_argument(
        "--lifetime",
        type=_at_least(1.0),
        metavar="N",
        help="seconds that a credential lives; a certificate's end is a whole second, so up to one more "
        "(default: 2)",
    )


def run(options: Options) -> int:
    """Replace credentials under load, and show that nothing fails.

    A local API server takes tokens and client certificates and refuses them once they are over, a plugin
    issues new ones, and threads on a Client and tasks on an AsyncClient send requests all the while. Exits
    with 1 if any of them failed.

    With any flag that says which cluster, that one is asked instead, for its /version, at most 20 times a
    second.
    """
    run = _there(options) if options.choose_a_cluster else _here(options)
    with run:
        run.go(_screen())
    return Status.OK if run.succeeded else Status.FAILED


def _here(options: Options) -> Run:
    from kubeauth.cli._demo_run import Run
    from kubeauth.cli._demo_server import DemoCluster

    cluster = DemoCluster(
        token=options.mode is not Mode.cert,
        certificate=options.mode is not Mode.token,
        lifetime=2.0 if options.lifetime is None else options.lifetime,
    )
    return Run.here(cluster, options.seconds)


def _there(options: Options) -> Run:
    from kubeauth.cli._demo_run import Run

    if options.mode is not None or options.lifetime is not None:
        raise Failed(
            "error: --mode and --lifetime are for the local server, not for your cluster", Status.USAGE
        )
    return Run.there(options.config(), options.seconds)


def _screen() -> Screen:
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from kubeauth.cli._demo_screen import LiveScreen

        return LiveScreen()
    from kubeauth.cli._demo_plain import PlainScreen

    return PlainScreen()


def _at_least(least: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not value >= least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least:g}")
        return value

    return number
