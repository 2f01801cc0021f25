"""load_config with real files: KUBECONFIG, explicit paths, data and files, kuberc."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

import kubeauth
from kubeauth import ExecOptions, PluginPolicy, Secret
from kubeauth._config.environment import Environment
from kubeauth._config.files import find_kubeconfig_paths, read_token_file
from kubeauth._config.kubeconfig import Overrides
from kubeauth._config.loader import Loader
from kubeauth.errors import KubeConfigError, TokenFileError
from tests.support.cases import each_case
from tests.support.kubeconfigs import document, plugin, write


class _BytesPath(os.PathLike[bytes]):
    def __fspath__(self) -> bytes:
        return b"/nope"


def with_server(host: str) -> dict[str, Any]:
    return document({"server": f"https://{host}"})


def test_the_default_is_the_kubeconfig_in_the_home_directory_k13(tmp_path: Path) -> None:
    write(tmp_path / "home/.kube/config", with_server("home"))
    assert kubeauth.load_config().server == "https://home"


def test_the_kubeconfig_variable_lists_the_files_k13(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "home/.kube/config", with_server("home"))
    first, second = write(tmp_path / "1", with_server("first")), write(tmp_path / "2", with_server("second"))
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")
    assert kubeauth.load_config().server == "https://first"

    monkeypatch.setenv("KUBECONFIG", "")
    assert kubeauth.load_config().server == "https://home"


def test_duplicate_paths_are_dropped_and_the_order_is_kept_k13() -> None:
    assert find_kubeconfig_paths(Environment(environ={"KUBECONFIG": "b:a:b::a"})).paths == ("b", "a", "")

    windows = Environment(environ={"KUBECONFIG": r"C:\a;D:\b"}, is_windows=True)
    assert find_kubeconfig_paths(windows).paths == (r"C:\a", r"D:\b")


def test_without_a_home_directory_there_is_no_default_file_k13(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / ".kube/config", with_server("ignored"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOME")

    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        kubeauth.load_config()


def test_order_of_home_directories_on_windows_k13(tmp_path: Path) -> None:
    (tmp_path / "profile").mkdir()
    environ = {"HOME": str(tmp_path / "gone"), "HOMEDRIVE": str(tmp_path), "HOMEPATH": "/none",
               "USERPROFILE": str(tmp_path / "profile")}  # fmt: skip
    assert Environment(environ=environ, is_windows=True).home == str(tmp_path / "profile")

    write(tmp_path / "none/.kube/config", {})
    assert Environment(environ=environ, is_windows=True).home == f"{tmp_path}/none"
    assert Environment(environ={}, is_windows=True).home == ""
    assert Environment(environ={"HOMEDRIVE": "C:", "USERPROFILE": "P"}, is_windows=True).home == "P"

    # Without any kubeconfig USERPROFILE takes precedence, and existing directories over missing ones.
    (tmp_path / "drive").mkdir()
    environ = {"HOMEDRIVE": f"{tmp_path}/", "HOMEPATH": "drive", "USERPROFILE": str(tmp_path / "profile")}
    assert Environment(environ=environ, is_windows=True).home == str(tmp_path / "profile")

    environ["USERPROFILE"] = "/nope"
    assert Environment(environ=environ, is_windows=True).home == f"{tmp_path}/drive"


def test_an_explicit_path_is_the_only_file_and_must_exist_k14(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "1", document(user={"token": "t"})))
    other = write(tmp_path / "2", with_server("explicit"))

    assert kubeauth.load_config(other) == kubeauth.load_config(Path(other))
    assert kubeauth.load_config(other).server == "https://explicit"
    assert kubeauth.load_config(other).token is None

    for path, message in {
        str(tmp_path / "nope"): "Check the path",
        "~/.kube/config": "expanduser",
        "": "pass None",
    }.items():
        with pytest.raises(KubeConfigError, match="does not exist") as caught:
            kubeauth.load_config(path)
        assert message in str(caught.value)
        assert caught.value.path == path


def test_missing_files_are_skipped_with_a_warning_if_all_are_missing_k15(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = write(tmp_path / "1", with_server("good"))
    monkeypatch.setenv("KUBECONFIG", f"/nope/a::{good}:/nope/b")

    with caplog.at_level(logging.WARNING, "kubeauth"):
        assert kubeauth.load_config().server == "https://good"
        assert caplog.messages == []

        monkeypatch.setenv("KUBECONFIG", "/nope/a:/nope/b")
        with pytest.raises(KubeConfigError, match=r"Files checked: /nope/a \(does not exist\), /nope/b"):
            kubeauth.load_config()

    assert caplog.messages == ["Config not found: /nope/a, /nope/b"]


def test_every_invalid_file_is_reported_k16(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good = write(tmp_path / "good", with_server("good"))
    bad = write(tmp_path / "bad", "clusters: [")
    wrong = write(tmp_path / "wrong", {"users": [{"name": "alice", "user": {"token": 5}}]})
    (tmp_path / "dir").mkdir()
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([good, bad, str(tmp_path / "dir"), wrong]))

    with pytest.raises(KubeConfigError) as caught:
        kubeauth.load_config()

    assert [problem.path for problem in caught.value.problems] == [bad, str(tmp_path / "dir"), wrong]
    text = str(caught.value)
    assert f'error loading config file "{bad}": line 2, column 1: not valid YAML' in text
    assert "Is a directory" in text
    assert 'users["alice"].user.token: must be a string, not a number' in text
    assert "Put it in quotes." in text


def test_entries_of_several_files_are_merged_k17_k18_k20(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    users = {"users": [{"name": "u", "user": {"client-certificate": "crt", "client-key": "../b/key"}}]}
    first = write(tmp_path / "a/config", users)
    second = write(tmp_path / "b/config", document({"certificate-authority": "ca"}, {"token": "dropped"}))
    for name in ("a/crt", "b/key", "b/ca"):
        write(tmp_path / name, "pem")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")

    config = kubeauth.load_config()

    assert config.client_cert_file == str(tmp_path / "a/crt")
    assert config.client_key_file == str(tmp_path / "b/key")
    assert config.ca_file == str(tmp_path / "b/ca")
    assert config.token is None


def test_paths_are_absolute_if_the_kubeconfig_path_is_relative_k20(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "sub/config", document({"certificate-authority": "ca"}))
    write(tmp_path / "sub/ca", "pem")
    monkeypatch.chdir(tmp_path)
    assert kubeauth.load_config("sub/config").ca_file == str(tmp_path / "sub/ca")


def test_dotdot_after_a_symlink_is_resolved_by_the_system_k14(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`link/../config` is next to the target of the link, not next to the link."""
    write(tmp_path / "config", with_server("wrong"))
    write(tmp_path / "real/config", document({"server": "https://right", "certificate-authority": "ca"}))
    (tmp_path / "real/sub").mkdir()
    (tmp_path / "link").symlink_to("real/sub")
    write(tmp_path / "ca", "pem")
    monkeypatch.chdir(tmp_path)

    assert kubeauth.load_config("link/../config").server == "https://right"

    monkeypatch.setenv("KUBECONFIG", "link/../config")
    config = kubeauth.load_config()
    # K20: paths inside the file are relative to its lexically cleaned directory, as in client-go.
    assert (config.server, config.ca_file) == ("https://right", str(tmp_path / "ca"))


