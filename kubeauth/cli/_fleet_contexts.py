"""`kubeauth fleet contexts`: which contexts patterns mean."""

from __future__ import annotations

import argparse
from enum import StrEnum

from kubeauth.cli._ends import Status
from kubeauth.cli._flags import Flags, add_output
from kubeauth.cli._fleet_flags import chosen_of, contexts_of, split
from kubeauth.cli._output import as_json, write, write_text
from kubeauth.cli._tables import Columns, cell


class Output(StrEnum):
    """How they are printed."""

    table = "table"
    names = "name"
    json = "json"


class Options(Flags):
    contexts: list[str]
    output: Output = Output.table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("contexts", metavar="PATTERN", nargs="*", default=[], help="such as 'prod-*'")
    add_output(parser, Output, "table (default), name: one on a line, or json")


def run(options: Options) -> int:
    """List the contexts of the kubeconfig that PATTERNs mean, all of them without one.

    A PATTERN is as a shell has it, so put it between quotes. It is what --contexts of `kubeauth fleet get`
    takes; nobody is asked for anything here.

      kubeauth fleet contexts 'prod-*' '*-eu-?'
    """
    known = contexts_of(options)
    names = chosen_of(known, split(options.contexts) or ("*",))
    entries = [(name, known.entry(name)) for name in names]
    if options.output is Output.json:
        fields = [
            {"context": name, "cluster": entry.cluster, "user": entry.user, "namespace": entry.namespace}
            for name, entry in entries
        ]
        write(as_json(fields))
    elif options.output is Output.names:
        write_text("".join(f"{cell(name)}\n" for name in names))
    else:
        rows = [[name, entry.cluster, entry.user, entry.namespace] for name, entry in entries]
        shown = [[cell(each) for each in row] for row in rows]
        write_text(Columns().text([["NAME", "CLUSTER", "USER", "NAMESPACE"], *shown]))
    return Status.OK
