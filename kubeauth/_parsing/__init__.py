"""Read untrusted JSON and YAML within limits; write YAML. No other module uses PyYAML.

A document is returned as plain JSON values (dict with str keys, list, str, int, float, bool, None), or a
`DocumentError` is raised. Depth, number of values and work are limited *before* anything is built. No error
contains any of the text. YAML scalars have the types of Go's YAML (K9a): `y`, `on` and `no` are
booleans, timestamps and base-60 numbers are strings.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from kubeauth._parsing.json import InvalidField, copy_plain, describe_type, read_field, read_json
from kubeauth._parsing.limits import MAX_PROBLEMS, TOO_DEEP, DocumentError
from kubeauth._parsing.write import write_document
from kubeauth._parsing.yaml import read_yaml

__all__ = [
    "MAX_PROBLEMS",
    "DocumentError",
    "InvalidField",
    "Json",
    "copy_plain",
    "describe_type",
    "read_document",
    "read_field",
    "read_json",
    "read_yaml",
    "write_document",
]

Json: TypeAlias = Any
"""A JSON value. Any, because a recursive alias would need a check or cast at every access."""


def read_document(data: bytes, *, limit: int, whole: bool = False) -> Json:
    """Return the first YAML or JSON document in `data`; None if it is empty.

    Raises DocumentError for more than `limit` bytes and, with `whole`, for anything after the document.
    """
    if len(data) > limit:
        raise DocumentError(f"larger than {limit // 2**20} MiB")
    if data[:1] == b"{":
        try:
            return read_json(data)
        except DocumentError as error:
            if error.reason == TOO_DEEP:
                raise
            # A YAML flow mapping starts like JSON. The YAML parser also has better error messages, and counts
            # values exactly; for JSON their number is estimated.
    return read_yaml(data, whole=whole)
