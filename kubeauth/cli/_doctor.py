"""`kubeauth doctor`: everything between the kubeconfig and the server's answer, and what to do about it."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from kubeauth._exec.lookup import escape_terminal
from kubeauth.cli._ends import Status
from kubeauth.cli._flags import Flags, _timeout

if TYPE_CHECKING:
    from kubeauth.cli._doctor_run import Wanted

TIMEOUT = 10.0
PLUGIN_TIMEOUT = 60.0


class Options(Flags):
    output: str = "table"
    strict: bool = False
    offline: bool = False
    no_exec: bool = False
    plugin_timeout: float | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), help="json is for programs (default: table)"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings too")
    parser.add_argument(
        "--no-exec", action="store_true", help="do not run the plugin, nor ask an OIDC issuer for a token"
    )
    parser.add_argument("--offline", action="store_true", help="touch no network; this includes --no-exec")
    parser.add_argument(
        "--plugin-timeout", type=_timeout, metavar="TIME", help="for the plugin (default: 60s)"
    )


def run(options: Options) -> int:
    """Look at everything between the kubeconfig and the server's answer, and say what to do next.

    The files and who wins, the entries that are used, proxy, DNS, TCP and TLS, certificates and their ends,
    the plugin and what it gives, who you are to the server, its clock, keys that other tools left behind.
    A step that cannot be taken because of one before it is skipped, and says so. No secret is shown.

    Each step on the network has 10 seconds, or --request-timeout. Exits with 1 if there is an error.
    """
    from kubeauth.cli._doctor_findings import Level, worst
    from kubeauth.cli._doctor_report import as_json, as_text
    from kubeauth.cli._doctor_run import Examination

    progress = _Progress()
    try:
        findings = Examination(wanted_by(options), progress.tell).findings()
    finally:
        progress.clear()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name in a kubeconfig may have letters that this terminal has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    if options.output == "json":
        print(as_json(findings))
    else:
        print(as_text(findings, width=shutil.get_terminal_size().columns, colour=_colour()))
    bad = (Level.ERROR, Level.WARNING) if options.strict else (Level.ERROR,)
    return Status.FAILED if worst(findings) in bad else Status.OK


def wanted_by(options: Options) -> Wanted:
    """What the command line asks for."""
    from kubeauth._exec.config import ExecOptions
    from kubeauth.cli._doctor_run import Wanted

    plugin = ExecOptions(timeout=options.plugin_timeout or PLUGIN_TIMEOUT)
    return Wanted(
        loader=replace(options.loader(), exec_options=plugin),
        kubeconfig=options.kubeconfig,
        timeout=options.request_timeout or TIMEOUT,
        offline=options.offline,
        run_plugin=not options.no_exec,
    )


class _Progress:
    """A line on stderr that says what is looked at, while somebody waits at a terminal."""

    def __init__(self) -> None:
        self._is_wanted = _is_terminal(sys.stderr)

    def tell(self, what: str) -> None:
        """One that ends with a line break stays: what comes next may write here too."""
        if self._is_wanted:
            # A plugin's name is a stranger's text.
            text = " ".join(escape_terminal(what).split())
            end = "\n" if what.endswith("\n") else ""
            # A line that is longer than the screen could not be wiped.
            line = f"Looking at {text}"[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r\x1b[K{line}{end}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._is_wanted:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _colour() -> bool:
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether it can be drawn on. None: it was closed, as by `2>&-`."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