def test_load_config_works_in_a_removed_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write(tmp_path / "config", with_server("absolute"))
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert kubeauth.load_config(path).server == "https://absolute"
    assert kubeauth.load_config(document()).server == "https://h:6443"

    for relative in ("relative", document({"certificate-authority": "etc/passwd"})):
        with pytest.raises(KubeConfigError):
            kubeauth.load_config(relative)


def test_the_legacy_kubeconfig_is_not_migrated_k19(tmp_path: Path) -> None:
    write(tmp_path / "home/.kube/.kubeconfig", with_server("legacy"))
    with pytest.raises(KubeConfigError):
        kubeauth.load_config()
    assert not (tmp_path / "home/.kube/config").exists()


def test_bytes_and_parsed_documents_are_accepted() -> None:
    yaml = b"""
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://h"}}]
users: [{name: u, user: {token: t}}]
"""

    for source in (yaml, bytearray(yaml), memoryview(yaml)):
        assert kubeauth.load_config(source).token == Secret("t")  # type: ignore[arg-type]
    assert kubeauth.load_config(document(user={"token": "t"})).token == Secret("t")

    with pytest.raises(KubeConfigError, match="does not exist"):
        kubeauth.load_config(_BytesPath())  # type: ignore[arg-type]
    with pytest.raises(
        KubeConfigError, match="takes a path, bytes, a parsed document or a Kubeconfig, not int"
    ):
        kubeauth.load_config(5)  # type: ignore[arg-type]
    with pytest.raises(KubeConfigError, match="a value of type object"):
        kubeauth.load_config({"clusters": object()})


