"""K17-K49: merge, select, validate and build configs, without files."""

from __future__ import annotations

import os
from typing import Any

import pytest

import kubeauth
from kubeauth import Impersonation, Secret
from kubeauth._config.resolve import merge_kubeconfigs, resolve_cluster_paths, resolve_user_paths
from kubeauth._config.validate import validate_cluster, validate_context, validate_kubeconfig, validate_user
from kubeauth.errors import ConfigError, KubeConfigError
from kubeauth.schemas import AuthProvider, Cluster, Context, ExecEntry, Kubeconfig, User
from tests.support.cases import each_case
from tests.support.kubeconfigs import EXTENSION, document, load, plugin


def readable(_path: str) -> None:
    return None


def missing(_path: str) -> str:
    return "No such file or directory"


def test_the_first_file_wins_for_each_entry_k17() -> None:
    first = Kubeconfig(
        users={"u": User(username="first").with_origin("/1")}, clusters={"a": Cluster(server="1")}
    )
    second = Kubeconfig(
        users={"u": User(username="second", password=Secret("dropped")), "v": User(username="v")},
        contexts={"x": Context(user="u")},
        current_context="x",
    )
    third = Kubeconfig(contexts={"x": Context(user="v")}, current_context="y")

    merged = merge_kubeconfigs([first, second, third])

    assert merged.users == {"u": User(username="first").with_origin("/1"), "v": User(username="v")}
    assert merged.contexts == {"x": Context(user="u")}
    assert merged.current_context == "x"
    assert merge_kubeconfigs([]) == Kubeconfig()


def test_paths_are_relative_to_the_file_of_their_entry_k18_k20() -> None:
    cluster = Cluster(certificate_authority="pki/ca.crt").with_origin("/home/me/.kube/config")
    assert resolve_cluster_paths(cluster, "/cwd").certificate_authority == "/home/me/.kube/pki/ca.crt"

    user = User(client_certificate="../c", client_key="/abs/../k", token_file="./t").with_origin(
        "/a/b/config"
    )
    resolved = resolve_user_paths(user, "/cwd")
    assert (resolved.client_certificate, resolved.client_key, resolved.token_file) == (
        "/a/c",
        "/abs/../k",
        "/a/b/t",
    )


@each_case(
    ("command", "resolved"),
    [
        ("plug", "plug"),
        ("./plug", "/a/plug"),
        ("bin/plug", "/a/bin/plug"),
        ("../plug", "/plug"),
        ("/x/plug", "/x/plug"),
    ],
)
def test_a_command_with_a_separator_is_a_path_k21(command: str, resolved: str) -> None:
    user = resolve_user_paths(User(exec=ExecEntry(command=command)).with_origin("/a/config"), "/cwd")
    assert user.exec is not None
    assert user.exec.command == resolved


def test_variables_and_tildes_are_not_expanded_k22() -> None:
    config = load(document({"proxy-url": "http://$H"}, plugin(command="plug", args=["~/x", "$HOME"], env=[
        {"name": "A", "value": "$B"}])))  # fmt: skip

    assert config.exec is not None
    assert config.exec.args == ("~/x", "$HOME")
    assert config.exec.env == {"A": "$B"}
    assert config.proxy_url == "http://$H"


def test_paths_of_a_document_are_relative_to_the_working_directory_k23(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "ca").write_text("x")
    monkeypatch.chdir(tmp_path)

    config = kubeauth.load_config(document({"certificate-authority": "ca"}, plugin(command="./plug")))

    assert config.ca_file == str(tmp_path / "ca")
    assert config.exec is not None
    assert config.exec.command == "./plug"


TWO_CONTEXTS: dict[str, Any] = {
    "clusters": [{"name": n, "cluster": {"server": f"https://{n}"}} for n in "ab"],
    "users": [{"name": n, "user": {"token": n}} for n in "ab"],
    "contexts": [{"name": n, "context": {"cluster": n, "user": n, "namespace": n}} for n in "ab"],
    "current-context": "a",
}


