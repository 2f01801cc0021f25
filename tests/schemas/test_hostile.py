"""Documents and calls that would leak a secret, exhaust memory, or raise an untyped error."""

from __future__ import annotations

import json
import traceback
from collections import OrderedDict
from typing import Any

import pytest
from pydantic import ValidationError, field_validator

from kubeauth import Secret, load_config
from kubeauth.errors import KubeConfigError
from kubeauth.schemas import (
    Cluster,
    CredentialProvider,
    CredentialProviderConfig,
    DockerConfig,
    ExecEntry,
    Kubeconfig,
    User,
)
from tests.support.leaks import SENTINEL

OURS = 1  # the frame of the test, whose variables contain the document


def render(error: BaseException) -> str:
    """All text of an error, and the variables of its frames."""
    assert error.__context__ is None
    parts = [str(error), repr(error), *traceback.format_exception(error)]
    if isinstance(error, ValidationError):
        parts += [repr(error.errors()), error.json()]
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)][OURS:]
    parts += [f"{name}={value!r}" for variables in frames for name, value in variables.items()]
    return "\n".join(parts)


@pytest.mark.parametrize("text", ["{message}" * 105, "{hint}", "{", "}", "{0}", "a{hint}b"])
@pytest.mark.parametrize("kind", ["clusters", "extensions"])
def test_braces_in_a_name_are_text(text: str, kind: str) -> None:
    """pydantic expands {message} in messages; expanded at every level, a kilobyte became a gigabyte."""
    cluster: dict[str, Any] = {}
    if kind == "extensions":
        cluster = {"extensions": [{"name": text, "extension": {}}] * 2}
    clusters = [{"name": text, "cluster": cluster}] * (2 if kind == "clusters" else 1)

    with pytest.raises(KubeConfigError) as caught:
        load_config({"clusters": clusters})
    with pytest.raises(ValidationError) as rejected:
        Kubeconfig.model_validate({"clusters": clusters})

    assert f'duplicate name "{text[:200]}' in str(caught.value)
    assert f'duplicate name "{text}"' in str(rejected.value)
    assert len(str(rejected.value)) < 5_000


@pytest.mark.parametrize("name", ["token", "unknown"])
def test_an_assignment_does_not_print_the_value(name: str) -> None:
    user: Any = User()
    with pytest.raises(ValidationError, match="frozen") as caught:
        setattr(user, name, SENTINEL)
    assert SENTINEL not in render(caught.value)


def test_a_copy_validates_what_has_changed() -> None:
    user = User(username="alice").with_origin("/o")

    copy = user.model_copy(update={"token": SENTINEL, "impersonate_groups": ["g"]})

    assert (copy.token, copy.username, copy.impersonate_groups) == (Secret(SENTINEL), "alice", ("g",))
    assert copy.origin == "/o"
    assert SENTINEL not in repr(copy)
    with pytest.raises(ValidationError) as caught:
        user.model_copy(update={"token": {SENTINEL: 1}})
    assert SENTINEL not in render(caught.value)
    with pytest.raises(ValidationError, match="Extra inputs"):
        user.model_copy(update={"tokn": "t"})


@pytest.mark.parametrize("value", [{"a", "b"}, iter(["a", 5]), "ab", {"a": 1}, {"a": 1}.keys()])
def test_only_lists_and_tuples_are_lists(value: Any) -> None:
    for build in (
        lambda: CredentialProvider(match_images=value, args=(SENTINEL,)),
        lambda: CredentialProvider.model_validate({"matchImages": value, "args": [SENTINEL]}),
        lambda: ExecEntry(args=value, install_hint=SENTINEL),
        lambda: ExecEntry(env=value, install_hint=SENTINEL),
    ):
        with pytest.raises(ValidationError, match="valid list") as caught:
            build()
        assert SENTINEL not in str(caught.value)


def test_invalid_options_raise_without_the_document() -> None:
    options: Any = {"bogus": 1}
    with pytest.raises(TypeError) as caught:
        User.model_validate({"token": SENTINEL}, **options)
    assert SENTINEL not in render(caught.value)
    text: Any = [SENTINEL]
    with pytest.raises(TypeError) as caught:
        User.model_validate_json(text)
    assert SENTINEL not in render(caught.value)


def test_a_bug_in_a_validator_of_the_user_raises_without_the_document() -> None:
    class Mine(User):
        """A user with a broken validator."""

        @field_validator("username")
        @classmethod
        def _check(cls, _value: str) -> str:
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken") as caught:
        Mine.model_validate({"username": "u", "token": SENTINEL})
    assert SENTINEL not in render(caught.value)


def test_a_wrong_type_is_not_an_invalid_value() -> None:
    with pytest.raises(KubeConfigError) as caught:
        load_config({"clusters": [{"name": "c", "cluster": {"certificate-authority-data": 5, "server": 1}}]})
    assert [problem.message.split(": ")[-1] for problem in caught.value.problems] == [
        "must be a string, not a number",
        "must be a string, not a number",
    ]


def test_problems_are_in_the_order_of_the_fields() -> None:
    user = {"as-user-extra": {"a": [1], "b": 2}, "exec": {"command": 3}}
    with pytest.raises(KubeConfigError) as caught:
        load_config({"users": [{"name": "u", "user": user}]})
    assert [problem.field for problem in caught.value.problems] == [
        'users["u"].user.as-user-extra.a[0]',
        'users["u"].user.as-user-extra.b',
        'users["u"].user.exec.command',
    ]


def test_duplicate_fields_in_json_are_rejected() -> None:
    with pytest.raises(ValidationError, match="duplicate fields"):
        User.model_validate_json('{"token": "a", "token": "b"}')


def test_null_means_absent_in_subclasses_of_dict() -> None:
    document = json.loads(
        '{"clusters": null, "users": [{"name": "u", "user": {"token": null}}]}', object_pairs_hook=OrderedDict
    )
    assert Kubeconfig.model_validate(document) == Kubeconfig(users={"u": User()})


def test_mappings_of_a_model_are_immutable() -> None:
    config: Any = Kubeconfig(clusters={"c": Cluster()})
    with pytest.raises(TypeError):
        config.clusters["d"] = Cluster()


def test_keys_of_a_docker_config_are_not_printed() -> None:
    assert SENTINEL not in repr(DockerConfig.model_validate({"auths": {f"https://u:{SENTINEL}@r": {}}}))


@pytest.mark.parametrize("name", ["tokenAttributes", "token_attributes"])
def test_older_versions_have_no_token_attributes_in_constructors_either(name: str) -> None:
    providers: Any = [{"name": "x", name: {}}]
    with pytest.raises(ValidationError, match="Extra inputs"):
        CredentialProviderConfig(api_version="kubelet.config.k8s.io/v1beta1", providers=providers)
