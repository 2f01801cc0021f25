"""What is written to stdout: bytes at once, as a reader at the other end of a pipe wants them."""

from __future__ import annotations

import codecs
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar

from kubeauth._parsing import Json, write_document
from kubeauth.cli._ends import Failed
from kubeauth.cli._terminal import harmless, is_visible

T = TypeVar("T")

_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]")


def write(data: bytes) -> None:
    """All of it, now."""
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:  # with PYTHONUNBUFFERED it is a file as the system has it, which may take a part
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def write_text(text: str) -> None:
    """The same in the terminal's encoding; what it has no character for is spelled out."""
    write(text.encode(sys.stdout.encoding, "backslashreplace"))


def pass_on(chunks: Iterable[bytes], *, untouched: bool) -> None:
    """Writes them as they come. A terminal gets lines of text that cannot steer it, unless `untouched`."""
    if untouched or not sys.stdout.isatty():
        for chunk in chunks:
            write(chunk)
        return
    # A log may have been written on Windows, or be of one line that is written over and over.
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    last = "\n"
    for chunk in chain(filter(None, chunks), [b""]):
        if text := harmless(decoder.decode(chunk, final=not chunk)):
            write_text(text)
            last = text[-1]
    if last != "\n":
        write_text("\n")  # else the prompt would stand behind it


def read_json(body: bytes) -> Json:
    """What a server announced as JSON."""
    try:
        return load_json(body)
    except (ValueError, RecursionError):
        pass
    raise Failed("error: the answer should be JSON, and is none that can be read. -o raw shows it.")


def load_json(body: bytes) -> Json:
    """What can be written as JSON again: ValueError for NaN and the like, RecursionError for too deep."""
    return json.loads(body, parse_constant=_no_constant, parse_float=_finite)


def _no_constant(_text: str) -> Any:
    raise ValueError


def _finite(text: str) -> float:
    """1e999 would be read as infinity, for which JSON has no word: what is written would be none."""
    if math.isfinite(number := float(text)):
        return number
    raise ValueError


def as_json(value: Json) -> bytes:
    """Indented, for people."""
    written = _unless_too_deep(lambda: write_document(value, as_json=True))
    return _escaped(written.decode("utf-8", "surrogatepass"))


def as_json_line(value: Json) -> bytes:
    """On one line, for programs that read one after the other."""
    text = _unless_too_deep(lambda: json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return _escaped(text) + b"\n"


def as_yaml(value: Json) -> bytes:
    """As one document."""
    written = _unless_too_deep(lambda: write_document(value))
    # What is spelled out stands between double quotes, where YAML has the same words for it.
    return _escaped(written.decode("utf-8", "surrogatepass"))


def _unless_too_deep(write: Callable[[], T]) -> T:
    try:
        return write()
    except RecursionError:
        pass
    raise Failed("error: the answer is nested too deep for this. -o raw prints it as it is.")


def _escaped(text: str) -> bytes:
    """Spells out, as JSON does, what could steer a terminal: its own escapes end at U+001F."""
    return _NOT_ASCII.sub(_escape, text).encode("utf-8", "surrogatepass")


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return char if is_visible(char) else json.dumps(char)[1:-1]
