"""The command `kubeauth`. Each of its commands has a module of its own; `_app` names them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from kubeauth._compat import skip_optional_imports

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Does what the command line says, or `arguments`; then exits. docs/cli.md lists the exit codes."""
    if arguments is None:  # else it is somebody's program, and theirs to say
        skip_optional_imports()
        # One process, which shows its own metrics: those of somebody's workers are not its business.
        os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed, as by `2>&-`: what is said must not go to the other
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 -- to the end
    from kubeauth._streams import flush_stderr
    from kubeauth.cli._app import run
    from kubeauth.cli._ends import end_of, end_on_signals, fault_of

    try:
        if arguments is None:
            end_on_signals()
        status = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BaseException as error:
        end = end_of(error) or fault_of(error)
        if end is None:
            raise
        # Not `from`: whoever asked for a line is not helped by a traceback, and it could show secrets.
        status = end.told()
    finally:
        if arguments is None:
            flush_stderr()
    raise SystemExit(status)
