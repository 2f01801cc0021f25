"""`kubeauth fleet get`: what the API servers of many contexts say at a path, as one table or as JSON."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kubeauth.cli._ends import Failed, Status, no_answer, tell
from kubeauth.cli._flags import Flags, _timeout, add_output
from kubeauth.cli._fleet_flags import chosen_of, contexts_of, split
from kubeauth.cli._output import as_json, as_json_line, load_json, write, write_text
from kubeauth.cli._paths import RESOURCES, not_core, target_of
from kubeauth.cli._refusals import refusal
from kubeauth.cli._tables import ACCEPT, cell
from kubeauth.errors import KubeConfigError

if TYPE_CHECKING:
    from kubeauth._config.client_config import ClientConfig
    from kubeauth.fleet._answer import Answer
    from kubeauth.fleet._plan import Plan

COMPLETIONS = {"path": RESOURCES}
DEFAULT_TIMEOUT = 30.0


class Output(StrEnum):
    """How the answers are printed."""

    table = "table"
    wide = "wide"
    json = "json"
    jsonl = "jsonl"
    names = "name"

    @property
    def is_tabular(self) -> bool:
        return self in (Output.table, Output.wide)


class Options(Flags):
    path: str
    contexts: list[str] | None = None
    all_contexts: bool = False
    concurrency: int = 32
    output: Output = Output.table
    all_namespaces: bool = False
    request_timeout: float | None = DEFAULT_TIMEOUT

    @property
    def seconds(self) -> float | None:
        """For each context; none for less than none, as in Go."""
        limit = self.request_timeout
        return limit if limit is not None and limit > 0 else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="/api/v1/namespaces; or pods, pods/web-0, apps/v1/deployments"
    )
    parser.add_argument(
        "--contexts",
        metavar="PATTERN",
        action="append",
        help="which are asked: 'prod-*'; more than once, or with commas between",
    )
    parser.add_argument("--all-contexts", action="store_true", help="all of the kubeconfig are asked")
    parser.add_argument(
        "--concurrency", metavar="N", type=_at_least_one, help="so many at a time (default: 32)"
    )
    parser.add_argument(
        "--request-timeout",
        metavar="TIME",
        type=_timeout,
        help="for each context, its credential and the whole answer (default: 30s); 0 is for ever",
    )
    add_output(
        parser,
        Output,
        "table (default), wide, json; jsonl: a line for each as it comes; name: of those that answered",
    )
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="leave the namespace out of the path"
    )


def run(options: Options) -> int:
    """Ask the API server of each context that fits for PATH, many at a time, and print what they answer.

    PATH is as for `kubeauth get`: one that does not begin with a slash is put together with the namespace of
    -n or of each context. A plugin is run once for all contexts that have it configured alike, and none may
    ask a person.

      kubeauth fleet get pods --contexts 'prod-*'
      kubeauth fleet get /version --contexts 'prod-*,test-*' -o json

    Printed is one table with the context in front. What failed is said on stderr, by kind, and makes the exit
    status 1. Of the kubeconfig nothing is asked unless --contexts or --all-contexts says so.
    """
    from kubeauth.cli._fleet_progress import watched
    from kubeauth.fleet._crew import threads

    plan = _plan(options)
    answers: list[Answer] = []
    with threads(plan) as coming:
        for answer in watched(coming, len(plan.names), plan.workers, options.verbosity):
            if options.output is Output.jsonl:
                _write_line(answer)
            answers.append(answer)
    order = {name: number for number, name in enumerate(plan.names)}
    answers.sort(key=lambda answer: order[answer.context])
    _print(answers, options)
    return _told(answers, options)


def _plan(options: Options) -> Plan:
    from kubeauth.errors import ConfigError
    from kubeauth.fleet._plan import MOST_BYTES, Plan, options_for

    patterns = split(options.contexts or ())
    if bool(patterns) == options.all_contexts:
        raise Failed(
            "error: say which contexts are asked, by either --contexts 'prod-*' or --all-contexts. "
            "`kubeauth fleet contexts` lists them.",
            Status.USAGE,
        )

    def path(config: ClientConfig) -> str:
        try:
            return _target(options, config.namespace)
        except Failed as error:
            # What is wrong is the namespace in the kubeconfig: PATH itself was looked at before.
            raise ConfigError(str(error).removeprefix("error: ")) from None

    _target(options, options.namespace or "default")
    known = contexts_of(options, options_for(options.seconds))
    return Plan(
        contexts=known,
        names=chosen_of(known, patterns or ("*",)),
        path=path,
        headers={"Accept": ACCEPT if options.output.is_tabular else "application/json, */*"},
        concurrency=options.concurrency,
        timeout=options.seconds,
        most_bytes=MOST_BYTES,
    )


def _target(options: Options, namespace: str) -> str:
    return target_of(options.path, namespace=namespace, all_namespaces=options.all_namespaces).url


def _print(answers: list[Answer], options: Options) -> None:
    from kubeauth.cli._fleet_tables import as_object, tables
    from kubeauth.fleet._answer import counted

    good = [answer for answer in answers if answer.ok]
    if options.output is Output.names:
        write_text("".join(f"{cell(answer.context)}\n" for answer in good))
    elif options.output is Output.json:
        failed = {str(kind): count for kind, count in counted(answers).items()}
        shown = [as_object(answer, _value(answer)) for answer in answers]
        write(as_json({"contexts": len(answers), "failed": failed, "answers": shown}))
    elif options.output.is_tabular:
        read = [(answer, _value(answer)) for answer in good]
        text = tables(read, wide=options.output is Output.wide, with_namespace=options.all_namespaces)
        if read and not text:
            tell(f"No resources found in {len(read):,} {'context' if len(read) == 1 else 'contexts'}.")
        write_text(text)


def _write_line(answer: Answer) -> None:
    from kubeauth.cli._fleet_tables import as_object

    write(as_json_line(as_object(answer, _value(answer))))


def _value(answer: Answer) -> Any:
    """JSON if it is that; else text."""
    try:
        return load_json(answer.body)
    except (ValueError, RecursionError):
        return answer.body.decode(errors="replace")


def _told(answers: list[Answer], options: Options) -> int:
    """Says what failed, if anything did."""
    from kubeauth.cli._fleet_tables import failures

    failed = [answer for answer in answers if not answer.ok]
    if not failed:
        return Status.OK
    kubeconfig = options.kubeconfig
    tell(failures(failed, len(answers), _words(failed), width=_width(), kubeconfig=kubeconfig))
    target = target_of(options.path, namespace="default", all_namespaces=options.all_namespaces)
    is_unknown = any(answer.status_code in (403, 404) for answer in failed)
    if is_unknown and target.is_guessed and not target.is_core:
        tell(not_core(target.resource))
    return Status.FAILED


def _width() -> int | None:
    """Of the terminal that failures are told on; None if it is none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or None
    except (OSError, ValueError):  # the latter of something that is no file
        return None


def _words(failed: Iterable[Answer]) -> Iterator[str]:
    """As kubectl says it, as far as it has words for it."""
    import httpx

    for answer in failed:
        if isinstance(answer.error, httpx.RequestError):
            is_late = isinstance(answer.error, httpx.TimeoutException)
            yield str(answer.error) if is_late else no_answer(answer.error)
        elif answer.error is None and answer.status_code is not None:
            said = refusal(answer.status_code, answer.content_type, answer.body)
            yield str(said).removeprefix("error: ")
        elif isinstance(answer.error, KubeConfigError) and not any(
            each.place for each in answer.error.problems
        ):
            # client-go's words name nothing here: what stands below them is all there is to go by.
            yield ". ".join(line.strip() for line in answer.reason.splitlines())
        else:
            yield answer.reason


def _at_least_one(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
