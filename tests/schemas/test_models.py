"""What all models have in common."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kubeauth import Secret, load_config
from kubeauth._parsing import read_document, write_document
from kubeauth._parsing.models import Invalid, validate_document
from kubeauth.schemas import Cluster, Context, ExecEntry, ExecEnvVar, Kubeconfig, Model, User
from tests.schemas.examples import MODELS, build_strategy

EACH_MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
KUBECONFIG = Kubeconfig(
    clusters={"c": Cluster(server="https://h:6443", certificate_authority_data=b"pem")},
    users={"u": User(token=Secret("t"))},
    contexts={"x": Context(cluster="c", user="u", namespace="n")},
    current_context="x",
)
DOCUMENT = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [
        {"name": "c", "cluster": {"server": "https://h:6443", "certificate-authority-data": "cGVt"}}
    ],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "current-context": "x",
}


@EACH_MODEL
@given(data=st.data())
def test_a_model_reads_what_it_writes(model: type[Model], data: st.DataObject) -> None:
    instance = data.draw(build_strategy(model))
    document = instance.to_document(reveal_secrets=True)

    assert model.model_validate(document) == instance
    assert model.model_validate(read_document(write_document(document), limit=2**20)) == instance
    assert model.model_validate_json(instance.model_dump_json(context={"reveal_secrets": True})) == instance


@EACH_MODEL
def test_an_empty_document_is_valid_and_null_means_absent(model: type[Model]) -> None:
    nulls = {field.serialization_alias or name: None for name, field in model.model_fields.items()}
    assert model.model_validate({}) == model.model_validate(None) == model.model_validate(nulls) == model()


@EACH_MODEL
def test_every_model_has_a_json_schema_and_a_description(model: type[Model]) -> None:
    schema = model.model_json_schema()
    assert set(schema["properties"]) == {
        field.serialization_alias or name for name, field in model.model_fields.items()
    }
    assert model.__doc__


def test_a_kubeconfig_is_written_with_the_field_names_of_kubernetes() -> None:
    assert KUBECONFIG.to_document(reveal_secrets=True) == DOCUMENT
    assert Kubeconfig.model_validate(DOCUMENT) == KUBECONFIG


def test_load_config_accepts_a_model() -> None:
    assert load_config(KUBECONFIG) == load_config(DOCUMENT)
    with pytest.raises(Exception, match='context "other" does not exist'):
        load_config(KUBECONFIG, context="other")


def test_the_constructor_wraps_secrets_and_accepts_mappings_and_lists() -> None:
    given: Any = {"token": "t", "impersonate_groups": ["g"], "exec": {"command": "c", "env": [{"name": "A"}]}}
    assert User(**given) == User(
        token=Secret("t"),
        impersonate_groups=("g",),
        exec=ExecEntry(command="c", env=(ExecEnvVar(name="A"),)),
    )


@pytest.mark.parametrize("name", ["tokn", "Token"])
def test_the_constructor_rejects_unknown_names_which_documents_may_have(name: str) -> None:
    unknown: Any = {name: "x"}
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        User(**unknown)
    assert User.model_validate(unknown) == User()


def test_documents_have_no_python_names() -> None:
    assert Cluster.model_validate({"tls_server_name": "x"}) == Cluster()
    assert Cluster.model_validate({"origin": "/o", "_origin": "/o"}).origin == ""


@pytest.mark.parametrize("field", ["clusters", "users", "contexts", "extensions"])
def test_documents_have_lists_where_models_have_mappings(field: str) -> None:
    with pytest.raises(ValidationError, match="valid list"):
        Kubeconfig.model_validate({field: {}})


def test_an_unknown_field_may_have_any_name() -> None:
    found = validate_document(Context, {"\ud800": 1}, strict=True)
    assert isinstance(found, Invalid)
    assert [problem.message for problem in found.problems] == ["unknown field"]


def test_models_are_immutable() -> None:
    cluster: Any = Cluster(server="https://h")
    with pytest.raises(ValidationError, match="frozen"):
        cluster.server = "https://other"
    assert cluster.model_copy(update={"server": "https://other"}).server == "https://other"


def test_a_user_may_derive_from_a_model() -> None:
    class Mine(Kubeconfig):
        """A kubeconfig with a field of its own."""

        team: str = ""

    assert Mine.model_validate({**DOCUMENT, "team": "t"}).team == "t"