@each_case(
    ("names", "server", "token", "namespace"),
    [
        ({}, "https://a", "a", "a"),
        ({"context": "b"}, "https://b", "b", "b"),
        ({"cluster": "b"}, "https://b", "a", "a"),
        ({"user": "b"}, "https://a", "b", "a"),
        ({"context": "b", "user": "a", "namespace": "n"}, "https://b", "a", "n"),
    ],
)
def test_arguments_take_precedence_over_the_file_k24_k33(
    names: dict[str, Any], server: str, token: str, namespace: str
) -> None:
    config = kubeauth.load_config(TWO_CONTEXTS, **names)
    assert config.token is not None
    assert (config.server, config.token.reveal(), config.namespace) == (server, token, namespace)
    assert config.context == names.get("context", "a")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"context": "z"}, 'context "z" does not exist'),
        ({"user": "z"}, 'auth info "z" does not exist'),
        ({"cluster": "z"}, 'cluster "z" does not exist'),
    ],
)
def test_a_name_passed_as_an_argument_must_exist_k25(names: dict[str, Any], message: str) -> None:
    with pytest.raises(KubeConfigError, match=message) as caught:
        kubeauth.load_config(TWO_CONTEXTS, **names)
    assert "Available: a, b." in str(caught.value)


def test_the_current_context_must_exist_k26() -> None:
    with pytest.raises(
        KubeConfigError, match=r"^invalid configuration: context was not found for specified context: z"
    ) as caught:
        kubeauth.load_config({**TWO_CONTEXTS, "current-context": "z"})
    assert caught.value.field == "current-context"


def test_no_context_is_needed_with_cluster_and_user_arguments_k27() -> None:
    config = kubeauth.load_config({**TWO_CONTEXTS, "current-context": ""}, cluster="b", user="b")
    assert (config.server, config.context, config.namespace) == ("https://b", None, "default")


def test_a_context_that_names_a_missing_user_raises_k28() -> None:
    with pytest.raises(
        KubeConfigError, match=r'^invalid configuration: user "u" was not found for context "x"'
    ) as caught:
        kubeauth.load_config(document(users=[]))
    assert caught.value.field == 'contexts["x"].context.user'
    assert kubeauth.load_config(document(context={"user": ""})).token is None


@each_case(
    ("doc", "reason"),
    [
        ({}, "Set KUBECONFIG, or pass a path"),
        ({**TWO_CONTEXTS, "current-context": ""}, "No current-context is set.*a, b"),
        (document(clusters=[]), 'Context "x" refers to cluster "c", which does not exist'),
        (document(context={"cluster": ""}), 'Context "x" has no cluster'),
    ],
)
def test_an_empty_cluster_is_an_empty_config_and_the_error_says_why_k29(doc: Any, reason: str) -> None:
    with pytest.raises(
        KubeConfigError, match="(?s)^invalid configuration: no configuration has been provided.*" + reason
    ):
        kubeauth.load_config(doc)


def test_an_empty_cluster_and_another_problem_is_not_an_empty_config_k29() -> None:
    with pytest.raises(KubeConfigError, match="cluster has no server defined"):
        kubeauth.load_config(document(clusters=[], user={"as-uid": "i"}))


