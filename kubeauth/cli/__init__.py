"""The command `kubeauth`. Each of its commands has a module of its own; `_app` names them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Does what the command line says, or `arguments`; then exits."""
    from kubeauth.errors import KubeAuthError

    try:
        for needed in ("rich", "typer"):
            import_module(needed)
    except ImportError as error:
        _fail(f"the command line needs {error.name}. Install it: pip install 'kubeauth[cli]'")
    from kubeauth.cli._app import app

    try:
        app(args=arguments, prog_name="kubeauth")
    except KubeAuthError as error:
        _fail(str(error))


def _fail(why: str) -> None:
    print(f"error: {why}", file=sys.stderr)
    raise SystemExit(1)
