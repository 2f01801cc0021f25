"""JSON and YAML from strangers, with limits; the only reader and writer of YAML.

Every document ends as plain JSON values (dict with str keys, list, str, int, float, bool, None) or as
a `DocumentError`. Whatever is read, the depth, the number of values and the work are bounded *before*
anything is built, and no error carries a piece of the text. YAML scalars have the types that Go's YAML
gives them (K9a): `y`, `on` and `no` are booleans, timestamps and base-60 numbers are strings.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from kubeauth._documents._fields import MAX_PROBLEMS, Fields, Findings, kind_of
from kubeauth._documents._json import plain, read_json
from kubeauth._documents._limits import TOO_DEEP, DocumentError
from kubeauth._documents._write import write_document
from kubeauth._documents._yaml import read_yaml

__all__ = [
    "MAX_PROBLEMS",
    "DocumentError",
    "Fields",
    "Findings",
    "Json",
    "kind_of",
    "plain",
    "read_document",
    "read_json",
    "read_yaml",
    "write_document",
]

Json: TypeAlias = Any
"""A JSON value. Any, because a recursive alias helps nobody who has to take it apart."""


def read_document(data: bytes, *, limit: int, whole: bool = False) -> Json:
    """The first YAML or JSON document in `data`; None if there is none. Over `limit` bytes is refused.

    With `whole`, so is anything behind it.
    """
    if len(data) > limit:
        raise DocumentError(f"larger than {limit // 2**20} MiB")
    if data[:1] == b"{":
        try:
            return read_json(data)
        except DocumentError as error:
            if error.reason == TOO_DEEP:
                raise
            # A YAML flow mapping starts like JSON. The YAML parser also says best what is wrong, and
            # counts values where JSON's are only estimated: commas may stand in a string.
    return read_yaml(data, whole=whole)
