from __future__ import annotations

import copy
import dataclasses
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth import ClientConfig, ExecConfig, ExecOptions, Impersonation, PluginPolicy, Secret
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader
from kubeauth.errors import ConfigError, KubeConfigError
from kubeauth.schemas import Cluster, User
from tests.support.cases import each_case
from tests.support.kubeconfigs import EXTENSION, document, plugin, write

FIELDS = (
    "server namespace context ca_data ca_file insecure_skip_tls_verify tls_server_name proxy_url "
    "disable_compression token token_file username password client_cert_data client_key_data "
    "client_cert_file client_key_file impersonate exec oidc"
)


def round_trip(config: ClientConfig) -> tuple[ClientConfig, bytes]:
    pickled = pickle.dumps(config)
    unpickled: ClientConfig = pickle.loads(pickled)
    return unpickled, pickled


def test_the_fields_are_those_of_a_rest_config() -> None:
    assert [field.name for field in dataclasses.fields(ClientConfig)] == FIELDS.split()
    assert {f.name for f in dataclasses.fields(ExecConfig)} == set(
        [
            "command",
            "args",
            "env",
            "api_version",
            "interactive_mode",
            "provide_cluster_info",
            "install_hint",
            "cluster_config",
            "options",
            "policy",
        ]
    )
    assert [f.name for f in dataclasses.fields(Impersonation)] == ["user", "uid", "groups", "extra"]


def test_a_config_is_frozen_and_compares_by_value() -> None:
    config, equal = (
        kubeauth.load_config(document(user={"token": "t", **plugin(args=["a"])})) for _ in range(2)
    )

    assert config == equal
    assert hash(config) == hash(equal)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.server = "x"  # type: ignore[misc]


def test_repr_shows_set_fields_and_hides_secrets_k7() -> None:
    extension = [{"name": EXTENSION, "extension": {"k": "s3ntinel"}}]
    cluster = {"proxy-url": "http://u:s3ntinel@proxy:1", "certificate-authority-data": "czNudGluZWw=",
               "extensions": extension}  # fmt: skip
    user = {
        "token": "s3ntinel", "client-certificate-data": "czNudGluZWw=", "client-key-data": "czNudGluZWw=",
        **plugin(args=["s3ntinel"], env=[{"name": "A", "value": "s3ntinel"}], installHint="s3ntinel"),
    }  # fmt: skip
    config = kubeauth.load_config(document(cluster, user))

    text = repr(config)

    assert "s3ntinel" not in text
    for shown in ("https://h:6443", "proxy_url='http://***@proxy:1'", "ca_data=<8 bytes>", "token=<hidden>",
                  "client_key_data=<hidden>", "command='plug'", "<1 hidden: A>", "context='x'"):  # fmt: skip
        assert shown in text
    assert "username" not in text
    assert str(config) == text

    basic = kubeauth.load_config(document(user={"username": "n", "password": "s3ntinel"}))
    assert "password=<hidden>" in repr(basic)


def test_describe_returns_set_fields_and_hides_secrets() -> None:
    config = kubeauth.load_config(document({"proxy-url": "http://u:s3ntinel@p:1"}, {"token": "s3ntinel"}))
    assert config.describe() == {
        "server": "https://h:6443",
        "namespace": "default",
        "context": "x",
        "proxy_url": "http://***@p:1",
        "token": "<hidden>",
    }


def test_copying_returns_the_same_object() -> None:
    config = kubeauth.load_config(document(user={"token": "t"}))
    assert copy.copy(config) is config
    assert copy.deepcopy(config) is config


