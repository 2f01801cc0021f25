"""K1-K12: the kubeconfig codec."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kubeauth
from kubeauth import Secret
from kubeauth._config.kubeconfig import decode
from kubeauth.errors import KubeConfigError, Problem
from kubeauth.schemas import AuthProvider, Cluster, Context, ExecEntry, ExecEnvVar, Kubeconfig, User
from tests.support.cases import each_case
from tests.support.kubeconfigs import document


def decode_valid(doc: Any) -> Kubeconfig:
    kubeconfig = decode(doc, origin="/o")
    assert isinstance(kubeconfig, Kubeconfig), kubeconfig
    return kubeconfig


def find_problems(doc: Any) -> list[Problem]:
    problems = decode(doc, origin="/o")
    assert isinstance(problems, list)
    return problems


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_fields_of_the_document_and_of_a_context_k1_k4() -> None:
    doc = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {"colors": True, "extensions": [{"name": "e"}]},
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n", "extensions": []}}
        ],
        "current-context": "x",
        "extensions": [{"name": "e", "extension": {"a": 1}}],
    }
    config = decode_valid(doc)
    assert config.current_context == "x"
    assert config.contexts == {"x": Context(cluster="c", user="u", namespace="n").with_origin("/o")}


def test_fields_of_a_cluster_k2() -> None:
    fields = {
        "server": "s",
        "tls-server-name": "t",
        "insecure-skip-tls-verify": True,
        "certificate-authority": "p",
        "certificate-authority-data": b64(b"pem"),
        "proxy-url": "u",
        "disable-compression": True,
        "extensions": [{"name": "e", "extension": [1]}],
    }
    assert decode_valid({"clusters": [{"name": "c", "cluster": fields}]}).clusters["c"] == Cluster(
        server="s",
        tls_server_name="t",
        insecure_skip_tls_verify=True,
        certificate_authority="p",
        certificate_authority_data=b"pem",
        proxy_url="u",
        disable_compression=True,
        extensions={"e": [1]},
    ).with_origin("/o")


def test_fields_of_a_user_k3_k5() -> None:
    fields = {
        "client-certificate": "cc", "client-certificate-data": b64(b"ccd"), "client-key": "ck",
        "client-key-data": b64(b"ckd"), "token": "t", "tokenFile": "tf", "as": "a", "as-uid": "i",
        "as-groups": ["g"], "as-user-extra": {"k": ["v"]}, "username": "n", "password": "p",
        "auth-provider": {"name": "oidc", "config": {"a": "b"}},
        "exec": {"command": "c", "args": ["1"], "env": [{"name": "E", "value": "v"}], "apiVersion": "v",
                 "installHint": "h", "provideClusterInfo": True, "interactiveMode": "Always"},
    }  # fmt: skip
    assert decode_valid({"users": [{"name": "u", "user": fields}]}).users["u"] == User(
        client_certificate="cc",
        client_certificate_data=b"ccd",
        client_key="ck",
        client_key_data=Secret(b"ckd"),
        token=Secret("t"),
        token_file="tf",
        impersonate="a",
        impersonate_uid="i",
        impersonate_groups=("g",),
        impersonate_extra={"k": ("v",)},
        username="n",
        password=Secret("p"),
        auth_provider=AuthProvider(name="oidc", config={"a": "b"}),
        exec=ExecEntry(
            command="c",
            args=("1",),
            env=(ExecEnvVar(name="E", value=Secret("v")),),
            api_version="v",
            install_hint="h",
            provide_cluster_info=True,
            interactive_mode="Always",
        ),
    ).with_origin("/o")


def test_runtime_only_exec_fields_are_not_read_from_a_file_k6() -> None:
    fields = {"command": "c", "Config": {"a": 1}, "config": 1, "StdinUnavailable": True, "pluginPolicy": "DenyAll",
            "PluginPolicy": {}}  # fmt: skip
    assert decode_valid({"users": [{"name": "u", "user": {"exec": fields}}]}).users["u"].exec == ExecEntry(
        command="c"
    )

    exec_ = kubeauth.load_config(
        document(user={"exec": {**fields, "apiVersion": "v", "interactiveMode": "Never"}})
    ).exec
    assert exec_ is not None
    assert exec_.cluster_config is None
    assert (exec_.options, exec_.policy) == (kubeauth.ExecOptions(), kubeauth.PluginPolicy.allow_all())


@each_case("doc", [None, {}, {"apiVersion": "", "kind": ""}, {"apiVersion": "v1", "kind": "Config"}])
def test_an_empty_document_is_an_empty_config_and_the_version_is_optional_k8(doc: Any) -> None:
    assert decode_valid(doc) == Kubeconfig().with_origins(("/o",), "")


@pytest.mark.parametrize(
    ("doc", "field"),
    [
        ({"kind": "Pod"}, "kind"),
        ({"apiVersion": "v2"}, "apiVersion"),
        ({"apiVersion": "apps/v1"}, "apiVersion"),
    ],
)
def test_other_kinds_and_versions_are_rejected_k8(doc: Any, field: str) -> None:
    (problem,) = find_problems(doc)
    assert (problem.path, problem.field) == ("/o", field)


def test_unknown_fields_are_ignored_and_names_are_case_sensitive_k9() -> None:
    user = decode_valid(
        {"users": [{"name": "u", "user": {"Token": 1, "TOKEN": [], "new": {}}}], "Clusters": 1}
    ).users["u"]
    assert user == User().with_origin("/o")


@each_case("kind", ["clusters", "users", "contexts", "extensions"])
def test_a_duplicate_name_in_one_file_is_an_error_k10(kind: str) -> None:
    (problem,) = find_problems({kind: [{"name": name, "extension": 1} for name in "nmn"]})
    assert problem.field == f'{kind}["n"]'
    assert 'duplicate name "n"' in problem.message


def test_a_duplicate_extension_of_the_preferences_is_an_error_k10() -> None:
    (problem,) = find_problems({"preferences": {"extensions": [{"name": "e", "extension": 1}] * 2}})
    assert problem.field == 'preferences.extensions["e"]'


@pytest.mark.parametrize("kind", ["cluster", "user", "context"])
def test_a_duplicate_extension_of_an_entry_is_an_error_k10(kind: str) -> None:
    duplicate = [{"name": "e", "extension": {}}] * 2
    (problem,) = find_problems({f"{kind}s": [{"name": "n", kind: {"extensions": duplicate}}]})
    assert problem.field == f'{kind}s["n"].{kind}.extensions["e"]'


@each_case("text", ["%%%", "YWI", "YW I=", "_-_-", "YWI=YWI=", "é", "="])
def test_invalid_base64_is_an_error_k11(text: str) -> None:
    (problem,) = find_problems({"clusters": [{"name": "c", "cluster": {"certificate-authority-data": text}}]})
    assert problem.field == 'clusters["c"].cluster.certificate-authority-data'
    assert "base64" in problem.message
    assert text not in problem.message


def test_line_breaks_in_base64_are_skipped_k11() -> None:
    config = decode_valid(
        {"clusters": [{"name": "c", "cluster": {"certificate-authority-data": "Y\nW\r\nI=\n"}}]}
    )
    assert config.clusters["c"].certificate_authority_data == b"ab"


@each_case(
    ("version", "mode", "expected"),
    [
        ("v1beta1", "", "IfAvailable"),
        ("v1beta1", None, "IfAvailable"),
        ("v1beta1", "Never", "Never"),
        ("v1alpha1", "", "IfAvailable"),
        ("v1", "", ""),
        ("v2", None, ""),
    ],
)
def test_interactive_mode_is_defaulted_for_old_versions_only_k12(
    version: str, mode: str | None, expected: str
) -> None:
    fields = {"apiVersion": f"client.authentication.k8s.io/{version}", "interactiveMode": mode}
    exec_ = decode_valid({"users": [{"name": "u", "user": {"exec": fields}}]}).users["u"].exec
    assert exec_ is not None
    assert exec_.interactive_mode == expected


@each_case(
    ("doc", "field", "message"),
    [
        ({"users": [{"name": "u", "user": {"token": 1}}]}, 'users["u"].user.token', "a string, not a number"),
        ({"users": [{"name": "u", "user": {"token": True}}]}, 'users["u"].user.token', "not true or false"),
        ({"users": [{"user": "x"}]}, "users[0].user", "a mapping, not a string"),
        ({"users": {}}, "users", "a list, not a mapping"),
        ({"users": [1]}, "users[0]", "a mapping, not a number"),
        ({"clusters": [{"name": "c", "cluster": {"insecure-skip-tls-verify": "yes"}}]},
         'clusters["c"].cluster.insecure-skip-tls-verify', "true or false, not a string"),
        ({"users": [{"name": "u", "user": {"exec": {"env": [{"name": "A", "value": 1}]}}}]},
         'users["u"].user.exec.env["A"].value', "a string, not a number"),
        ({"users": [{"name": "u", "user": {"as-user-extra": {"k": "v"}}}]},
         'users["u"].user.as-user-extra.k', "a list, not a string"),
        ({"users": [{"name": 5}]}, "users[0].name", "a string, not a number"),
        ({"current-context": ["x"]}, "current-context", "a string, not a list"),
        ({"users": [{"name": "u", "user": {"as": {}}}]}, 'users["u"].user.as', "a string, not a mapping"),
    ],
)  # fmt: skip
def test_types_are_strict_and_errors_name_the_entry(doc: Any, field: str, message: str) -> None:
    (problem,) = find_problems(doc)
    assert (problem.path, problem.field) == ("/o", field)
    assert message in problem.message


@each_case(("doc", "kind"), [([], "a list"), ("x", "a string"), (1, "a number"), (True, "true or false")])
def test_a_document_that_is_not_a_mapping_is_rejected(doc: Any, kind: str) -> None:
    (problem,) = find_problems(doc)
    assert (problem.path, problem.field) == ("/o", None)
    assert problem.message == f"a kubeconfig must be a mapping, not {kind}"


def test_types_are_checked_before_the_kind_and_the_kind_before_values() -> None:
    wrong_value = {"clusters": [{"name": "c", "cluster": {"certificate-authority-data": "%"}}]}
    wrong_kind = {**wrong_value, "kind": "Pod"}
    wrong_type = {**wrong_kind, "current-context": 1}
    reported = [find_problems(doc) for doc in (wrong_type, wrong_kind, wrong_value)]

    fields = ["current-context", "kind", 'clusters["c"].cluster.certificate-authority-data']

    assert [[problem.field for problem in problems] for problems in reported] == [[field] for field in fields]


def test_a_duplicate_entry_is_validated_too() -> None:
    first, second = {"name": "c"}, {"name": "c", "cluster": {"certificate-authority-data": "%"}}
    reported = [(problem.field, problem.message) for problem in find_problems({"clusters": [first, second]})]
    assert reported == [
        ('clusters["c"]', 'duplicate name "c" in clusters'),
        ('clusters["c"].cluster.certificate-authority-data', "not valid base64"),
    ]


def test_an_entry_without_a_name_is_reported_by_its_index() -> None:
    (problem,) = find_problems({"contexts": [{}, {}]})
    assert (problem.field, problem.message) == ("contexts[1]", 'duplicate name "" in contexts')


def test_all_problems_are_reported() -> None:
    assert len(find_problems({"users": [{"user": {"token": 1, "username": 2}}], "clusters": 3})) == 3


def test_the_number_of_reported_problems_is_limited() -> None:
    invalid: Any = [1] * 20_000
    assert len(find_problems({"clusters": invalid, "users": invalid})) == 2
    assert len(find_problems({"clusters": [{}] * 20_000})) == 100

    extra = {str(number): 1 for number in range(20_000)}
    (problem,) = find_problems({"users": [{"name": "u", "user": {"as-user-extra": extra}}]})

    assert problem.message == "20,000 fields have the wrong type"

    with pytest.raises(KubeConfigError, match="and 80 more") as caught:
        kubeauth.load_config({"clusters": [{}] * 20_000})
    assert len(str(caught.value)) < 5_000


def test_control_characters_and_long_names_are_escaped_and_truncated() -> None:
    with pytest.raises(KubeConfigError) as caught:
        kubeauth.load_config({"current-context": "\x1b[2J" + "x" * 10_000})
    assert "\x1b" not in str(caught.value)
    assert "U+001B[2J" in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_empty_extensions_may_share_a_name_k10() -> None:
    extensions = [{"name": "e"}, {"name": "e", "extension": None}, {"name": "e", "extension": 1}]
    assert decode_valid({"extensions": extensions}).extensions == {"e": 1}


def test_null_means_absent_at_every_level() -> None:
    doc: Any = {"clusters": [{"name": "c", "cluster": None}, None], "users": None, "current-context": None}
    assert decode_valid(doc).clusters == {"c": Cluster().with_origin("/o")}

    nulls = {"exec": {"args": ["a", None], "env": [None, {"name": None, "value": None}]}, "as-groups": [None]}
    user = decode_valid({"users": [{"name": "u", "user": nulls}]}).users["u"]
    assert user.impersonate_groups == ("",)
    assert user.exec == ExecEntry(args=("a", ""), env=(ExecEnvVar(), ExecEnvVar()))


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=6,
)
STRING = st.text(max_size=8) | st.none()
CLUSTER = st.fixed_dictionaries({}, optional={
    "server": st.sampled_from(["https://h", "http://h", "h:1", "", "https://[", "x://y"]) | VALUE,
    "proxy-url": STRING | VALUE, "certificate-authority-data": STRING, "certificate-authority": STRING,
    "insecure-skip-tls-verify": st.booleans() | VALUE, "extensions": VALUE,
})  # fmt: skip
USER = st.fixed_dictionaries({}, optional={
    "token": STRING | VALUE, "tokenFile": STRING, "username": STRING, "password": STRING, "as": STRING,
    "as-groups": st.lists(STRING) | VALUE, "exec": VALUE, "auth-provider": VALUE, "client-key-data": STRING,
    "client-certificate": STRING, "client-certificate-data": STRING,
})  # fmt: skip
DOCUMENT = st.fixed_dictionaries({}, optional={
    "apiVersion": st.sampled_from(["v1", "", None, "v2"]), "kind": st.sampled_from(["Config", None, 1]),
    "clusters": st.lists(st.fixed_dictionaries({"name": st.sampled_from("cd"), "cluster": CLUSTER | VALUE}), max_size=3)
    | VALUE,
    "users": st.lists(st.fixed_dictionaries({"name": st.sampled_from("uv"), "user": USER | VALUE}), max_size=3) | VALUE,
    "contexts": st.lists(
        st.fixed_dictionaries({"name": st.just("x"), "context": st.just({"cluster": "c", "user": "u"}) | VALUE}),
        max_size=2,
    ) | VALUE,
    "current-context": st.just("x") | VALUE,
})  # fmt: skip


@given(DOCUMENT)
def test_any_document_yields_a_config_or_a_kubeconfig_error(doc: dict[str, Any]) -> None:
    try:
        config = kubeauth.load_config(doc)
    except KubeConfigError as error:
        assert str(error)
        assert error.problems
    else:
        assert config.server.startswith(("https://", "http://"))
        assert repr(config)
