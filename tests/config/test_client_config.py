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
from kubeauth._config.kubeconfig import Cluster, Overrides, User
from kubeauth._config.loader import Loader
from kubeauth.errors import ConfigError, KubeConfigError
from tests.support.cases import each_case
from tests.support.kubeconfigs import EXTENSION, document, plugin, write

FIELDS = (
    "server namespace context ca_data ca_file insecure_skip_tls_verify tls_server_name proxy_url "
    "disable_compression token token_file username password client_cert_data client_key_data "
    "client_cert_file client_key_file impersonate exec oidc"
)


def over_the_wire(config: ClientConfig) -> tuple[ClientConfig, bytes]:
    sent = pickle.dumps(config)
    received: ClientConfig = pickle.loads(sent)
    return received, sent


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


def test_it_is_frozen_and_compares_by_value() -> None:
    config = kubeauth.load_config(document(user={"token": "t", **plugin(args=["a"])}))
    assert config == kubeauth.load_config(document(user={"token": "t", **plugin(args=["a"])}))
    assert hash(config) == hash(kubeauth.load_config(document(user={"token": "t", **plugin(args=["a"])})))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.server = "x"  # type: ignore[misc]


def test_its_repr_shows_what_is_set_and_no_secret_k7() -> None:
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


def test_describe_is_for_tables_and_logs() -> None:
    config = kubeauth.load_config(document({"proxy-url": "http://u:s3ntinel@p:1"}, {"token": "s3ntinel"}))
    assert config.describe() == {
        "server": "https://h:6443",
        "namespace": "default",
        "context": "x",
        "proxy_url": "http://***@p:1",
        "token": "<hidden>",
    }


def test_copies_are_itself() -> None:
    config = kubeauth.load_config(document(user={"token": "t"}))
    assert copy.copy(config) is config
    assert copy.deepcopy(config) is config


def test_one_from_files_travels_as_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doc = document(user={"token": "s3ntinel-1", **plugin()}, contexts=[
        {"name": n, "context": {"cluster": "c", "user": "u", "namespace": n}} for n in "xy"])  # fmt: skip
    path = write(tmp_path / "config", doc)
    config = kubeauth.load_config(
        path, context="y", exec_options=ExecOptions(timeout=7), plugin_policy=PluginPolicy.deny_all()
    )
    received, sent = over_the_wire(config)
    assert received == config
    assert received.exec is not None
    assert (received.exec.options.timeout, received.exec.policy) == (7, PluginPolicy.deny_all())
    assert b"s3ntinel" not in sent
    # Loaded anew: what the file says there and then.
    doc["users"][0]["user"]["token"] = "s3ntinel-2"
    write(tmp_path / "config", doc)
    assert pickle.loads(sent).token == Secret("s3ntinel-2")
    # Also through a chain, whatever KUBECONFIG is there; and the context stays the one it was.
    monkeypatch.setenv("KUBECONFIG", f"/nope:{path}")
    _, sent = over_the_wire(kubeauth.load_config())
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    write(tmp_path / "config", {**doc, "current-context": "y"})
    assert pickle.loads(sent).context == "x"


def test_the_chosen_names_travel_along(tmp_path: Path) -> None:
    doc = {
        "clusters": [{"name": n, "cluster": {"server": f"https://{n}"}} for n in "ab"],
        "users": [{"name": n, "user": {"token": n}} for n in "ab"],
        "contexts": [{"name": "x", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "x",
    }
    path = write(tmp_path / "config", doc)
    config = kubeauth.load_config(path, cluster="b", user="b", namespace="n")
    received, _ = over_the_wire(config)
    assert (received.server, received.token, received.namespace) == ("https://b", Secret("b"), "n")


def test_the_policy_of_the_sender_travels_along(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user=plugin()))
    kuberc = {
        "apiVersion": "kubectl.config.k8s.io/v1beta1",
        "kind": "Preference",
        "credentialPluginPolicy": "DenyAll",
    }
    write(tmp_path / "home/.kube/kuberc", kuberc)
    sent = pickle.dumps(kubeauth.load_config(path))
    (tmp_path / "home/.kube/kuberc").unlink()
    received: ClientConfig = pickle.loads(sent)
    assert received.exec is not None
    assert received.exec.policy == PluginPolicy.deny_all()


def test_a_recipe_without_its_files_says_what_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document())
    sent = pickle.dumps(kubeauth.load_config(path))
    (tmp_path / "config").unlink()
    with pytest.raises(KubeConfigError, match="none of these files exists here") as caught:
        pickle.loads(sent)
    assert caught.value.path == path


def test_one_without_a_file_travels_if_it_holds_no_secret() -> None:
    config = kubeauth.load_config(document({"tls-server-name": "n"}, {"as": "me", **plugin()}))
    assert over_the_wire(config)[0] == config