def test_a_config_from_files_is_pickled_as_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doc = document(user={"token": "s3ntinel-1", **plugin()}, contexts=[
        {"name": n, "context": {"cluster": "c", "user": "u", "namespace": n}} for n in "xy"])  # fmt: skip
    path = write(tmp_path / "config", doc)
    config = kubeauth.load_config(
        path, context="y", exec_options=ExecOptions(timeout=7), plugin_policy=PluginPolicy.deny_all()
    )

    unpickled, pickled = round_trip(config)

    assert unpickled == config
    assert unpickled.exec is not None
    assert (unpickled.exec.options.timeout, unpickled.exec.policy) == (7, PluginPolicy.deny_all())
    assert b"s3ntinel" not in pickled

    # Unpickling reads the files again.
    doc["users"][0]["user"]["token"] = "s3ntinel-2"
    write(tmp_path / "config", doc)
    assert pickle.loads(pickled).token == Secret("s3ntinel-2")

    # The paths are those of KUBECONFIG at load time, and the context does not follow a new current-context.
    monkeypatch.setenv("KUBECONFIG", f"/nope:{path}")
    _, pickled = round_trip(kubeauth.load_config())
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    write(tmp_path / "config", {**doc, "current-context": "y"})

    assert pickle.loads(pickled).context == "x"


