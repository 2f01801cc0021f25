"""The command line, put together: one module per command. Those import what they need when they are run."""

from __future__ import annotations

from typing import Annotated

import typer

import kubeauth
from kubeauth.cli._demo import demo

# No tracebacks in colour: they show the values of variables, and those may be secrets.
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # lines of docstrings are joined, and broken where the terminal ends
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kubeauth {kubeauth.__version__}")
        raise typer.Exit


@app.callback()
def _kubeauth(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Kubernetes credentials, the way client-go does them."""


app.command()(demo)
