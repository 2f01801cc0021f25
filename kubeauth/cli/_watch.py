"""`kubeauth get --watch`: what there is, and then each change as it comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubeauth._parsing import Json
from kubeauth.cli._asking import Asking, TimedOut
from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._get import Options, Output
from kubeauth.cli._output import as_json_line, as_yaml, load_json, pass_on, read_json, write, write_text
from kubeauth.cli._paths import Target
from kubeauth.cli._refusals import Refused, refusal_in
from kubeauth.cli._tables import is_table


def watch(asking: Asking, target: Target, options: Options) -> int:
    """Lists, then watches from there, as kubectl does. To its end, which is no error, nor is a time limit.

    A query that says watch=1 or resourceVersion= itself gets the watch alone, and so does -o raw.
    """
    accept, shown = options.accept, _Shown(options)
    watched = target.in_its_collection()
    lists = not target.watches and watched.parameter("resourceVersion") is None
    if lists and options.output is not Output.raw:
        with asking.answer(watched, accept=accept) as response:
            listed = read_json(response.read())
        version = _version_of(listed)
        if not version:
            raise Failed("error: what is there cannot be watched: it is no list of a resource.")
        if target.name and not _has_items(listed):
            kind = target.collection.rpartition("/")[2]
            raise Refused(404, "NotFound", f'{kind} "{target.name}" not found')
        shown.list(listed)
        watched = watched.with_parameters(resourceVersion=version)
    try:
        with asking.answer(watched.with_parameters(watch="1"), accept=accept) as response:
            if options.output is Output.raw:
                pass_on(response.iter_bytes(), untouched=True)
            else:
                for event in _events(response.iter_bytes()):
                    shown.event(event)
    except TimedOut:
        pass
    return Status.OK


class _Shown:
    """Prints one object after the other, in the format that was asked for."""

    def __init__(self, options: Options) -> None:
        self._output = options.output
        self._with_events = options.output_watch_events
        self._tables = options.tables()
        self._has_begun = False

    def list(self, listed: Json) -> None:
        if self._output.is_tabular and is_table(listed):
            write_text(self._tables.text(listed))
            return
        for item in _items(listed):
            self._one({"type": "ADDED", "object": item})

    def event(self, event: dict[str, Any]) -> None:
        if event["type"] != "BOOKMARK" or self._with_events:
            self._one(event)

    def _one(self, event: dict[str, Any]) -> None:
        value = event["object"]
        if self._output.is_tabular and is_table(value):
            write_text(self._tables.text(value))
            return
        value = event if self._with_events else value
        if self._output is Output.yaml:
            write((b"---\n" if self._has_begun else b"") + as_yaml(value))
        else:
            write(as_json_line(value))
        self._has_begun = True


def _events(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events of a watch. Refused for one that is an error."""
    for number, line in enumerate(_lines(chunks)):
        try:
            event = load_json(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or "object" not in event or not isinstance(event.get("type"), str):
            if number:
                raise Failed("error: the watch broke off in the middle of an event. Begin it again.")
            raise Failed(
                "error: the server answers, but not with events. A list can be watched; for one object of "
                "it write LIST?fieldSelector=metadata.name=NAME."
            )
        if event["type"] == "ERROR":
            raise refusal_in(event["object"]) or Failed("error: the server ended the watch with an error")
        yield event


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield from filter(None, [b"".join([*parts, line]).strip()])
            parts = []
        parts.append(rest)
    yield from filter(None, [b"".join(parts).strip()])


def _version_of(listed: Json) -> str:
    metadata = listed.get("metadata") if isinstance(listed, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


def _has_items(listed: dict[str, Any]) -> bool:
    return bool(listed.get("rows") if is_table(listed) else listed.get("items"))


def _items(listed: dict[str, Any]) -> Iterator[Json]:
    """Each with its kind, which a list says once for all; or itself, if it is none."""
    items = listed.get("items")
    if not isinstance(items, list):
        yield listed
        return
    known = {"apiVersion": listed.get("apiVersion"), "kind": str(listed.get("kind")).removesuffix("List")}
    for item in items:
        yield {**known, **item} if isinstance(item, dict) else item
