"""The answers of many clusters as one text, and what to say of those that failed. Pure."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from kubeauth.cli._tables import Columns, cell, is_table, server_rows
from kubeauth.fleet._answer import Answer, Failure, counted, summary

# How much of a body stands in a cell, how many lines there are of failures, how many names in one of them.
_MOST_CELL, _MOST_LINES, _MOST_NAMES = 60, 12, 3

Read = list[tuple[Answer, Any]]
"""Answers with what is in them: JSON, or text."""


def tables(read: Read, *, wide: bool, with_namespace: bool) -> str:
    """The servers' own tables as one with the context in front; then whatever else was answered."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    others: list[Sequence[str]] = []
    for answer, value in read:
        if not is_table(value):
            others.append(_row(answer, value, wide))
            continue
        found = server_rows(value, wide=wide)
        # A resource that is in no namespace has no use for that column.
        has_namespace = with_namespace and any(found.namespaces)
        headers = ("CONTEXT", *(("NAMESPACE",) if has_namespace else ()), *found.headers)
        rows = groups.setdefault(headers, []) if found.rows else []
        for namespace, cells in zip(found.namespaces, found.rows, strict=True):
            rows.append([cell(answer.context), *([namespace] if has_namespace else []), *cells])
    # Servers of different versions have different columns: each kind of table is one of its own.
    texts = [Columns().text([headers, *rows]) for headers, rows in groups.items()]
    if others:
        headers = ("CONTEXT", "CODE", "TIME", *(("CLUSTER", "USER", "SERVER") if wide else ()), "ANSWER")
        texts.append(Columns().text([headers, *others]))
    return "\n".join(texts)


def _row(answer: Answer, value: Any, wide: bool) -> list[str]:
    more = [answer.cluster, answer.user, answer.server] if wide else []
    columns = [answer.context, str(answer.status_code), f"{answer.seconds:.2f}s", *more, in_short(value)]
    return [cell(each) for each in columns]


def in_short(value: Any) -> str:
    """What an answer is about: of a list how long it is, of an object its name, of a text its first line."""
    if isinstance(value, str):
        lines = value.strip().splitlines()
        return _cut(lines[0] if lines else "")
    if isinstance(value, dict):
        if isinstance(value.get("gitVersion"), str):
            return str(value["gitVersion"])
        kind, items, metadata = value.get("kind"), value.get("items"), value.get("metadata")
        if isinstance(items, list):
            return f"{len(items):,} {'item' if len(items) == 1 else 'items'}"
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if isinstance(kind, str) and isinstance(name, str):
            return f"{kind} {name}"
    try:
        return _cut(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return "..."


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CELL else f"{text[: _MOST_CELL - 3]}..."


def as_object(answer: Answer, value: Any) -> dict[str, Any]:
    """For programs."""
    about: dict[str, Any] = {
        "context": answer.context,
        "cluster": answer.cluster,
        "user": answer.user,
        "server": answer.server,
        "status": answer.status_code,
        "seconds": round(answer.seconds, 6),
    }
    if answer.failure is not None:
        about["error"] = {"kind": str(answer.failure), "reason": answer.reason}
    if answer.status_code is not None:
        about["body"] = value
    return about


def failures(
    failed: Sequence[Answer],
    number: int,
    words: Iterable[str],
    *,
    width: int | None = None,
    kubeconfig: str | None = None,
) -> str:
    """How many of what, why, and what to do next. `words` are what each of `failed` is said to be."""
    alike: dict[tuple[Failure | None, str], list[str]] = {}
    for answer, why in zip(failed, words, strict=True):
        alike.setdefault((answer.failure, why.partition("\n")[0]), []).append(answer.context)
    rows = [[f"  {kind}", _names(names), why] for (kind, why), names in alike.items()]
    # Of each kind there is one to be seen, before there are more of one.
    order = {id(row): sum(each[0] == row[0] for each in rows[:place]) for place, row in enumerate(rows)}
    shown = [[cell(each) for each in row] for row in sorted(rows, key=lambda row: order[id(row)])]
    shown = shown[:_MOST_LINES]
    text = Columns().text(shown)
    if width is not None and any(len(line) > width for line in text.splitlines()):
        text = "".join(f"{kind}: {names}\n{_wrapped(why, width)}\n" for kind, names, why in shown)
    if len(rows) > len(shown):
        text += f"  and {len(rows) - len(shown):,} more: -o json has all of them\n"
    return f"{summary(number, counted(failed))}\n{text}{_advice(failed, kubeconfig)}".rstrip("\n")


def _wrapped(text: str, width: int) -> str:
    indent = "      "
    return textwrap.fill(
        text,
        max(width, 2 * len(indent)),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _names(names: Sequence[str]) -> str:
    shown, more = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def _advice(failed: Sequence[Answer], kubeconfig: str | None) -> str:
    # Who was refused knows the reason.
    puzzling = [each for each in failed if each.failure not in (Failure.REFUSED, Failure.TOO_LARGE)]
    if not puzzling:
        return ""
    flags = ["--context", puzzling[0].context]
    if kubeconfig:
        flags = ["--kubeconfig", kubeconfig, *flags]
    return f"`kubeauth doctor {shlex.join(flags)}` looks for the reason, step by step."
