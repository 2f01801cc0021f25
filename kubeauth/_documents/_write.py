"""YAML and JSON, written so that Go's parser and ours read the same values back."""

from __future__ import annotations

import json
from typing import Any

from kubeauth._documents._limits import DocumentError
from kubeauth._documents._scalars import resolved


def write_document(value: Any, *, as_json: bool = False) -> bytes:
    """`value`, which a reader of this package made, as text."""
    if as_json:
        return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True  # what an alias named was written out by the reader

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        # Go's YAML takes more for numbers and booleans than PyYAML does, such as y: those need quotes.
        style = None if _is_text(data) else '"'
        if "\n" in data and data.replace("\n", "").isprintable():
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    written: str = yaml.dump(
        value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=False
    )
    return written.encode("utf-8", "surrogatepass")


def _is_text(data: str) -> bool:
    """Whether it is read as text without quotes."""
    try:
        # What cannot be printed may be a line break to somebody.
        return bool(resolved(data) == data) and data.isprintable()
    except DocumentError:
        return False
