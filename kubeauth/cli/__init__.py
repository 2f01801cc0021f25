"""The command `kubeauth`. Each of its commands has a module of its own; `_app` names them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Does what the command line says, or `arguments`; then exits. docs/cli.md lists the exit codes."""
    # If click and rich are installed, httpx loads its own command line too, and is half as fast to import.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: not to be imported
    from kubeauth.cli._app import run
    from kubeauth.cli._ends import end_of, fault_of

    try:
        status = run(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:  # `>&-`
            sys.stdout.flush()
    except BaseException as error:
        end = end_of(error) or fault_of(error)
        if end is None:
            raise
        # Not `from`: whoever asked for a line is not helped by a traceback, and it could show secrets.
        status = end.told()
    raise SystemExit(status)
