"""GMSACredentialSpec, and the custom resource definition that `kubeauth gmsa manifests` prints."""

from __future__ import annotations

from typing import Any

import pytest

from kubeauth.gmsa._crd import definition
from kubeauth.schemas import GMSACredentialSpec

VERSIONS: list[dict[str, Any]] = definition()["spec"]["versions"]


def outline(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """Return only names and types: a mapping by field, a list with the outline of its items, or a type."""
    if "$ref" in schema:
        return outline(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]  # or null
    if kind == "array":
        return [outline(schema["items"], definitions)]
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: outline(each, definitions) for name, each in properties.items()}
    return kind


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version["name"])
def test_the_model_has_the_fields_and_types_of_the_custom_resource_definition(
    version: dict[str, Any],
) -> None:
    schema = GMSACredentialSpec.model_json_schema()
    ours = outline(schema, schema["$defs"])
    theirs = outline(version["schema"]["openAPIV3Schema"], {})
    assert ours["credspec"]["CmsPlugins"] == ["string"]
    # The API server has the fields of metadata itself.
    assert theirs["metadata"] == {}
    assert ours == {**theirs, "metadata": ours["metadata"]}
