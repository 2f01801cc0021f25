"""Models of the registry's documents: provider configurations and docker configs; and lenient validation."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kubeauth import Secret, registry, schemas
from kubeauth._parsing.models import MAX_PROBLEMS, Invalid, validate_document, validate_leniently
from kubeauth.schemas import (
    CredentialProvider,
    CredentialProviderConfig,
    CredentialProviderResponse,
    DockerAuth,
    DockerConfig,
    PartialObjectMetadata,
    TokenAttributes,
    TokenRequest,
)
from kubeauth.schemas._docker_config import AS_KUBELET
from tests.registry.configs import GROUP
from tests.support.cases import each_case

V1, V1BETA1 = f"{GROUP}/v1", f"{GROUP}/v1beta1"


def test_the_registry_uses_the_models_under_its_own_names() -> None:
    assert registry.Provider is schemas.CredentialProvider
    assert registry.ProviderConfig is schemas.CredentialProviderConfig
    assert registry.TokenAttributes is schemas.TokenAttributes


def test_a_constructed_configuration_came_from_no_file() -> None:
    config = CredentialProviderConfig(providers=(CredentialProvider(name="ecr", default_cache_duration=60),))
    assert (config.paths, config.hash, config.warnings, config.providers[0].path) == ((), "", (), "")
    assert config.to_document() == {
        "apiVersion": V1,
        "kind": "CredentialProviderConfig",
        "providers": [{"name": "ecr", "defaultCacheDuration": "1m0s"}],
    }


@each_case("provider", [{"tokenAttributes": {}}, CredentialProvider(token_attributes=TokenAttributes())])
def test_older_versions_have_no_token_attributes_1_4(provider: Any) -> None:
    given = {"apiVersion": V1BETA1, "providers": [{"name": 1}, provider]}
    with pytest.raises(ValidationError) as caught:
        CredentialProviderConfig.model_validate(given)
    assert [error["loc"] for error in caught.value.errors()] == [
        ("providers", 0, "name"),
        ("providers", 1, "tokenAttributes"),
    ]
    assert CredentialProviderConfig.model_validate({"providers": [provider]}).providers[0].token_attributes


def test_older_versions_can_be_written_and_read() -> None:
    config = CredentialProviderConfig(api_version=V1BETA1, providers=(CredentialProvider(name="a"),))
    assert CredentialProviderConfig.model_validate_json(config.model_dump_json()) == config


@each_case("seconds", [60, 1.5])
def test_a_number_of_seconds_is_for_constructors_1_7(seconds: float) -> None:
    assert CredentialProviderResponse(cache_duration=seconds).cache_duration == seconds
    with pytest.raises(ValidationError, match="valid string"):
        CredentialProviderResponse.model_validate({"cacheDuration": seconds})


@each_case(
    ("document", "username"),
    [
        ({"AUTHS": {"a.io": {"UserName": "u"}}}, "u"),
        ({"auths": {}, "Auths": {"a.io": {"username": "a", "USERNAME": "b"}}}, "b"),
        ({"auths": {"a.io": {"USERNAME": "b", "username": None}}, "AUTHS": None}, "b"),
        ({"Auths": {"a.io": {5: "x", "Username": "u"}}, **{str(n): n for n in range(1000)}}, "u"),
    ],
)
def test_the_case_of_names_in_a_docker_config_is_ignored(document: Any, username: str) -> None:
    assert DockerConfig.model_validate(document).auths == {"a.io": DockerAuth(username=username)}


def test_the_kubelet_ignores_tokens_of_docker_configs_5_14() -> None:
    entry = {"identitytoken": 5, "RegistryToken": "r"}
    assert isinstance(validate_document(DockerAuth, entry), Invalid)
    assert validate_document(DockerAuth, entry, context=AS_KUBELET) == DockerAuth()
    entry["identitytoken"] = "i"
    assert DockerAuth.model_validate(entry) == DockerAuth(
        identity_token=Secret("i"), registry_token=Secret("r")
    )


@each_case(
    ("document", "uid", "annotations"),
    [
        ({"metadata": {"uid": "u", "annotations": {"a": "b", "odd": 7}}}, "u", {"a": "b"}),
        ({"metadata": {"uid": "u", "annotations": []}, "kind": {}}, "u", {}),
        ({"metadata": {"uid": ["u"], "annotations": {"a": "b"}, "labels": {"x": 1}}}, "", {"a": "b"}),
        ({"metadata": "text"}, "", {}),
        ([{"metadata": {"uid": "u"}}], "", {}),
        (None, "", {}),
        ({"metadata": {"uid": "u", "annotations": {str(n): n for n in range(100_000)}}}, "", {}),
    ],
)
def test_invalid_values_in_a_response_are_ignored(
    document: Any, uid: str, annotations: dict[str, str]
) -> None:
    metadata = validate_leniently(PartialObjectMetadata, document).metadata
    assert (metadata.uid, metadata.annotations) == (uid, annotations)


def test_invalid_items_of_a_list_in_a_response_are_ignored() -> None:
    found = validate_leniently(TokenRequest, {"spec": {"audiences": ["a", 1, "b", {}]}, "status": 1})
    assert found.spec.audiences == ("a", "", "b", "")
    assert not found.status.token


HOSTILE: dict[str, Any] = {
    "strings": {"providers": [{"args": [1] * 200_000}]},
    "items": {"providers": [1] * 200_000},
    "invalid items": {"providers": [{"env": [{"name": 1}] * 90_000}]},
    "unknown fields": {"providers": [{f"f{number}": None for number in range(90_000)}]},
    "items with an unknown field": {"providers": [{"a": 1}] * 130_000},
    "token attributes": {"apiVersion": V1BETA1, "providers": [{"tokenAttributes": 1}] * 50_000},
}


@each_case("document", HOSTILE.values(), ids=HOSTILE.keys())
def test_of_very_many_problems_few_are_even_built(document: Any) -> None:
    """Building each of them would take seconds."""
    found = validate_document(CredentialProviderConfig, document, strict=True)
    assert isinstance(found, Invalid)
    assert len(found.problems) == MAX_PROBLEMS
    assert found.type_problem_count <= 3 * MAX_PROBLEMS
