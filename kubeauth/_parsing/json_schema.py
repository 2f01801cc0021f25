"""JSON Schema of models, for editors and linters: with descriptions, and null wherever Go accepts it."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from kubeauth._parsing.models import Model

DIALECT = GenerateJsonSchema.schema_dialect


def complete_schema(model: type[Model], schema: dict[str, Any], *, partial: bool) -> None:
    """Complete the schema that pydantic has generated for `model`, without its nested models."""
    aliases = {name: field.serialization_alias or name for name, field in model.model_fields.items()}
    descriptions = {
        # Descriptions refer to other fields by their Python names.
        aliases[name]: re.sub(r"`(\w+)`", lambda match: f"`{aliases.get(match[1], match[1])}`", text)
        for name, text in _read_descriptions(model).items()
        if name in aliases
    }
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    schema["properties"] = {
        alias: _complete_property(prop, descriptions.get(alias, "")) for alias, prop in properties.items()
    }
    schema["type"] = ["object", "null"]
    if doc := model.__doc__:
        # What follows the first paragraph is for Python programs.
        schema["description"] = " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())
    if not partial:
        # Kubernetes ignores most unknown fields; usually they are misspelled.
        schema["additionalProperties"] = False


def _complete_property(schema: dict[str, Any], description: str) -> dict[str, Any]:
    result = {name: value for name, value in schema.items() if name != "title"}
    default = result.pop("default", None)
    if description:
        result["description"] = description
    if default:
        result["default"] = default
    return _allow_null(result)


def _allow_null(schema: dict[str, Any]) -> dict[str, Any]:
    """As in Go, null means that the field is not set."""
    if "anyOf" in schema:
        # Of an optional field. Validators explain errors in an anyOf badly.
        (schema_if_set,) = (each for each in schema["anyOf"] if each != {"type": "null"})
        schema = {**{name: value for name, value in schema.items() if name != "anyOf"}, **schema_if_set}
    if "enum" in schema:
        schema = {**schema, "enum": [*schema["enum"], None]}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            schema = {**schema, name: _allow_null(schema[name])}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return schema  # any type, or another model


def _read_descriptions(model: type[Model]) -> dict[str, str]:
    """Return the docstrings of the fields, which Python itself does not retain."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if "model_fields" not in dir(base) or not base.__module__.startswith("kubeauth."):
            continue
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError):  # without source files
            continue
        body = getattr(tree, "body", [])
        for field, follows in itertools.pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(follows, ast.Expr)
                and isinstance(follows.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(follows.value.value).split())
    return found
