"""`kubeauth get`: what the API server says at a path, as it is or as a table."""

from __future__ import annotations

import argparse
from enum import StrEnum
from typing import TYPE_CHECKING

from kubeauth.cli._ends import Failed, Status, tell
from kubeauth.cli._flags import Flags, add_output
from kubeauth.cli._output import as_json, as_yaml, pass_on, read_json, write, write_text
from kubeauth.cli._paths import RESOURCES, not_core, target_of
from kubeauth.cli._refusals import Refused, is_json
from kubeauth.cli._tables import ACCEPT, ServerTables, is_table

if TYPE_CHECKING:
    from kubeauth.cli._asking import Asking
    from kubeauth.cli._paths import Target

COMPLETIONS = {"path": RESOURCES}


class Output(StrEnum):
    """How the answer is printed."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    raw = "raw"

    @property
    def is_tabular(self) -> bool:
        return self in (Output.table, Output.wide)


class Options(Flags):
    path: str
    output: Output = Output.table
    all_namespaces: bool = False
    watch: bool = False
    output_watch_events: bool = False

    @property
    def accept(self) -> str:
        """What the server is asked to answer with."""
        return ACCEPT if self.output.is_tabular else "application/json, */*"

    def tables(self) -> ServerTables:
        return ServerTables(wide=self.output is Output.wide, with_namespace=self.all_namespaces)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="/api/v1/namespaces; or pods, pods/web-0, apps/v1/deployments"
    )
    add_output(parser, Output, "table (default), wide, json, yaml, or raw: the bytes as they came")
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="leave the namespace out of the path"
    )
    parser.add_argument(
        "-w", "--watch", action="store_true", help="then print what changes, until the server ends it"
    )
    parser.add_argument(
        "--output-watch-events",
        action="store_true",
        help="with -w and -o json or yaml: what happened, around what it happened to",
    )


def run(options: Options) -> int:
    """Ask the API server for PATH, and print the answer.

    A PATH that begins with a slash is asked for as it is, as by `kubectl get --raw`. Any other is put
    together, by its syntax alone, with the namespace of -n or of the context:

      pods                     /api/v1/namespaces/NAMESPACE/pods
      pods/web-0               /api/v1/namespaces/NAMESPACE/pods/web-0
      apps/v1/deployments      /apis/apps/v1/namespaces/NAMESPACE/deployments
      nodes, pods with -A      /api/v1/nodes, /api/v1/pods

    A second word that looks like a version makes the first a group. A query goes along: 'pods?limit=5'.

    Printed is the server's own table; if it makes none, its JSON; if it is no JSON, the text as it comes.
    """
    from kubeauth.cli._asking import Asking
    from kubeauth.cli._watch import watch

    with Asking(options) as asking:
        target = target_of(
            options.path, namespace=asking.config.namespace, all_namespaces=options.all_namespaces
        )
        try:
            if options.watch or target.watches:
                return watch(asking, target, options)
            return _get(asking, target, options)
        except Refused as refused:
            # Who may not see a resource is not told that there is none.
            if target.is_core or not target.is_guessed or refused.code not in (403, 404):
                raise
            words = str(refused)
    raise Failed(f"{words}\n{not_core(target.resource)}")


def _get(asking: Asking, target: Target, options: Options) -> int:
    with asking.answer(target, accept=options.accept) as response:
        kind = response.headers.get("Content-Type", "")
        if options.output is Output.raw or (options.output.is_tabular and not is_json(kind)):
            pass_on(response.iter_bytes(), untouched=options.output is Output.raw)
            return Status.OK
        if not is_json(kind):
            what = kind or "of no type"
            raise Failed(f"error: the answer is {what}, not JSON. -o raw prints it as it is.")
        body = response.read()
    if body:
        _print(read_json(body), target, options)
    return Status.OK


def _print(value: object, target: Target, options: Options) -> None:
    if not (options.output.is_tabular and is_table(value)):
        write(as_yaml(value) if options.output is Output.yaml else as_json(value))
        return
    text = options.tables().text(value)
    if not text:
        where = f" in {target.namespace} namespace" if target.namespace else ""
        tell(f"No resources found{where}.")
    write_text(text)