def test_data_takes_precedence_over_files_k49() -> None:
    user = {"client-certificate-data": "Yw==", "client-key-data": "aw=="}
    config = kubeauth.load_config(document({"certificate-authority-data": "Y2E="}, user))
    # In a kubeconfig both together are an error (K37, K38). A ClientConfig may have both, and its data is
    # used: see tests/transport/test_tls.py and test_exec_cluster.py for the CA.
    assert (config.ca_data, config.client_cert_data, config.client_key_data) == (b"ca", b"c", Secret(b"k"))
    assert (config.ca_file, config.client_cert_file, config.client_key_file) == (None, None, None)


def test_a_token_is_used_unchanged_k58() -> None:
    config = kubeauth.load_config(document(user={"token": " verbatim\n"}))
    assert config.token == Secret(" verbatim\n")
    assert config.token_file is None


def test_load_config_reads_the_token_file_unchanged_k59(tmp_path: Path) -> None:
    path = write(tmp_path / "token", " tok \n")
    config = kubeauth.load_config(document(user={"tokenFile": path}))

    assert (config.token, config.token_file) == (Secret(" tok \n"), path)

    write(tmp_path / "blank", "\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, message in {
        "nope": "No such file",
        "blank": "read empty token",
        "binary": "not UTF-8 text",
    }.items():
        with pytest.raises(KubeConfigError, match=message) as caught:
            kubeauth.load_config(document(user={"tokenFile": str(tmp_path / name)}))
        assert caught.value.field == 'users["u"].user.tokenFile'


def test_the_token_is_used_if_the_token_file_is_missing_k60() -> None:
    config = kubeauth.load_config(document(user={"token": "t", "tokenFile": "/nope/yet"}))
    assert (config.token, config.token_file) == (Secret("t"), "/nope/yet")


def test_read_token_file_strips_whitespace_k61(tmp_path: Path) -> None:
    assert read_token_file(write(tmp_path / "t", "\n tok \n")) == Secret("tok")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path, message in {
        write(tmp_path / "e", " \n"): "read empty token",
        str(tmp_path / "nope"): "No such file",
        str(tmp_path): "Is a directory",
        str(tmp_path / "binary"): "not UTF-8 text",
    }.items():
        with pytest.raises(TokenFileError, match=message) as caught:
            read_token_file(path)
        assert caught.value.path == path


KUBERC = "kubectl.config.k8s.io/v1beta1"


