"""Configs built by the caller: the types that each field accepts, and the error for other types."""

from __future__ import annotations

import collections.abc
import dataclasses
import traceback
from pathlib import Path
from typing import Any

import pytest

from kubeauth import (
    Client,
    ClientConfig,
    ExecConfig,
    ExecOptions,
    Impersonation,
    OidcConfig,
    OidcOptions,
    PluginPolicy,
    Secret,
)
from kubeauth._field_types import field_types
from kubeauth.errors import ConfigError
from kubeauth.testing import APIServer
from tests.support.cases import each_case

REQUIRED: dict[type[Any], dict[str, Any]] = {
    ClientConfig: {"server": "https://h"},
    ExecConfig: {"command": "c", "api_version": "v"},
    ExecOptions: {},
    PluginPolicy: {},
    Impersonation: {"user": "u"},
    OidcConfig: {"issuer_url": "https://i", "client_id": "c"},
    OidcOptions: {},
}
FIELDS = [
    pytest.param(cls, field.name, id=f"{cls.__name__}.{field.name}")
    for cls in REQUIRED
    for field in dataclasses.fields(cls)
]


class Unexpected:
    def __repr__(self) -> str:
        return "s3ntinel"


@each_case(("cls", "name"), FIELDS)
def test_every_field_rejects_another_type_without_showing_the_value(cls: type[Any], name: str) -> None:
    for value in (Unexpected(), [Unexpected()], {"k": Unexpected()}):
        with pytest.raises(ConfigError) as caught:
            cls(**(REQUIRED[cls] | {name: value}))
        message = str(caught.value)
        assert message.startswith(f"{cls.__name__}.{name} must be ")
        assert "s3ntinel" not in message
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__