@each_case(
    ("cluster", "user", "name"),
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
def test_one_without_a_file_that_holds_a_secret_refuses(cluster: Any, user: Any, name: str) -> None:
    config = kubeauth.load_config(document(cluster, user))
    assert "s3ntinel" not in repr(config)
    with pytest.raises(ConfigError, match="Pass the path of a kubeconfig") as caught:
        pickle.dumps(config)
    assert f"({name})" in str(caught.value)
    assert "s3ntinel" not in str(caught.value)


def test_a_changed_one_is_not_what_its_recipe_makes(tmp_path: Path) -> None:
    config = kubeauth.load_config(write(tmp_path / "config", document(user={"token": "t"})))
    changed = dataclasses.replace(config, namespace="other")
    with pytest.raises(ConfigError, match="token"):
        pickle.dumps(changed)
    assert over_the_wire(dataclasses.replace(changed, token=None))[0].namespace == "other"


@pytest.mark.parametrize(
    "overrides",
    [
        Overrides(user_info=User(token=Secret("s3ntinel"))),
        Overrides(cluster_info=Cluster(server="https://other")),
    ],
)
def test_overridden_values_do_not_travel_in_a_recipe(tmp_path: Path, overrides: Overrides) -> None:
    path = write(tmp_path / "config", document(user={"token": "file"}))
    config = Loader(overrides=overrides).load_file(path)
    with pytest.raises(ConfigError):
        pickle.dumps(config)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="descriptors have no names here")
def test_one_from_a_descriptor_has_no_path_that_means_the_same_elsewhere(tmp_path: Path) -> None:
    """`/dev/stdin`, `<(process substitution)`: there, that name is another file's, or a terminal's."""
    path = write(tmp_path / "config", document(user={"token": "s3ntinel"}))
    read, written = os.pipe()
    os.write(written, Path(path).read_bytes())
    os.close(written)
    with open(path, "rb") as file:
        for descriptor in (read, file.fileno()):
            config = kubeauth.load_config(f"/dev/fd/{descriptor}")
            with pytest.raises(ConfigError, match="Pass the path of a kubeconfig"):
                pickle.dumps(config)
    os.close(read)


@pytest.mark.skipif(os.devnull != "/dev/null", reason="it is in every directory here")
def test_one_with_nothing_beside_it_travels_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`KUBECONFIG=config:/dev/null`: there is nothing in that anywhere."""
    path = write(tmp_path / "config", document(user={"token": "s3ntinel"}))
    monkeypatch.setenv("KUBECONFIG", f"{path}:{os.devnull}")
    config = kubeauth.load_config()
    assert pickle.loads(pickle.dumps(config)) == config


def test_one_from_a_directory_that_is_gone_has_no_path_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "config", document(user={"token": "s3ntinel"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.getcwd", lambda: (_ for _ in ()).throw(FileNotFoundError()))
    with pytest.raises(ConfigError, match="Pass the path of a kubeconfig"):
        pickle.dumps(kubeauth.load_config("config"))


def test_everything_that_was_asked_for_travels_and_no_secret_does(tmp_path: Path) -> None:
    """All that a kubeconfig can hold, and all that load_config takes, in every form that a pickle could have."""
    cluster = {"proxy-url": "http://u:s3ntinel-proxy@p:1", "tls-server-name": "n",
               "extensions": [{"name": EXTENSION, "extension": {"key": "s3ntinel-extension"}}]}  # fmt: skip
    user = {
        "token": "s3ntinel-token", "client-certificate-data": "YQ==", "client-key-data": "czNudGluZWwta2V5",
        "as": "somebody", "as-uid": "7", "as-groups": ["g"], "as-user-extra": {"reason": ["s3ntinel-extra"]},
        **plugin(args=["s3ntinel-argument"], env=[{"name": "A", "value": "s3ntinel-variable"}],
                 installHint="s3ntinel-hint", provideClusterInfo=True),
    }  # fmt: skip
    config = kubeauth.load_config(
        write(tmp_path / "config", document(cluster, user)),
        context="x", namespace="n", exec_options=ExecOptions(timeout=7, refresh_ahead=False),
        plugin_policy=PluginPolicy.allowlist(["plug"]),
    )  # fmt: skip
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        sent = pickle.dumps(config, protocol)
        # A pickle has no other forms of text than these: not base64, not compressed.
        assert b"s3ntinel" not in sent
        assert b"czNudGluZWw" not in sent
        received: ClientConfig = pickle.loads(sent)
        assert received == config
        assert (received.exec, received.impersonate) == (config.exec, config.impersonate)
    assert len(sent) < 1000