def kuberc(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": KUBERC, "kind": "Preference", **fields}


def load_policy() -> PluginPolicy:
    config = kubeauth.load_config(document(user=plugin()))
    assert config.exec is not None
    return config.exec.policy


def test_the_plugin_policy_is_read_from_kuberc_p11_p12(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert load_policy() == PluginPolicy.allow_all()

    write(tmp_path / "home/.kube/kuberc", kuberc(credentialPluginPolicy="DenyAll"))
    assert load_policy() == PluginPolicy.deny_all()

    allowed = kuberc(
        credentialPluginPolicy="Allowlist",
        credentialPluginAllowlist=[{"command": "aws"}, {"name": "old"}, {"name": "x", "command": "x"}],
        aliases=[{"anything": 1}],
    )
    monkeypatch.setenv("KUBERC", write(tmp_path / "elsewhere", allowed))
    assert load_policy() == PluginPolicy.allowlist(["aws", "old", "x"])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBERC", "elsewhere")
    assert load_policy() == PluginPolicy.allowlist(["aws", "old", "x"])

    monkeypatch.setenv("KUBERC", "off")
    assert load_policy() == PluginPolicy.allow_all()

    monkeypatch.setenv("KUBERC", "OFF")
    with pytest.raises(KubeConfigError, match="does not exist"):
        load_policy()


def test_unknown_fields_of_kuberc_are_logged_and_ignored_p12(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "home/.kube/kuberc", kuberc(credentialPluginPolcy="DenyAll", aliases=[]))

    assert load_policy() == PluginPolicy.allow_all()
    assert "ignoring unknown fields" in caplog.text
    assert "'credentialPluginPolcy'" in caplog.text
    assert "aliases" not in caplog.text


@each_case("version", ["v1", "v1beta1"])
def test_versions_of_kuberc_with_a_policy_p12(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    fields: dict[str, Any] = {
        "credentialPluginPolicy": "Allowlist",
        "credentialPluginAllowlist": [{"command": "aws"}],
        "defaults": [{"command": "get", "options": [{"name": "output", "default": "wide"}]}],
        "aliases": [{"name": "getn", "command": "get", "prependArgs": ["nodes"], "options": None}],
    }
    api_version = f"kubectl.config.k8s.io/{version}"
    write(tmp_path / "home/.kube/kuberc", kuberc(**fields, apiVersion=api_version))
    assert load_policy() == PluginPolicy.allowlist(["aws"])
    assert caplog.text == ""

    write(tmp_path / "home/.kube/kuberc", kuberc(**fields, overrides=5, apiVersion=api_version))
    assert load_policy() == PluginPolicy.allowlist(["aws"])
    assert "ignoring unknown fields" in caplog.text


def test_v1alpha1_of_kuberc_has_no_policy_p12(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fields: dict[str, Any] = {
        "overrides": [{"command": "get", "flags": [{"name": "output", "default": "wide"}]}],
        "aliases": [{"name": "getn", "command": "get", "flags": [{"name": "output", "default": "wide"}]}],
    }
    api_version = "kubectl.config.k8s.io/v1alpha1"
    write(tmp_path / "home/.kube/kuberc", kuberc(**fields, apiVersion=api_version))
    assert load_policy() == PluginPolicy.allow_all()
    assert caplog.text == ""

    unknown = {"credentialPluginPolicy": 5, "credentialPluginAllowlist": "x"}
    write(tmp_path / "home/.kube/kuberc", kuberc(**fields, **unknown, apiVersion=api_version))
    assert load_policy() == PluginPolicy.allow_all()
    assert "'credentialPluginAllowlist', 'credentialPluginPolicy'" in caplog.text

    write(tmp_path / "home/.kube/kuberc", kuberc(overrides=5, apiVersion=api_version))
    with pytest.raises(KubeConfigError, match="kuberc: overrides: must be a list, not a number"):
        load_policy()


@each_case("value", ["false", "False", "FALSE"])
def test_kubectl_kuberc_false_disables_the_kuberc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.setenv("KUBERC", write(tmp_path / "kuberc", "[broken"))
    monkeypatch.setenv("KUBECTL_KUBERC", value)
    assert load_policy() == PluginPolicy.allow_all()


@each_case("value", ["", "0", "off", "no", " false", "f"])
def test_other_values_of_kubectl_kuberc_do_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    write(tmp_path / "home/.kube/kuberc", kuberc(credentialPluginPolicy="DenyAll"))
    monkeypatch.setenv("KUBECTL_KUBERC", value)
    assert load_policy() == PluginPolicy.deny_all()


def test_an_explicit_policy_takes_precedence_over_kuberc_p3(tmp_path: Path) -> None:
    write(tmp_path / "home/.kube/kuberc", "[broken")
    config = kubeauth.load_config(document(user=plugin()), plugin_policy=PluginPolicy.allow_all())
    assert config.exec is not None
    assert config.exec.policy == PluginPolicy.allow_all()


def test_kuberc_is_not_read_for_a_user_without_a_plugin_p14(tmp_path: Path) -> None:
    write(tmp_path / "home/.kube/kuberc", "[broken")
    assert kubeauth.load_config(document(user={"token": "t"})).exec is None


@each_case(
    ("text", "policy"),
    [
        ("", PluginPolicy.allow_all()),
        (f"# first\n--- # second\napiVersion: {KUBERC}\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
         PluginPolicy.deny_all()),
        (f"apiVersion: {KUBERC}\nkind: Other\ncredentialPluginPolicy: AllowAll\n---\n"
         f"apiVersion: {KUBERC}\nkind: Preference\ncredentialPluginPolicy: DenyAll\n", PluginPolicy.deny_all()),
        ("# nothing\n", PluginPolicy.allow_all()),
        ("---\n# nothing\n---\n", PluginPolicy.allow_all()),
        (f"apiVersion: {KUBERC}\nkind: Preference\n", PluginPolicy.allow_all()),
        (f"apiVersion: {KUBERC}\nkind: Preference\ncredentialPluginPolicy: ''\n", PluginPolicy.allow_all()),
        (f"apiVersion: {KUBERC}\nkind: Preference\ncredentialPluginPolicy: AllowAll\n", PluginPolicy.allow_all()),
        ("apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
         PluginPolicy.allow_all()),
        ("apiVersion: kubectl.config.k8s.io/v9\nkind: Preference\n---\n"
         f"apiVersion: {KUBERC}\nkind: Preference\ncredentialPluginPolicy: DenyAll\n", PluginPolicy.deny_all()),
        (f"[broken\n---\napiVersion: {KUBERC}\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
         PluginPolicy.deny_all()),
    ],
)  # fmt: skip
def test_the_first_valid_document_of_kuberc_is_used_p12(
    tmp_path: Path, text: str, policy: PluginPolicy
) -> None:
    write(tmp_path / "home/.kube/kuberc", text)
    assert load_policy() == policy


@each_case(
    "content",
    [
        '{"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference"}\n{"more": 1}',
        "a\n---\n" * 100_000,
        f"apiVersion: {KUBERC}\nkind: Preference\naliases:\n" + "-\n" * 50_000,
        "[broken", "hello", "[]", "a: b", {"apiVersion": "v1", "kind": "Config"}, "\x00",
        kuberc(credentialPluginPolicy=5), kuberc(credentialPluginPolicy="bogus"),
        kuberc(credentialPluginPolicy="bogus", credentialPluginAllowlist=[]),
        kuberc(credentialPluginPolicy="bogus", credentialPluginAllowlist=[{"command": "x"}]),
        kuberc(credentialPluginPolicy="Allowlist"),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[]),
        kuberc(credentialPluginAllowlist=[{"command": "x"}]),
        kuberc(credentialPluginPolicy="AllowAll", credentialPluginAllowlist=[{"command": "x"}]),
        kuberc(credentialPluginPolicy="DenyAll", credentialPluginAllowlist=[{"command": "x"}]),
        kuberc(credentialPluginPolicy="DenyAll", credentialPluginAllowlist=[]),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{"command": ""}]),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[None]),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist=["x"]),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{"command": 5}]),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist={"command": "x"}),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{"name": "a", "command": "b"}]),
        kuberc(credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{"command": "./x"}]),
    ],
)  # fmt: skip
def test_an_invalid_kuberc_fails_closed_p13_t76(tmp_path: Path, content: Any) -> None:
    path = write(tmp_path / "home/.kube/kuberc", content)

    with pytest.raises(KubeConfigError) as caught:
        load_policy()
    assert caught.value.path == path
    assert "KUBERC=off" in str(caught.value)


