"""`kubeauth demo`: credentials that live for seconds, replaced under load, live on the screen."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kubeauth.cli._demo_run import Run, Screen

_LOCAL, _REAL = "Here, without a cluster", "On a cluster of yours"


class Mode(StrEnum):
    """What the plugin issues."""

    token = "token"  # noqa: S105 -- a word
    cert = "cert"
    both = "both"


def demo(
    seconds: Annotated[float, typer.Option(min=1.0, help="How long to go on.")] = 20.0,
    mode: Annotated[
        Mode | None,
        typer.Option(help="What the plugin issues.", show_default="both", rich_help_panel=_LOCAL),
    ] = None,
    lifetime: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="Seconds that a credential lives; a certificate's end is a whole second, so up to one more.",
            show_default="2.0",
            rich_help_panel=_LOCAL,
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Ask the cluster of this file for its /version, at most 20 times a second.",
            rich_help_panel=_REAL,
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="Another context than the current one.", rich_help_panel=_REAL),
    ] = None,
) -> None:
    """Replace credentials under load, and show that nothing fails.

    A local API server takes tokens and client certificates and refuses them once they are over, a plugin
    issues new ones, and threads on a Client and tasks on an AsyncClient send requests all the while. Exits
    with 1 if any of them failed.
    """
    if kubeconfig is None and context is None:
        run = _here(seconds, mode or Mode.both, 2.0 if lifetime is None else lifetime)
    elif mode is None and lifetime is None:
        run = _there(seconds, kubeconfig, context)
    else:
        raise typer.BadParameter("--mode and --lifetime are for the local server, not for your cluster.")
    with run:
        run.go(_screen())
    raise typer.Exit(0 if run.succeeded else 1)


def _here(seconds: float, mode: Mode, lifetime: float) -> Run:
    from kubeauth.cli._demo_run import Run
    from kubeauth.cli._demo_server import DemoCluster

    cluster = DemoCluster(
        token=mode is not Mode.cert, certificate=mode is not Mode.token, lifetime=lifetime
    )  # fmt: skip
    return Run.here(cluster, seconds)


def _there(seconds: float, kubeconfig: Path | None, context: str | None) -> Run:
    import kubeauth
    from kubeauth.cli._demo_run import Run

    return Run.there(kubeauth.load_config(kubeconfig, context=context), seconds)


def _screen() -> Screen:
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from kubeauth.cli._demo_screen import LiveScreen

        return LiveScreen()
    from kubeauth.cli._demo_plain import PlainScreen

    return PlainScreen()