@each_case(
    ("cls", "name", "value", "expected", "kind"),
    [
        (ClientConfig, "server", None, "str", "NoneType"),
        (ClientConfig, "server", b"https://h", "str", "bytes"),
        (ClientConfig, "namespace", None, "str", "NoneType"),
        (ClientConfig, "ca_data", "PEM", "bytes, or None", "str"),
        (ClientConfig, "ca_file", b"/ca", "str or os.PathLike[str], or None", "bytes"),
        (ClientConfig, "insecure_skip_tls_verify", "false", "bool", "str"),
        (ClientConfig, "insecure_skip_tls_verify", 1, "bool", "int"),
        (ClientConfig, "token", b"abc", "str or Secret[str], or None", "bytes"),
        (ClientConfig, "token", Secret(b"abc"), "str or Secret[str], or None", "Secret"),
        (ClientConfig, "token", Secret[Any](None), "str or Secret[str], or None", "Secret"),
        (ClientConfig, "client_key_data", "PEM", "bytes or Secret[bytes], or None", "str"),
        (ClientConfig, "exec", {"command": "c"}, "ExecConfig, or None", "dict"),
        (ClientConfig, "impersonate", "jane", "Impersonation, or None", "str"),
        (ExecConfig, "args", "abc", "a list or tuple of str", "str"),
        (ExecConfig, "args", ["a", 1], "a list or tuple of str", "list"),
        (ExecConfig, "args", {"a": "b"}, "a list or tuple of str", "dict"),
        (ExecConfig, "env", [{"name": "FOO", "value": "bar"}], "a mapping of str to str", "list"),
        (ExecConfig, "env", {"FOO": 1}, "a mapping of str to str", "dict"),
        (ExecConfig, "env", {1: "FOO"}, "a mapping of str to str", "dict"),
        (ExecConfig, "options", None, "ExecOptions", "NoneType"),
        (ExecConfig, "policy", "DenyAll", "PluginPolicy", "str"),
        (ExecOptions, "timeout", "60", "a number, or None", "str"),
        (ExecOptions, "timeout", True, "a number, or None", "bool"),
        (PluginPolicy, "kind", None, "str", "NoneType"),
        (PluginPolicy, "commands", "aws", "a list or tuple of str", "str"),
        (Impersonation, "user", None, "str", "NoneType"),
        (Impersonation, "groups", "admins", "a list or tuple of str", "str"),
        (Impersonation, "extra", {"k": "v"}, "a mapping of str to lists of str", "dict"),
        (OidcConfig, "refresh_token", 5, "str or Secret[str], or None", "int"),
        (OidcOptions, "timeout", None, "a number", "NoneType"),
    ],
)
def test_the_error_names_the_expected_type(
    cls: type[Any], name: str, value: Any, expected: str, kind: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        cls(**(REQUIRED[cls] | {name: value}))
    assert str(caught.value) == f"{cls.__name__}.{name} must be {expected}, not {kind}"


class Raises:
    """Behaves like a path, a list and a mapping until it is used."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("s3ntinel")

    __fspath__ = __iter__ = __len__ = __getitem__ = keys = items = _fail


@each_case(("cls", "name"), FIELDS)
@each_case("base", [object, collections.abc.Mapping, collections.abc.Sequence])
def test_an_object_that_raises_is_rejected_without_its_message(
    cls: type[Any], name: str, base: type[Any]
) -> None:
    value = type("Value", (Raises, base), {})()
    with pytest.raises(ConfigError) as caught:
        cls(**(REQUIRED[cls] | {name: value}))
    assert "s3ntinel" not in "".join(traceback.format_exception(caught.value))


def test_an_object_with_a_false_class_attribute_is_rejected() -> None:
    class Disguised:
        __class__ = str  # type: ignore[assignment]

    untyped: Any = ClientConfig
    with pytest.raises(ConfigError, match=r"ClientConfig\.namespace must be str, not Disguised"):
        untyped(server="https://h", namespace=Disguised())


def test_a_number_beyond_float_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"ExecOptions\.timeout must be a number, or None, not int"):
        ExecOptions(timeout=10**400)
    assert ExecOptions(timeout=5).timeout == 5.0


@each_case(("cls", "name"), FIELDS)
@each_case("value", [Unexpected(), (x for x in "ab"), "s3ntinel", b"s3ntinel", 5, None])
def test_repr_of_a_rejected_object_does_not_show_the_value(cls: type[Any], name: str, value: Any) -> None:
    """Tools that show local variables in tracebacks show `self`."""
    try:
        cls(**(REQUIRED[cls] | {name: value}))
    except ConfigError as error:
        if f".{name} must be " not in str(error):
            return  # the type is right and the value is not, such as an unknown policy
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        rejected = next(frame.f_locals["self"] for frame in frames if "self" in frame.f_locals)
        assert type(rejected) is cls
        assert "s3ntinel" not in repr(rejected)


def test_an_allowlist_of_one_string_is_rejected() -> None:
    for commands in ("aws", 5, None):
        with pytest.raises(ConfigError, match=r"PluginPolicy\.commands must be a list or tuple of str"):
            PluginPolicy.allowlist(commands)  # type: ignore[arg-type]


def test_a_cluster_config_must_be_json() -> None:
    with pytest.raises(ConfigError, match="must be JSON: a value of type set"):
        ExecConfig(command="c", api_version="v", cluster_config={"s3ntinel": {1}})


def test_a_plain_secret_is_wrapped_and_never_printed() -> None:
    untyped: Any = ClientConfig
    config = untyped(
        server="https://h", token="s3ntinel-t", password="s3ntinel-p", client_key_data=b"s3ntinel"
    )

    assert config.token == Secret("s3ntinel-t")
    assert config.password == Secret("s3ntinel-p")
    assert config.client_key_data == Secret(b"s3ntinel")
    assert "s3ntinel" not in repr(config) + str(config.describe())
    assert config.describe()["token"] == "<hidden>"

    oidc: Any = OidcConfig
    wrapped = oidc(issuer_url="https://i", client_id="c", refresh_token="s3ntinel")
    assert wrapped.refresh_token == Secret("s3ntinel")
    assert "s3ntinel" not in repr(wrapped)

    changed = dataclasses.replace(config, token="s3ntinel-2")
    assert changed.token == Secret("s3ntinel-2")


def test_a_plain_token_signs_requests() -> None:
    untyped: Any = ClientConfig
    with APIServer(tokens={"t": "alice"}) as server:
        config = untyped(server=server.url, ca_data=server.config().ca_data, token="t")
        with Client(config) as client:
            assert client.get("/api").status_code == 200


def test_a_traceback_with_locals_of_a_rejected_config_shows_no_secret() -> None:
    def render_locals(cls: Any, **values: Any) -> str:
        try:
            cls(**values)
        except ConfigError as error:
            # The frames of this test and of the generated __init__ hold the arguments themselves.
            frames = list(traceback.walk_tb(error.__traceback__))
            return "".join(
                str({name: repr(value) for name, value in f.f_locals.items()}) for f, _ in frames[2:]
            )
        raise AssertionError("not rejected")

    shown = render_locals(
        ClientConfig, server=None, token="s3ntinel", password="s3ntinel", client_key_data="s3ntinel"
    )
    assert "token" in shown
    assert "s3ntinel" not in shown

    shown = render_locals(ExecConfig, command=None, api_version="v", args=["s3ntinel"], env={"A": "s3ntinel"})
    assert "env" in shown
    assert "s3ntinel" not in shown


def test_paths_and_lists_are_converted_to_the_declared_type() -> None:
    untyped: Any = ClientConfig
    config = untyped(
        server="https://h", ca_file=Path("/ca"), token_file=Path("/t"), client_key_file=Path("/k")
    )
    assert (config.ca_file, config.token_file, config.client_key_file) == ("/ca", "/t", "/k")

    plugin: Any = ExecConfig
    assert plugin(command="c", api_version="v", args=["a"], env={"A": "b"}).args == ("a",)
    assert Impersonation(user="u", groups=["g"], extra={"k": ["v"]}).extra == {"k": ("v",)}
    assert ExecOptions(timeout=5).timeout == 5


def test_an_unknown_annotation_raises_at_import() -> None:
    @dataclasses.dataclass
    class New:
        field: complex

    with pytest.raises(KeyError, match="complex"):
        field_types(New)