def test_a_kuberc_error_names_the_invalid_field_p13(tmp_path: Path) -> None:
    for fields, invalid_field in (
        ({"credentialPluginPolicy": "bogus"}, "credentialPluginPolicy"),
        ({"credentialPluginPolicy": 5}, "credentialPluginPolicy"),
        ({"credentialPluginPolicy": "Allowlist"}, "credentialPluginAllowlist"),
        ({"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"command": 1}]},
         "credentialPluginAllowlist[0].command"),
        ({"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"name": "a", "command": "b"}]},
         "credentialPluginAllowlist[0]"),
        ({"credentialPluginPolicy": "DenyAll", "aliases": [{"name": "x"}, {"command": ["get"]}]}, "aliases[1].command"),
    ):  # fmt: skip
        write(tmp_path / "home/.kube/kuberc", kuberc(**fields))
        with pytest.raises(KubeConfigError) as caught:
            load_policy()
        assert caught.value.field == invalid_field


def test_the_file_in_the_kuberc_variable_must_exist_p12_p13(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBERC", str(tmp_path / "nope"))
    with pytest.raises(KubeConfigError, match="does not exist"):
        load_policy()

    monkeypatch.setenv("KUBERC", str(tmp_path))
    with pytest.raises(KubeConfigError, match="Is a directory"):
        load_policy()


def test_exec_options_are_passed_on(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user=plugin()))
    config = kubeauth.load_config(path, exec_options=ExecOptions(timeout=3))
    assert config.exec is not None
    assert config.exec.options.timeout == 3


def test_a_loader_uses_the_environment_it_is_passed(tmp_path: Path) -> None:
    environ = {"KUBECONFIG": write(tmp_path / "c", with_server("injected"))}
    loader = Loader(overrides=Overrides(), environment=Environment(environ=environ))
    assert loader.load_default().server == "https://injected"