def test_all_entries_of_a_kubeconfig_are_validated_k30() -> None:
    config = Kubeconfig(
        contexts={
            "": Context(user="u", cluster="c"),
            "bare": Context(),
            "gone": Context(user="v", cluster="d", namespace="Not_A_Label"),
            "long": Context(user="u", cluster="c", namespace="a" * 64),
            "longest": Context(user="u", cluster="c", namespace="a" * 63),
            "good": Context(user="u", cluster="c", namespace="a-label"),
        },
        users={"u": User(), "bad": User(impersonate_uid="x")},
        clusters={"c": Cluster(server="s"), "bad": Cluster()},
        current_context="nope",
    )
    assert [problem.message for problem in validate_kubeconfig(config, readable)] == [
        "context was not found for specified context: nope",
        "empty context name is not allowed",
        'user was not specified for context "bare"',
        'cluster was not specified for context "bare"',
        'user "v" was not found for context "gone"',
        'cluster "d" was not found for context "gone"',
        'namespace "Not_A_Label" for context "gone" does not conform to the kubernetes DNS_LABEL rules',
        f'namespace "{"a" * 64}" for context "long" does not conform to the kubernetes DNS_LABEL rules',
        "requesting uid, groups or user-extra for bad without impersonating a user",
        'no server found for cluster "bad"',
    ]
    assert validate_kubeconfig(Kubeconfig(), readable) == []
    assert validate_context("good", config.contexts["good"], config) == []


def test_user_overrides_replace_fields_and_certificate_and_key_together_k31() -> None:
    doc = document(
        user={"token": "file", "client-certificate-data": "YQ==", "client-key-data": "Yg==", "as": "me"}
    )

    config = load(doc, user=User(token=Secret("flag")))

    assert config.token == Secret("flag")
    assert config.impersonate == Impersonation(user="me")
    assert config.client_cert_data == b"a"

    config = load(doc, user=User(client_certificate="/dev/null", client_key="/dev/null"))
    assert (config.client_cert_file, config.client_cert_data) == ("/dev/null", None)
    assert (config.client_key_file, config.client_key_data) == ("/dev/null", None)

    config = load(doc, user=User(client_key_data=Secret(b"new")))
    assert (config.client_cert_data, config.client_key_data) == (b"a", Secret(b"new"))


def test_paths_of_overrides_are_relative_to_the_working_directory_k31(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "t").write_text("tok")
    monkeypatch.chdir(tmp_path)
    assert load(document(), user=User(token_file="t")).token_file == str(tmp_path / "t")
    assert load(document(), cluster=Cluster(certificate_authority="t")).ca_file == str(tmp_path / "t")


def test_cluster_overrides_replace_fields_k32() -> None:
    doc = document(
        {"tls-server-name": "file", "certificate-authority-data": "YQ==", "proxy-url": "http://p:1"}
    )

    config = load(doc, cluster=Cluster(server="https://flag"))
    assert (config.server, config.tls_server_name, config.proxy_url) == ("https://flag", None, "http://p:1")

    config = load(doc, cluster=Cluster(tls_server_name="flag"))
    assert (config.server, config.tls_server_name) == ("https://h:6443", "flag")

    config = load(doc, cluster=Cluster(insecure_skip_tls_verify=True))
    assert (config.insecure_skip_tls_verify, config.ca_data) == (True, None)

    insecure = document({"insecure-skip-tls-verify": True})
    config = load(insecure, cluster=Cluster(certificate_authority_data=b"ca"))
    assert (config.insecure_skip_tls_verify, config.ca_data) == (False, b"ca")

    config = load(doc, cluster=Cluster(certificate_authority="/dev/null"))
    assert (config.ca_file, config.ca_data) == ("/dev/null", None)

    config = load(doc, defaults=Cluster(server="http://default", disable_compression=True))
    assert (config.server, config.disable_compression) == ("https://h:6443", True)


def test_a_default_server_must_be_passed_explicitly_k57() -> None:
    environ = {"KUBERNETES_MASTER": "http://master:8080"}
    with pytest.raises(KubeConfigError, match="no configuration has been provided"):
        load({}, environ=environ)

    assert load({}, defaults=Cluster(server="http://localhost:8080")).server == "http://localhost:8080"


