"""`kubeauth schema`: JSON Schemas for editors and linters."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from kubeauth import schemas
from kubeauth.cli._schema import MODELS
from kubeauth.schemas import Model
from tests.cli.conftest import Run
from tests.cli.programs import kubeauth


@pytest.mark.parametrize("name", MODELS)
def test_it_prints_the_schema_of_the_model(run: Run, name: str) -> None:
    status, out, err = run("schema", name)

    printed = json.loads(out)
    model: type[Model] = getattr(schemas, MODELS[name])
    assert (status, err) == (0, "")
    assert printed == {"$schema": Draft202012Validator.META_SCHEMA["$id"], **model.model_json_schema()}
    Draft202012Validator.check_schema(printed)


def test_every_document_has_a_name() -> None:
    documents = {
        name
        for name in schemas.__all__
        if {"api_version", "kind"} <= set(getattr(schemas, name).model_fields)
        # These are parts of other documents, or what any document has.
        and name not in ("BoundObjectReference", "PartialObjectMetadata", "Status")
    }
    assert documents <= set(MODELS.values())


def test_it_lists_the_names(run: Run) -> None:
    status, out, err = run("schema")

    header, *rows = out.splitlines()
    assert (status, err) == (0, "")
    assert header.split() == ["NAME", "DESCRIPTION"]
    assert [row.split()[0] for row in rows] == list(MODELS)
    assert all(len(row) <= 120 for row in rows)


def test_an_unknown_name_is_an_error_that_suggests_a_similar_one(run: Run) -> None:
    assert run("schema", "kubecofig") == (
        2,
        "",
        'error: unknown document "kubecofig". Did you mean kubeconfig?\nRun `kubeauth schema` to list them.\n',
    )


def test_it_is_a_command_of_the_program() -> None:
    found = kubeauth("schema", "kubeconfig")
    assert found.status == 0
    assert json.loads(found.out)["title"] == "Kubeconfig"
