"""Docker configs and pull secrets: what is read from them, and what is refused (5.13, 5.14)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kubeauth.errors import DockerConfigError
from kubeauth.registry._entries import LIMIT
from kubeauth.registry._keyring import Keyring
from kubeauth.registry._values import RegistryCredential
from tests.support.cases import each_case

FOO = {"username": "foo", "password": "bar", "email": "foo@example.com"}
BAR = {"username": "bar", "password": "baz", "email": "bar@example.com"}
TWO: dict[str, Any] = {"http://foo.example.com": FOO, "http://bar.example.com": BAR}


def facts(found: list[RegistryCredential]) -> list[tuple[str, str, str]]:
    return [(credential.username, credential.password, credential.email) for credential in found]


def of_entry(entry: object) -> tuple[str, str, str]:
    (found,) = facts(Keyring.from_docker_config({"auths": {"a.io": entry}}).lookup("a.io/x"))
    return found


def refused(source: Any, **options: bool) -> DockerConfigError:
    with pytest.raises(DockerConfigError) as caught:
        Keyring.from_docker_config(source, **options)
    return caught.value


# config_test.go: DockerConfigJson decode, dockercfg decode, bytes valid.
@each_case("document", [TWO, {"auths": TWO}], ids=["DT-dockercfg", "DT-DockerConfigJson"])
@each_case("form", ["mapping", "bytes", "bytearray", "file", "str"])
def test_both_forms_from_wherever_they_are_dt(document: dict[str, Any], form: str, tmp_path: Path) -> None:
    path = tmp_path / "whatever"
    path.write_text(json.dumps(document))
    sources: dict[str, Any] = {
        "mapping": document, "bytes": path.read_bytes(), "bytearray": bytearray(path.read_bytes()), "file": path, "str": str(path),
    }  # fmt: skip
    keyring = Keyring.from_docker_config(sources[form])
    assert facts(keyring.lookup("foo.example.com/x")) == [tuple(FOO.values())]
    assert facts(keyring.lookup("bar.example.com/x")) == [tuple(BAR.values())]
    (found,) = keyring.lookup("foo.example.com")
    assert found.source == (str(path) if form in ("file", "str") else "")


@each_case(
    ("entry", "expected"),
    [
        pytest.param(FOO, tuple(FOO.values()), id="DT-plain-fields"),
        pytest.param({"auth": "Zm9vOmJhcg==", "email": "e"}, ("foo", "bar", "e"), id="DT-auth-only"),
        pytest.param({**FOO, "auth": "cGluZzpwb25n"}, ("ping", "pong", "foo@example.com"), id="DT-both"),
        pytest.param({**FOO, "auth": ""}, tuple(FOO.values()), id="5.14-empty-auth"),
        pytest.param({**FOO, "auth": None}, tuple(FOO.values()), id="null"),
        pytest.param(None, ("", "", ""), id="null-entry"),
        pytest.param({}, ("", "", ""), id="empty-entry"),
        pytest.param({"Username": "u", "PASSWORD": "p"}, ("u", "p", ""), id="any-case"),
        pytest.param({"auth": "dTpw", "identitytoken": 5, "x": []}, ("u", "p", ""), id="5.14-others-ignored"),
    ],
)
def test_an_entry_5_14(entry: object, expected: tuple[str, str, str]) -> None:
    assert of_entry(entry) == expected


@each_case(
    "auth",
    [
        pytest.param("Zm9vOmJhcg==", id="DT-padded"),
        pytest.param("Zm9vOmJhcg", id="DT-unpadded"),
        pytest.param("Zm9vOm\nJhcg==\n", id="DT-newlines"),
        pytest.param("Zm9vOm\r\nJhcg\r\n", id="newlines-unpadded"),
        pytest.param(base64.b64encode(b"foo:bar").decode(), id="DT-std"),
        pytest.param(base64.b64encode(b"foo:bar").decode().rstrip("="), id="DT-raw"),
        pytest.param(base64.standard_b64encode(b"foo:bar").decode(), id="DT-own-encoder"),
        pytest.param("Zm9vOmJhch==", id="stray-bits-at-the-end"),
    ],
)
def test_an_auth_field_5_14(auth: str) -> None:
    assert of_entry({"auth": auth}) == ("foo", "bar", "")


def test_only_the_first_colon_divides_5_14() -> None:
    assert of_entry({"auth": base64.b64encode(b"u:p:q\n").decode()}) == ("u", "p:q\n", "")
    assert of_entry({"auth": base64.b64encode(b":").decode()}) == ("", "", "")
    assert of_entry({"auth": base64.b64encode("\u00fc:\u00fc".encode()).decode()}) == ("\u00fc", "\u00fc", "")


@each_case(
    "auth",
    [
        pytest.param("cGFudHM=", id="DT-no-colon"),
        pytest.param("Zm9vOmJhcg== ", id="DT-trailing-space"),
        pytest.param("pants", id="DT-pants"),
        pytest.param(" Zm9vOmJhcg==", id="leading-space"),
        pytest.param("Zm9v OmJhcg==", id="space-inside"),
        pytest.param("Zm9vOmJhcg=", id="half-padded"),
        pytest.param("Zm9vOmJhcg====", id="over-padded"),
        pytest.param("Zm9v=OmJhcg", id="padding-inside"),
        pytest.param("Zm9vOmJhc-_=", id="url-alphabet"),
        pytest.param("====", id="only-padding"),
        pytest.param("\n", id="only-a-line-end"),
        pytest.param(base64.b64encode(b"u:\xff").decode(), id="not-utf-8"),
    ],
)
def test_an_auth_field_that_fails_the_file_5_14(auth: str) -> None:
    error = refused({"auths": {"b.io": FOO, "a.io": {"auth": auth, "email": "e"}}})
    assert error.field == 'auths["a.io"].auth'
    assert error.field in str(error)
    assert "docker login" in str(error)
    assert auth.strip() == "" or auth not in str(error)


@each_case(
    ("document", "field"),
    [
        pytest.param({"auths": {"a.io": {"email": False}}}, 'auths["a.io"].email', id="DT-email-false"),
        pytest.param({"a.io": {"password": 5}}, '["a.io"].password', id="number"),
        pytest.param({"auths": {"a.io": "text"}}, 'auths["a.io"]', id="entry-is-text"),
        pytest.param({"auths": ["a.io"]}, "auths", id="auths-is-a-list"),
        pytest.param({"a.io": "text"}, '["a.io"]', id="flat-entry-is-text"),
    ],
)
def test_other_types_fail_the_file_5_14(document: dict[str, Any], field: str) -> None:
    assert refused(document).field == field
    assert refused(json.dumps(document).encode()).field == field


@pytest.mark.parametrize("again", ["auths", "Auths"])
def test_of_auths_that_are_there_twice_the_last_count_5_14(again: str) -> None:
    keyring = Keyring.from_docker_config(b'{"auths": {"a.io": {}}, "%s": {"b.io": {}}}' % again.encode())
    assert [len(keyring.lookup(f"{host}/x")) for host in ("a.io", "b.io")] == [0, 1]


@each_case(
    "text",
    [
        pytest.param(json.dumps(TWO)[:-20].encode(), id="DT-flat-truncated"),
        pytest.param(json.dumps({"auths": TWO})[:-20].encode(), id="DT-auths-truncated"),
        pytest.param(b"", id="empty"),
        pytest.param(b"{} {}", id="two"),
        pytest.param(b"auths: {}", id="yaml"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"\xff", id="not-utf-8"),
        pytest.param(b"[" * 200 + b"]" * 200, id="deep"),
        pytest.param(b" " * (LIMIT + 1), id="large"),
    ],
)
def test_what_is_not_json_is_refused_from_bytes_and_from_a_file(text: bytes, tmp_path: Path) -> None:
    assert refused(text).path is None
    path = tmp_path / "config.json"
    path.write_bytes(text)
    error = refused(path)
    assert error.path == str(path)
    assert str(path) in str(error)


@each_case(
    ("text", "what", "hint"),
    [
        (b'{"auths": {\n  "a.io": {"auth": "s3ntinel",}}}', "line 2, column ", "Correct the JSON there"),
        (b'{"auths": {"a.io": {"auth": "s3ntinel"', "line 1, column ", "Correct the JSON there"),
        (b"auths: {s3ntinel: {}}", "line 1, column 1: not valid JSON", "Correct the JSON there"),
        (b"\xff", "not valid UTF-8", "Correct the JSON there"),
        (b" \n", "it is empty", '{"auths": '),
        (b'["s3ntinel"]', "a docker config must be an object, not a list", '{"auths": '),
        (b'{"auths": "s3ntinel"}', "the entries must be an object, not a string", '{"auths": '),
        (b'{"auths": {"a.io": "s3ntinel"}}', "an entry must be an object", "Log in again"),
        (b'{"auths": {"a.io": {"auth": "s3ntinel!"}}}', "it is not base64", "Log in again"),
    ],
)
def test_the_advice_is_about_what_is_malformed(text: bytes, what: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text)
    for error in (refused(text), refused(path)):
        assert what in str(error)
        assert hint in str(error)
        assert "permissions" not in str(error)
        assert "Check the path" not in str(error)
        assert "s3ntinel" not in str(error)


def test_the_advice_for_what_cannot_be_read_is_about_the_path(tmp_path: Path) -> None:
    assert str(refused(tmp_path / "none")).endswith("it does not exist\n  Check the path.")
    assert str(refused(tmp_path)).endswith("\n  Check the path and its permissions.")


@each_case(
    "document",
    [b"{}", b"null", b'{"auths": null}', b'{"auths": {}}', b'{"credsStore": "desktop"}', b'{"credHelpers": {"gcr.io": "gcloud"}}',
     b'{"HttpHeaders": {"User-Agent": "x"}}', b'{"detachKeys": "ctrl-q", "proxies": {}}'],
)  # fmt: skip
def test_settings_of_docker_are_no_registries(document: bytes) -> None:
    assert repr(Keyring.from_docker_config(document)) == "<Keyring: 0 credentials under 0 keys>"


def test_which_of_the_two_forms_it_is() -> None:
    assert facts(Keyring.from_docker_config({"AUTHS": {"a.io": FOO}}).lookup("a.io")) == [tuple(FOO.values())]
    # No dot in the name, and yet a registry: it has a user.
    assert facts(Keyring.from_docker_config({"registry": FOO}).lookup("registry/x")) == [tuple(FOO.values())]
    mixed = Keyring.from_docker_config({"auths": {"a.io": FOO}, "b.io": BAR})
    assert (len(mixed.lookup("a.io")), mixed.lookup("b.io")) == (1, [])


def test_a_dockercfg_is_flat_whatever_it_holds(tmp_path: Path) -> None:
    path = tmp_path / ".dockercfg"
    path.write_text(json.dumps({"registry": {}, "a.io": FOO}))
    assert len(Keyring.from_docker_config(path).lookup("registry/x")) == 1


def test_tokens_only_if_they_are_asked_for_9_9() -> None:
    document = {"auths": {"a.io": {"auth": "dTo=", "identitytoken": "i"}, "b.io": {"registrytoken": "r"}}}
    (as_kubelet,) = Keyring.from_docker_config(document).lookup("a.io")
    assert (as_kubelet.username, as_kubelet.password, as_kubelet.identity_token) == ("u", "", "")
    keyring = Keyring.from_docker_config(document, with_tokens=True)
    assert [(c.username, c.identity_token) for c in keyring.lookup("a.io")] == [("u", "i")]
    assert [c.registry_token for c in keyring.lookup("b.io")] == ["r"]
    assert (
        refused({"auths": {"a.io": {"identitytoken": 5}}}, with_tokens=True).field
        == 'auths["a.io"].identitytoken'
    )


def test_a_parsed_document_may_change_afterwards() -> None:
    document: dict[str, Any] = {"auths": {"a.io": dict(FOO)}}
    keyring = Keyring.from_docker_config(document)
    document["auths"]["a.io"]["username"] = "changed"
    assert facts(keyring.lookup("a.io")) == [tuple(FOO.values())]


def test_without_a_source_it_is_the_file_that_docker_login_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    assert "docker login" in str(refused(None))
    for number, directory in enumerate((tmp_path / "home" / ".docker", tmp_path / "elsewhere")):
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps({"auths": {"a.io": {"username": f"{number}"}}}))
    assert [c.username for c in Keyring.from_docker_config().lookup("a.io")] == ["0"]
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "elsewhere"))
    assert [c.username for c in Keyring.from_docker_config().lookup("a.io")] == ["1"]
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.setenv("HOME", "")
    assert "no home" in str(refused(None))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    error = refused(tmp_path / "nope")
    assert error.path == str(tmp_path / "nope")
    assert "does not exist" in str(error)
    assert "Check the path" in str(error)
    assert "directory" in str(refused(tmp_path)).lower()
    assert "the path contains invalid characters" in str(refused("a\0b"))


@each_case(
    "text",
    [
        '{"auths": {}}',
        "\n {}",
        base64.b64encode(b'{"auths": {}}').decode(),
        base64.b64encode(b"{\n }").decode(),
    ],
)
def test_text_where_a_path_belongs_is_told(text: str) -> None:
    assert "pass bytes" in str(refused(text))


def test_a_file_that_looks_like_text_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("eyJ").write_text("{}")
    assert Keyring.from_docker_config("eyJ").lookup("a.io") == []


@pytest.mark.parametrize("source", [5, [TWO], {"a.io": {1, 2}}])
def test_other_sources_are_refused(source: Any) -> None:
    assert refused(source).path is None


def secret(
    document: object, *, kind: str = "dockerconfigjson", key: str | None = None, **more: Any
) -> dict[str, Any]:
    """A Secret as the API gives it. A text is taken as it is."""
    text = document if isinstance(document, str) else json.dumps(document)
    return {
        "type": f"kubernetes.io/{kind}",
        "data": {key or f".{kind}": base64.b64encode(text.encode()).decode()},
        **more,
    }


AUTH = {"test.registry.io": {"auth": "dXNlcjpwYXNzd29yZA=="}}
PLAIN = {"test.registry.io": {"username": "user", "password": "password"}}


# secrets_test.go, Test_MakeDockerKeyring: ten cases.
@each_case(
    ("secrets", "has_default", "expected"),
    [
        pytest.param([secret({"auths": AUTH})], False, ["user"], id="dockerconfigjson-auth"),
        pytest.param([secret(AUTH, kind="dockercfg")], False, ["user"], id="dockercfg-auth"),
        pytest.param([secret({"auths": PLAIN})], False, ["user"], id="dockerconfigjson-plain"),
        pytest.param([secret(PLAIN, kind="dockercfg")], False, ["user"], id="dockercfg-plain"),
        pytest.param([secret({"auths": AUTH}, kind="dockercfg", key=".dockerconfigjson")], False, [], id="dockerconfigjson-wrong-type"),
        pytest.param([secret(AUTH, key=".dockercfg")], False, [], id="dockercfg-wrong-type"),
        pytest.param([secret({"auths": {"foobar.io": AUTH["test.registry.io"]}})], True, ["default"], id="dockerconfigjson-miss-default"),
        pytest.param([secret({"foobar.io": AUTH["test.registry.io"]}, kind="dockercfg")], True, ["default"], id="dockercfg-miss-default"),
        pytest.param([], True, ["default"], id="none-default"),
        pytest.param([secret({"auths": AUTH})], True, ["user", "default"], id="hit-then-default"),
    ],
)  # fmt: skip
def test_pull_secrets_5_13(secrets: list[dict[str, Any]], has_default: bool, expected: list[str]) -> None:
    """MakeDockerKeyring."""
    default = Keyring()
    if has_default:
        default.add({"test.registry.io": {"username": "default", "password": "default-password"}})
    keyring = Keyring.joined(Keyring.from_pull_secrets(secrets), default)
    found = keyring.lookup("test.registry.io")
    assert [credential.username for credential in found] == expected
    assert all(credential.password == "password" for credential in found if credential.username == "user")


def test_secrets_are_one_keyring_in_their_order_5_13_5_5() -> None:
    metadata = {"namespace": "apps", "name": "pull"}
    secrets = [
        secret({"auths": {"a.io": {"username": "1"}}}, metadata=metadata),
        secret(
            {"a.io/x": {"username": "2"}, "a.io": {"username": "3"}},
            kind="dockercfg",
            metadata={"name": "old"},
        ),
    ]
    found = Keyring.from_pull_secrets(iter(secrets)).lookup("a.io/x")
    assert [credential.username for credential in found] == ["2", "1", "3"]
    assert [credential.source for credential in found] == ["secret old", "secret apps/pull", "secret old"]


def test_secrets_that_say_nothing_about_registries_are_named_5_13() -> None:
    metadata = {"namespace": "apps", "name": "n"}
    keyring = Keyring.from_pull_secrets(
        [
            {"type": "Opaque", "data": {".dockerconfigjson": "e30="}, "metadata": metadata},
            {"type": ["kubernetes.io/dockercfg"], "metadata": metadata},
            {"data": {}},
            secret("", metadata=metadata),
            {"type": "kubernetes.io/dockercfg", "data": None, "metadata": {"name": 5}},
        ]
    )
    assert [name for name, _ in keyring.skipped] == [
        "secret apps/n",
        "secret apps/n",
        "secret",
        "secret apps/n",
        "secret",
    ]
    assert "type" in keyring.skipped[0][1]
    assert ".dockerconfigjson" in keyring.skipped[3][1]
    assert ".dockercfg" in keyring.skipped[4][1]


def test_string_data_wins_over_data() -> None:
    made = secret({"auths": {"a.io": {"username": "data"}}})
    made["stringData"] = {".dockerconfigjson": json.dumps({"auths": {"a.io": {"username": "string"}}})}
    assert [c.username for c in Keyring.from_pull_secrets([made]).lookup("a.io")] == ["string"]
    made["stringData"] = {"other": "x"}
    assert [c.username for c in Keyring.from_pull_secrets([made]).lookup("a.io")] == ["data"]


@each_case(
    ("broken", "field"),
    [
        (secret("{", metadata={"name": "n"}), 'secret n: data[".dockerconfigjson"]'),
        (secret("[]"), 'secret: data[".dockerconfigjson"]'),
        (
            secret({"auths": {"a.io": {"auth": "pants"}}}),
            'secret: data[".dockerconfigjson"].auths["a.io"].auth',
        ),
        (secret({"a.io": 5}, kind="dockercfg"), 'secret: data[".dockercfg"]["a.io"]'),
        ({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "?"}}, 'secret: data[".dockercfg"]'),
        ({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": 5}}, 'secret: data[".dockercfg"]'),
        ("text", None),
    ],
)
def test_one_broken_secret_fails_them_all_5_13(broken: Any, field: str | None) -> None:
    with pytest.raises(DockerConfigError) as caught:
        Keyring.from_pull_secrets([secret({"auths": PLAIN}), broken])
    assert (caught.value.path, caught.value.field) == (None, field)


def test_one_secret_without_a_list_is_told() -> None:
    class OneSecret(Mapping[str, object]):
        def __getitem__(self, key: str) -> object:
            return secret({"auths": PLAIN})[key]

        def __iter__(self) -> Iterator[str]:
            return iter(("type", "data"))

        def __len__(self) -> int:
            return 2

    made: Any = OneSecret()
    with pytest.raises(DockerConfigError, match="Pass a list of Secrets"):
        Keyring.from_pull_secrets(made)
    assert len(Keyring.from_pull_secrets([made]).lookup("test.registry.io")) == 1


def test_tokens_of_pull_secrets_9_9() -> None:
    made = secret({"auths": {"a.io": {"identitytoken": "i"}}})
    for with_tokens, token in ((False, ""), (True, "i")):
        (found,) = Keyring.from_pull_secrets([made], with_tokens=with_tokens).lookup("a.io")
        assert found.identity_token == token
