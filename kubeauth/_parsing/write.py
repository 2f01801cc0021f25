"""Write YAML and JSON that Go's parser and ours read back as the same values."""

from __future__ import annotations

import json
from typing import Any

from kubeauth._parsing.limits import DocumentError
from kubeauth._parsing.yaml import resolve_scalar


def write_document(value: Any, *, as_json: bool = False) -> bytes:
    """Serialize a value that this package has read."""
    if as_json:
        return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True  # the reader has expanded all aliases

    def represent_str(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        # Go's YAML has more booleans and numbers than PyYAML, such as y: as strings, they need quotes.
        style = None if _is_plain_text(data) else '"'
        if "\n" in data and data.replace("\n", "").isprintable():
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, represent_str)
    text: str = yaml.dump(
        value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=False
    )
    return text.encode("utf-8", "surrogatepass")


def _is_plain_text(data: str) -> bool:
    """Return whether `data` is read back as the same text without quotes."""
    try:
        # Some parsers treat unprintable characters as line breaks.
        return bool(resolve_scalar(data) == data) and data.isprintable()
    except DocumentError:
        return False
