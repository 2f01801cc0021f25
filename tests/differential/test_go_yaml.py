"""K9a beside Go's YAML itself: scalars of every kind, then thousands of random documents."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kubeauth._parsing import DocumentError, read_yaml
from tests.differential.corpus import go_json

pytestmark = pytest.mark.oracle

TABLE = r"""
a y n Y N no No On ON oN true True TRUE tRue ~ null Null nUll off OFF yes yES
0 -0 +0 1 -1 007 08 0o7 0O7 -0o7 0x 0x1F 0X1f -0x1 +0x10 0b1 0b2 -0b1 0B1 1_000 _1 1_ 0_7 0x_1 1__0 -1_000 00 0o8
1e3 1E+3 1e .5 5. -.5 +.5 . .. 1.2.3 .5_5 1_000.5 1e+ 1.e5 0e0 -0.0 1e7 0.1 1.0 1e21 1e20 1.5e300 1e-400 4.9e-324
1:20 1:20.5 190:20:30 2020-01-01 2001-12-14t21:59:43.10-05:00 12e03 0x1p3 Infinity NaN inf nan .e1 1d 1,000
9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616 -9223372036854775808
-9223372036854775809 123456789012345678901234567890 1e400 -1e400 0x8000000000000000 0xFFFFFFFFFFFFFFFF
0x10000000000000000 -0x8000000000000000 0777777777777777777777777
= a:b a#b a'b ~x -x +x x- "x" 'x' '' "" 'it''s' "\n\t\e\0" "\x41\u2603\U0001F600" "\uD800" é ☃ 日本
!!str !!str_1 !!int_"3" !!int_x !!float_3 !!float_"x" !!bool_yes !!bool_"true" !!bool_x !!null_"" !!null_x
!!binary_aGk= !!binary_"%%" !mine_1 !_1 !<tag:yaml.org,2002:int>_1 !!foo_1 !!python/object:os.system_x !!int_3.5
[] {} [a] {a} {a:_b} [a,_b,] {a:_b,} [[a]] [{a:_1}] {1:_a} {true:_a} {~:_a} {0x10:_a} [~,_] &x_1 *x <<
.inf -.inf +.INF .nan .NaN @x `x %x - ? : | > , # ] }
"""
# An underscore behind a tag, a bracket or an anchor stands for a blank.
SCALARS = [scalar for line in TABLE.splitlines() for scalar in line.split()]


def texts() -> list[str]:
    return [f"v: {scalar.replace('_', ' ') if scalar[0] in '![{&' else scalar}" for scalar in SCALARS]


def converted(oracle: Path, documents: Sequence[bytes]) -> list[Any]:
    """Each document as Go has it, in a list of one; None where Go refuses."""
    run = subprocess.run(
        [oracle, "--yaml"],
        input=json.dumps([base64.b64encode(document).decode() for document in documents]).encode(),
        capture_output=True,
        check=True,
    )
    found: list[Any] = go_json(run.stdout)
    return found


def ours(document: bytes) -> Any:
    try:
        return [read_yaml(document)]
    except DocumentError:
        return None


def test_scalars_are_read_as_go_reads_them_k9a(oracle: Path) -> None:
    documents = [text.encode() for text in texts()]
    theirs = converted(oracle, documents)
    wrong = [
        (text, mine, reference)
        for text, document, reference in zip(texts(), documents, theirs, strict=True)
        if (mine := ours(document)) != reference
    ]
    assert wrong == []


class Writer:
    """Random YAML: flow and block, anchors, aliases, merge keys, comments, tags, odd scalars."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # repeatable, not secret
        # Without what is no value by itself, and without infinity, which Go forgives where a later key
        # of the same name replaces it.
        self._scalars = [
            scalar for scalar in SCALARS if scalar[0] not in "![{&*.<?:-|>,#]}@`%" and scalar != "+.INF"
        ]

    def document(self) -> bytes:
        head = "a: &a {x: 1, k: v}\nb: &b {x: 2, z: 3}\n"
        return (head + "v:" + self._block(self._random.randint(1, 4), 1) + self._tail()).encode()

    def _tail(self) -> str:
        return self._random.choice(["", "", "", "# end\n", "...\n", "---\nmore: 1\n", "\n\n"])

    def _scalar(self) -> str:
        return self._random.choice(self._scalars)

    def _key(self) -> str:
        return self._random.choice(["k1", "k2", "'q'", '"d"', "y", "1", "true", "key with blanks"])

    def _flow(self, depth: int) -> str:
        kind = self._random.random()
        if depth <= 0 or kind < 0.5:
            return self._random.choice(["", "&s "]) + self._scalar()
        if kind < 0.6:
            return self._random.choice(["*a", "*b"])
        parts = [self._flow(depth - 1) for _ in range(self._random.randint(0, 3))]
        if kind < 0.8:
            return f"[{', '.join(parts)}]"
        merge = self._random.choice(["", "<<: *a, ", "<<: [*a, *b], ", "<<: {x: 9}, "])
        return "{" + merge + ", ".join(f"{self._key()}: {part}" for part in parts) + "}"

    def _block(self, depth: int, indent: int) -> str:
        kind = self._random.random()
        pad = " " * indent
        if depth <= 0 or kind < 0.3:
            return f" {self._flow(2)}\n"
        if kind < 0.4:
            style = self._random.choice(["|", ">", "|-", ">+"])
            return f" {style}\n{pad}line one\n\n{pad}  line two\n"
        comment = self._random.choice(["", "", " # why"])
        if kind < 0.65:
            items = (f"{pad}-{self._block(depth - 1, indent + 2)}" for _ in range(self._random.randint(1, 3)))
            return f"{comment}\n{''.join(items)}"
        lines = [
            f"{pad}{self._key()}:{self._block(depth - 1, indent + self._random.choice([1, 2, 4]))}"
            for _ in range(self._random.randint(1, 3))
        ]
        lines.insert(
            self._random.randint(0, len(lines)),
            self._random.choice(["", f"{pad}<<: *a\n", f"{pad}<<: [*b, *a]\n"]),
        )
        return f"{comment}\n{''.join(lines)}"


@pytest.mark.parametrize("seed", range(4))
def test_random_documents_are_read_as_go_reads_them_k9a(oracle: Path, seed: int) -> None:
    writer = Writer(seed)
    documents = [writer.document() for _ in range(1_500)]
    theirs = converted(oracle, documents)
    assert sum(reference is not None for reference in theirs) > 500, "the writer must mostly write YAML"
    for document, reference in zip(documents, theirs, strict=True):
        if reference is not None:
            assert ours(document) == reference, document.decode()