def test_pickling_keeps_the_cluster_user_and_namespace_arguments(tmp_path: Path) -> None:
    doc = {
        "clusters": [{"name": n, "cluster": {"server": f"https://{n}"}} for n in "ab"],
        "users": [{"name": n, "user": {"token": n}} for n in "ab"],
        "contexts": [{"name": "x", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "x",
    }
    path = write(tmp_path / "config", doc)
    config = kubeauth.load_config(path, cluster="b", user="b", namespace="n")

    unpickled, _ = round_trip(config)

    assert (unpickled.server, unpickled.token, unpickled.namespace) == ("https://b", Secret("b"), "n")


def test_pickling_keeps_the_plugin_policy(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user=plugin()))
    kuberc = {
        "apiVersion": "kubectl.config.k8s.io/v1beta1",
        "kind": "Preference",
        "credentialPluginPolicy": "DenyAll",
    }
    write(tmp_path / "home/.kube/kuberc", kuberc)
    pickled = pickle.dumps(kubeauth.load_config(path))
    (tmp_path / "home/.kube/kuberc").unlink()

    unpickled: ClientConfig = pickle.loads(pickled)

    assert unpickled.exec is not None
    assert unpickled.exec.policy == PluginPolicy.deny_all()


def test_unpickling_without_the_kubeconfig_files_raises(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document())
    pickled = pickle.dumps(kubeauth.load_config(path))
    (tmp_path / "config").unlink()

    with pytest.raises(KubeConfigError, match="none of these files exists here") as caught:
        pickle.loads(pickled)

    assert caught.value.path == path


def test_a_config_from_a_document_without_secrets_can_be_pickled() -> None:
    config = kubeauth.load_config(document({"tls-server-name": "n"}, {"as": "me", **plugin()}))
    assert round_trip(config)[0] == config


@each_case(
    ("cluster", "user", "field"),
    [
        ({}, {"token": "s3ntinel"}, "token"),
        ({}, {"username": "n", "password": "s3ntinel"}, "password"),
        ({}, {"client-certificate-data": "YQ==", "client-key-data": "czNudGluZWw="}, "client_key_data"),
        ({}, plugin(args=["s3ntinel"]), "exec.args"),
        ({}, plugin(env=[{"name": "A", "value": "s3ntinel"}]), "exec.env"),
        ({"extensions": [{"name": EXTENSION, "extension": "s3ntinel"}]}, plugin(), "exec.cluster_config"),
        ({"proxy-url": "http://u:s3ntinel@p"}, {}, "proxy_url"),
        ({"server": "https://u:s3ntinel@h"}, {}, "server"),
    ],
)
def test_a_config_from_a_document_with_a_secret_cannot_be_pickled(
    cluster: Any, user: Any, field: str
) -> None:
    config = kubeauth.load_config(document(cluster, user))

    assert "s3ntinel" not in repr(config)

    with pytest.raises(ConfigError, match="Pass the path of a kubeconfig") as caught:
        pickle.dumps(config)

    assert f"({field})" in str(caught.value)
    assert "s3ntinel" not in str(caught.value)


def test_a_replaced_config_is_not_pickled_as_its_origin(tmp_path: Path) -> None:
    config = kubeauth.load_config(write(tmp_path / "config", document(user={"token": "t"})))
    changed = dataclasses.replace(config, namespace="other")

    with pytest.raises(ConfigError, match="token"):
        pickle.dumps(changed)
    assert round_trip(dataclasses.replace(changed, token=None))[0].namespace == "other"


@pytest.mark.parametrize(
    "overrides",
    [
        Overrides(user_info=User(token=Secret("s3ntinel"))),
        Overrides(cluster_info=Cluster(server="https://other")),
    ],
)
def test_a_config_with_overrides_cannot_be_pickled(tmp_path: Path, overrides: Overrides) -> None:
    path = write(tmp_path / "config", document(user={"token": "file"}))
    config = Loader(overrides=overrides).load_file(path)
    with pytest.raises(ConfigError):
        pickle.dumps(config)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_a_config_from_a_file_descriptor_cannot_be_pickled(tmp_path: Path) -> None:
    """`/dev/stdin`, `<(process substitution)`: in another process that path is a different file."""
    path = write(tmp_path / "config", document(user={"token": "s3ntinel"}))
    read_end, write_end = os.pipe()
    os.write(write_end, Path(path).read_bytes())
    os.close(write_end)

    with open(path, "rb") as file:
        for descriptor in (read_end, file.fileno()):
            config = kubeauth.load_config(f"/dev/fd/{descriptor}")
            with pytest.raises(ConfigError, match="Pass the path of a kubeconfig"):
                pickle.dumps(config)
    os.close(read_end)


@pytest.mark.skipif(os.devnull != "/dev/null", reason="needs /dev/null")
def test_dev_null_in_kubeconfig_does_not_prevent_pickling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`KUBECONFIG=config:/dev/null`: that file is empty on every machine."""
    path = write(tmp_path / "config", document(user={"token": "s3ntinel"}))
    monkeypatch.setenv("KUBECONFIG", f"{path}:{os.devnull}")

    config = kubeauth.load_config()

    assert pickle.loads(pickle.dumps(config)) == config


def test_a_config_from_a_removed_working_directory_cannot_be_pickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "config", document(user={"token": "s3ntinel"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.getcwd", lambda: (_ for _ in ()).throw(FileNotFoundError()))

    with pytest.raises(ConfigError, match="Pass the path of a kubeconfig"):
        pickle.dumps(kubeauth.load_config("config"))


def test_a_pickle_restores_every_field_and_contains_no_secret(tmp_path: Path) -> None:
    """All fields of a kubeconfig, all arguments of load_config, all pickle protocols."""
    cluster = {"proxy-url": "http://u:s3ntinel-proxy@p:1", "tls-server-name": "n",
               "extensions": [{"name": EXTENSION, "extension": {"key": "s3ntinel-extension"}}]}  # fmt: skip
    user = {
        "token": "s3ntinel-token", "client-certificate-data": "YQ==", "client-key-data": "czNudGluZWwta2V5",
        "as": "jane", "as-uid": "7", "as-groups": ["g"], "as-user-extra": {"reason": ["s3ntinel-extra"]},
        **plugin(args=["s3ntinel-argument"], env=[{"name": "A", "value": "s3ntinel-variable"}],
                 installHint="s3ntinel-hint", provideClusterInfo=True),
    }  # fmt: skip
    config = kubeauth.load_config(
        write(tmp_path / "config", document(cluster, user)),
        context="x", namespace="n", exec_options=ExecOptions(timeout=7, refresh_ahead=False),
        plugin_policy=PluginPolicy.allowlist(["plug"]),
    )  # fmt: skip

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(config, protocol)
        # pickle neither encodes nor compresses text.
        assert b"s3ntinel" not in pickled
        assert b"czNudGluZWw" not in pickled

        unpickled: ClientConfig = pickle.loads(pickled)
        assert unpickled == config
        assert (unpickled.exec, unpickled.impersonate) == (config.exec, config.impersonate)

    assert len(pickled) < 1000