def test_contexts_that_share_a_user_do_not_share_its_cluster_extension_k34() -> None:
    def cluster(name: str) -> dict[str, Any]:
        extension = {"name": EXTENSION, "extension": {"audience": [name]}}
        return {"name": name, "cluster": {"server": f"https://{name}", "extensions": [extension]}}

    doc = document(
        user=plugin(installHint="\x1bhint"),
        clusters=[cluster("a"), cluster("b")],
        contexts=[{"name": n, "context": {"cluster": n, "user": "u"}} for n in "ab"],
    )
    a, b = (kubeauth.load_config(doc, context=name).exec for name in "ab")

    assert a is not None
    assert b is not None
    assert (a.cluster_config, b.cluster_config) == ({"audience": ["a"]}, {"audience": ["b"]})

    again = kubeauth.load_config(doc, context="a").exec
    a.cluster_config["audience"].append("changed")

    assert again is not None
    assert again.cluster_config == {"audience": ["a"]}
    assert doc["clusters"][0]["cluster"]["extensions"][0]["extension"] == {"audience": ["a"]}


CERT: dict[str, Any] = {"client_certificate_data": b"c", "client_key_data": Secret(b"k")}
CLUSTERS: list[tuple[str, Cluster, list[str]]] = [
    ("c", Cluster(server="s"), []),
    ("c", Cluster(tls_server_name="n"), ['no server found for cluster "c"']),
    ("", Cluster(tls_server_name="n"), ["default cluster has no server defined"]),
    ("c", Cluster(server="s", proxy_url="socks5h://p"), ["invalid 'proxy-url' for cluster \"c\""]),
    ("c", Cluster(server="s", certificate_authority="p", certificate_authority_data=b"d"),
     ["certificate-authority-data and certificate-authority are both specified for c"]),
    ("c", Cluster(proxy_url="p"), ["no server found", "invalid 'proxy-url'"]),
]  # fmt: skip


@each_case(("name", "cluster", "messages"), CLUSTERS)
def test_clusters_are_validated_k35_k36_k37(name: str, cluster: Cluster, messages: list[str]) -> None:
    found = [problem.message for problem in validate_cluster(name, cluster, readable)]
    assert len(found) == len(messages)
    assert all(text in message for text, message in zip(messages, found, strict=True))


def test_a_ca_path_must_be_readable_k37() -> None:
    (problem,) = validate_cluster(
        "c", Cluster(server="s", certificate_authority="/p").with_origin("/o"), missing
    )
    assert problem.message == "unable to read certificate-authority /p for c due to No such file or directory"
    assert (problem.path, problem.field) == ("/o", 'clusters["c"].cluster.certificate-authority')


EXEC: dict[str, Any] = {"command": "c", "api_version": "v", "interactive_mode": "Never"}
USERS: list[tuple[User, list[str]]] = [
    (User(), []),
    (User(**CERT), []),
    (User(client_key_data=Secret(b"k")), []),
    (User(client_certificate="c", client_certificate_data=b"c", client_key="k"),
     ["client-cert-data and client-cert are both specified for u"]),
    (User(client_certificate="c", client_key="k", client_key_data=Secret(b"k")),
     ["client-key-data and client-key are both specified for u"]),
    (User(client_certificate="c"), ["client-key-data or client-key must be specified for u"]),
    (User(token=Secret("t"), username="n"), ["found [token basicAuth], only one is allowed"]),
    (User(token=Secret("t"), password=Secret("p")), ["found [token basicAuth], only one is allowed"]),
    (User(token_file="f", username="n"), []),
    (User(token=Secret("t"), exec=ExecEntry(**EXEC), **CERT), []),
    (User(exec=ExecEntry(**EXEC), auth_provider=AuthProvider()), ["authProvider cannot be provided in combination"]),
    (User(exec=ExecEntry()), ["command must be specified for u", "apiVersion must be specified for u",
                               "interactiveMode must be specified for u"]),
    (User(exec=ExecEntry(**{**EXEC, "env": ({"name": "A"}, {"value": "v"})})), ["env variable name must be specified for u"]),
    (User(exec=ExecEntry(**{**EXEC, "interactive_mode": "never"})), ['invalid interactiveMode for u: "never"']),
    (User(impersonate="a", impersonate_uid="i", impersonate_groups=("g",)), []),
    (User(impersonate_groups=("g",)), ["requesting uid, groups or user-extra for u without impersonating a user"]),
    (User(impersonate_extra={"k": ()}), ["requesting uid, groups or user-extra"]),
]  # fmt: skip


