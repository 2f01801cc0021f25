"""JSON Schemas accept what models accept, and reject what models reject."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from kubeauth._parsing.models import PartialModel
from kubeauth.schemas import Cluster, Kubeconfig, Model, Pod
from tests.schemas.examples import MODELS, build_strategy, change_each_value, fill_document

EACH_MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


@cache
def get_validator(model: type[Model]) -> Any:
    schema = model.model_json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@EACH_MODEL
@given(data=st.data())
def test_it_accepts_what_the_model_writes(model: type[Model], data: st.DataObject) -> None:
    document = data.draw(build_strategy(model)).to_document(reveal_secrets=True)
    assert [error.message for error in get_validator(model).iter_errors(document)] == []


@EACH_MODEL
def test_it_accepts_null_for_every_field(model: type[Model]) -> None:
    document = {field.serialization_alias or name: None for name, field in model.model_fields.items()}
    assert get_validator(model).is_valid(document)


@EACH_MODEL
def test_it_rejects_values_of_a_type_that_the_model_rejects(model: type[Model]) -> None:
    rejected = 0
    for broken in change_each_value(fill_document(model), lambda _value: 1.5):
        try:
            model.model_validate(broken)
        except ValidationError:
            rejected += 1
            assert not get_validator(model).is_valid(broken), broken

    assert rejected


@EACH_MODEL
def test_it_rejects_misspelled_fields_unless_there_are_more_than_kubeauth_reads(model: type[Model]) -> None:
    assert get_validator(model).is_valid({"mispelled": 1}) == issubclass(model, PartialModel)


def test_fields_have_descriptions_that_name_fields_of_the_document() -> None:
    properties = Cluster.model_json_schema()["properties"]
    assert properties["server"]["description"] == "URL of the API server."
    assert properties["certificate-authority-data"]["description"] == (
        "CA certificates (PEM). Takes precedence over `certificate-authority`."
    )
    assert Kubeconfig.model_json_schema()["description"] == ("A kubeconfig: clusters, users and contexts.")


def test_a_partial_model_is_nested_in_a_partial_model() -> None:
    schema = Pod.model_json_schema()
    assert [name for name, nested in schema["$defs"].items() if "additionalProperties" in nested] == []
