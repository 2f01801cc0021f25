"""Write YAML and JSON that Go's parser and ours read back as the same values."""

from __future__ import annotations

import json
from typing import Any

from kubeauth._parsing.limits import DocumentError
from kubeauth._parsing.scalars import resolve_scalar


def write_document(value: Any, *, as_json: bool = False) -> bytes:
    """Return the text of a value that this package has read."""
    if as_json:
        return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True  # the reader has expanded all aliases

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        # Go's YAML reads more words as numbers and booleans than PyYAML does, such as y: those need quotes.
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
    """Whether it is read back as text without quotes."""
    try:
        # Some parsers take unprintable characters for line breaks.
        return bool(resolve_scalar(data) == data) and data.isprintable()
    except DocumentError:
        return False