@each_case(("user", "messages"), USERS)
def test_users_are_validated_k38_k39_k40_k41_k42(user: User, messages: list[str]) -> None:
    found = [problem.message for problem in validate_user("u", user, readable)]
    assert len(found) == len(messages)
    assert all(text in message for text, message in zip(messages, found, strict=True))


def test_certificate_paths_must_be_readable_k38() -> None:
    found = validate_user("u", User(client_certificate="/c", client_key="/k"), missing)
    assert [problem.message for problem in found] == [
        "unable to read client-cert /c for u due to No such file or directory",
        "unable to read client-key /k for u due to No such file or directory",
    ]


def test_a_key_without_a_certificate_is_ignored_k38() -> None:
    config = kubeauth.load_config(document(user={"client-key": "/nope", "token": "t"}))
    assert (config.client_key_file, config.client_key_data) == (None, None)


def test_a_token_file_and_basic_auth_are_rejected_k39() -> None:
    with pytest.raises(KubeConfigError, match="username/password or bearer token may be set, but not both"):
        kubeauth.load_config(document(user={"tokenFile": os.devnull, "username": "n"}))


def test_a_token_and_a_plugin_are_accepted_together_k40() -> None:
    config = kubeauth.load_config(document(user={**plugin(), "token": "t"}))
    assert config.token == Secret("t")
    assert config.exec is not None


def test_an_unknown_exec_version_is_accepted_by_load_config_k41() -> None:
    config = kubeauth.load_config(document(user=plugin(apiVersion="client.authentication.k8s.io/v9")))
    assert config.exec is not None
    assert config.exec.api_version.endswith("/v9")


def test_insecure_with_a_ca_is_rejected_k43() -> None:
    with pytest.raises(KubeConfigError, match="root certificates file with the insecure flag") as caught:
        kubeauth.load_config(
            document({"insecure-skip-tls-verify": True, "certificate-authority-data": "YQ=="})
        )
    assert caught.value.field == 'clusters["c"].cluster.insecure-skip-tls-verify'


def test_all_problems_are_reported_together_k44() -> None:
    """Missing names, problems found by validation, and problems found while building the config."""
    cluster = {"insecure-skip-tls-verify": True, "certificate-authority-data": "YQ==", "proxy-url": "nope"}
    user = {"as-uid": "i", "tokenFile": "/nope", "username": "n"}

    with pytest.raises(KubeConfigError) as caught:
        kubeauth.load_config(document(cluster, user))
    assert [problem.field for problem in caught.value.problems] == [
        'users["u"].user.as',
        'clusters["c"].cluster.proxy-url',
        'clusters["c"].cluster.insecure-skip-tls-verify',
        'users["u"].user.tokenFile',
        'users["u"].user.tokenFile',
    ]

    with pytest.raises(KubeConfigError) as caught:
        kubeauth.load_config(document(cluster, users=[]))
    assert [problem.field for problem in caught.value.problems] == [
        'contexts["x"].context.user',
        'clusters["c"].cluster.proxy-url',
        'clusters["c"].cluster.insecure-skip-tls-verify',
    ]

    with pytest.raises(KubeConfigError) as caught:
        kubeauth.load_config(document({"server": "ftp://h"}, {"as-uid": "i"}))
    assert [problem.field for problem in caught.value.problems] == [
        'users["u"].user.as', 'clusters["c"].cluster.server',
    ]  # fmt: skip


def test_messages_of_one_and_of_several_problems_k44() -> None:
    with pytest.raises(KubeConfigError) as single:
        kubeauth.load_config(document(user={"as-uid": "i"}))
    assert str(single.value).startswith(
        "invalid configuration: requesting uid, groups or user-extra for u without impersonating a user\n"
    )

    with pytest.raises(KubeConfigError) as several:
        kubeauth.load_config(document({"server": "", "tls-server-name": "n"}, {"as-uid": "i"}))
    assert str(several.value).startswith(
        "invalid configuration: [requesting uid, groups or user-extra for u without impersonating a user, "
        'no server found for cluster "c"]\n'
    )


def test_credentials_are_ignored_for_a_plain_http_server_k46_k48() -> None:
    user = {**plugin(), "token": "t", "tokenFile": "/nope", "username": "", "as": "me",
            "auth-provider": None}  # fmt: skip
    cluster = {"server": "http://h:8080", "insecure-skip-tls-verify": True, "tls-server-name": "n",
               "certificate-authority-data": "YQ==", "proxy-url": "http://p:1"}  # fmt: skip
    config = kubeauth.load_config(document(cluster, user))
    assert config == kubeauth.ClientConfig(
        server="http://h:8080", context="x", proxy_url="http://p:1", impersonate=Impersonation(user="me")
    )

    provider = {"auth-provider": {"name": "gcp"}}
    assert kubeauth.load_config(document({"server": "http://h"}, provider)).server == "http://h"


@each_case(
    ("provider", "messages"),
    [
        ("gcp", ["removed", "gke-gcloud-auth-plugin"]),
        ("azure", ["removed", "kubelogin"]),
        ("openstack", ['no Auth Provider found for name "openstack"', "exec plugin"]),
        ("", ['no Auth Provider found for name ""']),
    ],
)
def test_removed_auth_providers_raise_with_the_replacement(provider: str, messages: list[str]) -> None:
    doc = document(user={"auth-provider": {"name": provider, "config": {"access-token": "s3ntinel"}}})

    with pytest.raises(ConfigError) as caught:
        kubeauth.load_config(doc)
    assert isinstance(caught.value, KubeConfigError)
    assert caught.value.field == 'users["u"].user.auth-provider'
    assert all(message in str(caught.value) for message in messages)
    assert "s3ntinel" not in str(caught.value)


def test_a_key_in_place_of_a_path_is_not_shown() -> None:
    key = "-----BEGIN PRIVATE KEY-----\ns3ntinel\n-----END PRIVATE KEY-----\n"
    for user in (
        {"client-certificate-data": "YQ==", "client-key": key},
        {"client-certificate-data": "YQ==", "client-key": "-----BEGIN PRIVATE KEY----- s3ntinel"},
        {"tokenFile": "s3ntinel" * 100},
    ):
        with pytest.raises(KubeConfigError, match="its value is not a path") as caught:
            kubeauth.load_config(document(user=user))
        assert "s3ntinel" not in str(caught.value)


@pytest.mark.parametrize(
    "token", ["eyJhbGciOiJub25lIn0.eyJzdWIiOiJzM250aW5lbCJ9.s3ntinel", "sha256~s3ntinel", "s3ntinel" * 5]
)
def test_a_token_in_place_of_a_path_is_not_shown(token: str) -> None:
    with pytest.raises(KubeConfigError, match="not shown: it looks like a token") as caught:
        kubeauth.load_config(document(user={"tokenFile": token}))
    assert "s3ntinel" not in str(caught.value)


def test_an_invalid_server_is_reported_with_its_field() -> None:
    with pytest.raises(KubeConfigError, match="invalid server: its scheme must be https or http") as caught:
        kubeauth.load_config(document({"server": "ftp://user:s3ntinel@h"}))
    assert caught.value.field == 'clusters["c"].cluster.server'
    assert "s3ntinel" not in str(caught.value)


def test_plugin_policy_and_exec_options_are_passed_on_p3() -> None:
    policy, options = kubeauth.PluginPolicy.deny_all(), kubeauth.ExecOptions(timeout=5)
    config = kubeauth.load_config(document(user=plugin()), plugin_policy=policy, exec_options=options)
    assert config.exec is not None
    assert (config.exec.policy, config.exec.options) == (policy, options)
