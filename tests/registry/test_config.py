"""One CredentialProviderConfig: what of it is read, and what is refused (1.1-1.11, 1.20-1.34)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth import Secret
from kubeauth.errors import Problem
from kubeauth.registry import PatternWarning, Provider, ProviderConfig, TokenAttributes
from kubeauth.registry._config import MAX_CONFIG, decode, validate, warnings
from kubeauth.schemas import ProviderEnvVar
from tests.registry.configs import EXEC, GROUP, VERSIONS, document, provider, token_attributes
from tests.support.cases import each_case

YAML = """---
kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- name: ecr
  matchImages:
  - registry.io/*
  - "*.registry.io"
  defaultCacheDuration: 1h30m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials, "-v"]
  env:
  - name: REGION
    value: "1"
  - name: REGION
"""


def text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def read(value: Any) -> tuple[Provider, ...]:
    found = decode(text(value))
    assert isinstance(found, ProviderConfig), found
    return found.providers


def refused(value: Any) -> list[Problem]:
    found = decode(text(value))
    assert isinstance(found, list), found
    assert found
    return found


def told(value: Any) -> str:
    return "\n".join(f"{problem.field}: {problem.message}" for problem in refused(value))


def variable(name: str, value: str) -> ProviderEnvVar:
    return ProviderEnvVar(name=name, value=Secret(value))


def faults(*providers: Any) -> list[str]:
    return [problem.message for problem in validate(read(document(*providers)))]


def test_a_document_is_read_1_3_1_7_1_8() -> None:
    (found,) = read(YAML)
    assert found == Provider(
        name="ecr",
        match_images=("registry.io/*", "*.registry.io"),
        default_cache_duration=5400.0,
        api_version=f"{EXEC}/v1",
        args=("get-credentials", "-v"),
        env=(variable("REGION", "1"), variable("REGION", "")),
    )
    assert validate([found]) == []


@each_case("version", VERSIONS)
@each_case("exec_version", VERSIONS)
def test_versions_of_document_and_protocol_are_independent_1_1_1_2(version: str, exec_version: str) -> None:
    providers = [provider("a", apiVersion=f"{EXEC}/{exec_version}"), provider("b")]
    found = read(document(*providers, version=version))
    assert [each.name for each in found] == ["a", "b"]
    assert found[0].api_version == f"{EXEC}/{exec_version}"
    assert validate(found) == []


@each_case(
    ("changes", "words"),
    [
        pytest.param({"kind": "WrongKind"}, "kind must be CredentialProviderConfig", id="CT-wrong-kind"),
        pytest.param({"kind": "KubeletConfiguration"}, "kind must be", id="kind-of-the-group"),
        pytest.param({"kind": "CredentialProviderRequest"}, "kind must be", id="kind-of-the-protocol"),
        pytest.param({"apiVersion": "foobar/v1alpha1"}, "apiVersion must be", id="CT-wrong-group"),
        pytest.param({"apiVersion": f"{EXEC}/v1"}, "apiVersion must be", id="group-of-the-protocol"),
        pytest.param({"apiVersion": f"{GROUP}/v2"}, "apiVersion must be", id="unknown-version"),
        pytest.param({"apiVersion": "v1"}, "apiVersion must be", id="no-group"),
        pytest.param({"kind": None}, "Object 'kind' is missing", id="1.10-no-kind"),
        pytest.param({"apiVersion": ""}, "Object 'apiVersion' is missing", id="1.10-no-apiVersion"),
        pytest.param({"kind": ["CredentialProviderConfig"]}, "kind must be", id="1.10-kind-of-wrong-type"),
    ],
)
def test_other_documents_are_refused_1_1_1_10(changes: Any, words: str) -> None:
    (problem,) = refused(document(provider(), **changes))
    assert words in problem.message
    assert f"apiVersion: {GROUP}/v1" in problem.hint


@each_case("version", VERSIONS)
@each_case("value", [token_attributes(), {}, None], ids=["full", "empty", "null"])
def test_token_attributes_are_of_v1_alone_1_4(version: str, value: Any) -> None:
    given = document({**provider(), "tokenAttributes": value}, version=version)
    if version == "v1":
        assert (read(given)[0].token_attributes is None) == (value is None)
    else:
        assert told(given) == "providers[0].tokenAttributes: unknown field"


@pytest.mark.parametrize("required", [True, False, None])
def test_token_attributes_are_read_1_5(required: bool | None) -> None:
    given = token_attributes(
        cacheType="Token",
        requireServiceAccount=required,
        requiredServiceAccountAnnotationKeys=["a"],
        optionalServiceAccountAnnotationKeys=["example.com/b"],
    )
    (found,) = read(document(provider(tokenAttributes=given)))
    assert found.token_attributes == TokenAttributes(
        audience="audience",
        cache_type="Token",
        require_service_account=required,
        required_annotations=("a",),
        optional_annotations=("example.com/b",),
    )


def test_nothing_is_defaulted_1_6() -> None:
    (found,) = read(document({}))
    assert found == Provider()
    assert read(document(None)) == (found,)
    assert read(document()) == read(document(providers=None)) == ()
    assert read({"kind": "CredentialProviderConfig", "apiVersion": f"{GROUP}/v1"}) == ()


@each_case(
    ("written", "seconds"),
    [("10m", 600.0), ("0", 0.0), ("0s", 0.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("-1m", -60.0), ("+1m", 60.0),
     ("1h0m0s", 3600.0), ("5ms", 0.005), ("5us", 5e-6), ("5µs", 5e-6), ("5μs", 5e-6), ("5ns", 5e-9), (None, None)],
)  # fmt: skip
def test_durations_are_gos_1_7(written: Any, seconds: float | None) -> None:
    (found,) = read(document({**provider(), "defaultCacheDuration": written}))
    assert found.default_cache_duration == (seconds and pytest.approx(seconds))


@each_case(
    "written", ["", "1", "1d", "m", "1 m", " 1m", "1m ", "1M", "--1m", "\u0661m", "1m\n", "300y", "9999999h"]
)
def test_other_durations_are_refused_1_7(written: str) -> None:
    assert told(document(provider(defaultCacheDuration=written))) == (
        "providers[0].defaultCacheDuration: not a duration"
    )


@each_case("written", [600, 0, 1.5, True, ["1m"], {"seconds": 1}], ids=repr)
def test_a_number_is_no_duration_1_7(written: Any) -> None:
    words = "providers[0].defaultCacheDuration: must be a string, not "
    assert told(document(provider(defaultCacheDuration=written))).startswith(words)


@pytest.mark.parametrize("before", ["", " \t\r\n", "\n\n"])
def test_what_begins_with_a_brace_is_json_1_8(before: str) -> None:
    assert read(before + json.dumps(document(provider())) + " \n")[0].name == "ecr"
    # As YAML this would be right.
    assert "not valid JSON" in refused(f"{before}{{kind: CredentialProviderConfig}}")[0].message


@each_case("before", ["---\n", "# JSON is YAML\n", "\ufeff", "%YAML 1.1\n---\n", "\u0085"])
def test_all_else_is_yaml_1_8(before: str) -> None:
    assert read(before + json.dumps(document(provider())))[0].name == "ecr"


@each_case(
    ("value", "place"),
    [
        (document(provider(), extra=1), "extra"),
        (document(provider(), metadata={}), "metadata"),
        (document(provider(unknownField="x")), "providers[0].unknownField"),
        (document(provider("a"), provider("b", MatchImages=[])), "providers[1].MatchImages"),
        (document(provider(env=[{"name": "a"}, {"Name": "b"}])), "providers[0].env[1].Name"),
        (document(provider(env=[{"valueFrom": {}}])), "providers[0].env[0].valueFrom"),
        (document(provider(tokenAttributes={"CacheType": ""})), "providers[0].tokenAttributes.CacheType"),
        (document(provider(unknownField=None) | {"unknownField": None}), "providers[0].unknownField"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_field_is_refused_where_it_is_1_9(value: Any, place: str) -> None:
    assert told(value) == f"{place}: unknown field"


@each_case("name", ["Kind", "KIND", "APIVersion", "apiversion", "Providers"])
def test_the_case_of_a_name_counts_1_9(name: str) -> None:
    given = {each if each.lower() != name.lower() else name: value for each, value in document().items()}
    assert refused(given)


DUPLICATES = {
    "top-level": '{{"kind": "CredentialProviderConfig", "apiVersion": "{0}/v1", "kind": "CredentialProviderConfig"}}',
    "provider": '{{"kind": "CredentialProviderConfig", "apiVersion": "{0}/v1", "providers": [{{"name": "a", "name": "b"}}]}}',
    "env": '{{"kind": "CredentialProviderConfig", "apiVersion": "{0}/v1", '
           '"providers": [{{"env": [{{"name": "a", "value": "1", "value": "1"}}]}}]}}',
    "token-attributes": '{{"kind": "CredentialProviderConfig", "apiVersion": "{0}/v1", '
           '"providers": [{{"tokenAttributes": {{"cacheType": "Token", "cacheType": "Token"}}}}]}}',
}  # fmt: skip


@each_case("as_yaml", [False, True], ids=["json", "yaml"])
@each_case("given", DUPLICATES.values(), ids=DUPLICATES.keys())
def test_a_field_that_is_there_twice_is_refused_1_9(given: str, as_yaml: bool) -> None:
    problems = refused(("---\n" if as_yaml else "") + given.format(GROUP))
    assert [problem.message.partition('"')[2] for problem in problems] in (
        [f'{name}" already set in map'] for name in ("kind", "name", "value", "cacheType")
    )


def test_everything_is_told_at_once_1_9() -> None:
    given = document(
        provider("a", matchImages="x", extra=1), provider("b", args=[1, "x", True], env={}), 7, extra=1
    )
    assert told(given).splitlines() == [
        "providers[0].matchImages: must be a list, not a string",
        "providers[1].args[0]: must be a string, not a number",
        "providers[1].args[2]: must be a string, not true or false",
        "providers[1].env: must be a list, not a mapping",
        "providers[2]: must be a mapping, not a number",
        "extra: unknown field",
        "providers[0].extra: unknown field",
    ]


@each_case("word", ["yes", "no", "on", "y", "true", "1", "1.5", "0x10", "1e3"])
def test_yaml_types_are_not_made_strings_1_10(word: str) -> None:
    given = YAML.replace('value: "1"', f"value: {word}")
    (problem,) = refused(given)
    assert problem.field == "providers[0].env[0].value"
    assert problem.hint == "Put it in quotes."
    assert read(YAML.replace('value: "1"', f'value: "{word}"'))[0].env[0] == variable("REGION", word)


@each_case("word", ["2024-01-01", "12:30:45", "~x", "a: b"])
def test_what_is_text_in_gos_yaml_is_text_1_10(word: str) -> None:
    quoted = f"'{word}'" if ": " in word else word
    assert read(YAML.replace('value: "1"', f"value: {quoted}"))[0].env[0] == variable("REGION", word)


def test_null_is_absent_1_10() -> None:
    absent = dict.fromkeys(["name", "matchImages", "apiVersion", "args", "env", "tokenAttributes"])
    assert read(document(absent)) == read(document({}))
    assert read(document({"matchImages": [None], "env": [None]}))[0].env == (ProviderEnvVar(),)


def test_yes_is_true_where_that_is_wanted_1_10() -> None:
    given = f"---\n{YAML}  tokenAttributes:\n    requireServiceAccount: yes\n".removeprefix("---\n")
    attributes = read(given)[0].token_attributes
    assert attributes is not None
    assert attributes.require_service_account is True


@each_case("value", ["", "---\n", "# nothing\n", "null", "[]", "text", "- 1", "1", "true"])
def test_what_is_no_mapping_is_refused_1_10(value: str) -> None:
    (problem,) = refused(value)
    assert "must be a mapping, not " in problem.message


@each_case("second", ["---\n", "---\nkind: Other\n", f"---\n{YAML[4:]}", "...\n---\na: ["])
def test_a_second_document_is_refused_rather_than_dropped_1_11(second: str) -> None:
    assert refused(YAML + second)
    assert read(YAML + "...\n")


def test_what_is_too_large_is_refused() -> None:
    (problem,) = refused(YAML + "#" * MAX_CONFIG)
    assert problem.message == "larger than 1 MiB"


def test_no_providers_1_20() -> None:
    (problem,) = validate(read(document()))
    assert problem.message == "providers: Required value: at least 1 item in plugins is required"


SUPPORTED = ", ".join(f'"{EXEC}/{version}"' for version in ("v1", "v1alpha1", "v1beta1"))


@each_case(
    ("changes", "expected"),
    [
        pytest.param({"matchImages": None}, "providers.matchImages: Required value", id="CT-no-matchImages-1.24"),
        pytest.param({"matchImages": []}, "providers.matchImages: Required value", id="1.24-empty"),
        pytest.param({"defaultCacheDuration": None}, "providers.defaultCacheDuration: Required value", id="CT-no-duration-1.25"),
        pytest.param({"apiVersion": None}, "providers.apiVersion: Required value", id="CT-no-apiVersion-1.23"),
        pytest.param({"name": "foo/../bar"}, "providers.name: Invalid value: \"foo/../bar\": provider name cannot contain '/'", id="CT-slash-1.21"),
        pytest.param({"name": "."}, "providers.name: Invalid value: \".\": provider name cannot be '.'", id="CT-dot-1.21"),
        pytest.param({"name": ".."}, "providers.name: Invalid value: \"..\": provider name cannot be '..'", id="CT-dots-1.21"),
        pytest.param({"name": "foo bar"}, 'providers.name: Invalid value: "foo bar": provider name cannot contain spaces', id="CT-space-1.21"),
        pytest.param({"apiVersion": f"{EXEC}/v1alpha0"}, f'providers.apiVersion: Unsupported value: "{EXEC}/v1alpha0": supported values: {SUPPORTED}', id="CT-version-1.23"),
        pytest.param({"defaultCacheDuration": "-1m"}, "providers.defaultCacheDuration: Invalid value: must be greater than or equal to 0", id="CT-negative-1.25"),
        pytest.param({"defaultCacheDuration": "-0.1ns"}, "providers.defaultCacheDuration: Invalid value: must be greater than or equal to 0", id="1.25-next-to-nothing"),
        pytest.param({"matchImages": ["%invalid%"]}, 'providers.matchImages: Invalid value: "%invalid%": match image is invalid: ', id="CT-matchImage-1.24"),
    ],
)  # fmt: skip
def test_a_provider_is_refused(changes: Any, expected: str) -> None:
    (message,) = faults({**provider(), **changes})
    assert message.startswith(expected)


@each_case(
    "changes",
    [
        pytest.param({}, id="CT-valid"),
        pytest.param({"name": "foo..bar"}, id="1.21-dots-inside"),
        pytest.param({"name": "foo\tbar"}, id="1.21-tab"),
        pytest.param({"name": ""}, id="1.21-empty"),
        pytest.param({"defaultCacheDuration": "0s"}, id="1.25-zero"),
        pytest.param({"matchImages": ["https://gcr.io", "gcr.io/*", ""]}, id="1.24-useless-patterns"),
        pytest.param({"args": ["", "\0"], "env": [{}, {"name": "A=B", "value": "\0"}, {}]}, id="1.26-args-and-env"),
    ],
)  # fmt: skip
def test_a_provider_is_accepted(changes: Any) -> None:
    assert faults({**provider(), **changes}) == []


def test_a_name_is_there_twice_1_17_1_22() -> None:
    assert faults(provider("a"), provider("b"), provider("a")) == [
        'duplicate provider name "a" found in configuration file(s)'
    ]


KEYS = ("requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys")
AT = "providers.tokenAttributes"


@each_case(
    ("changes", "expected"),
    [
        pytest.param({"serviceAccountTokenAudience": None}, [f"{AT}.serviceAccountTokenAudience: Required value"], id="CT-no-audience-1.28"),
        pytest.param({"serviceAccountTokenAudience": ""}, [f"{AT}.serviceAccountTokenAudience: Required value"], id="1.28-empty"),
        pytest.param({"cacheType": None}, [f"{AT}.cacheType: Required value"], id="CT-no-cacheType-1.34"),
        pytest.param({"requireServiceAccount": None}, [f"{AT}.requireServiceAccount: Required value"], id="CT-no-require-1.29"),
        pytest.param({"cacheType": "invalid-cache-type"}, [f'{AT}.cacheType: Unsupported value: "invalid-cache-type": supported values: "ServiceAccount", "Token"'], id="CT-cacheType-1.34"),
        pytest.param({"cacheType": "token"}, [f'{AT}.cacheType: Unsupported value: "token": supported values: "ServiceAccount", "Token"'], id="1.34-case"),
        pytest.param({KEYS[0]: ["cantendwithadash-"]}, [f'{AT}.{KEYS[0]}: Invalid value: "cantendwithadash-": '], id="CT-required-key-1.32"),
        pytest.param({KEYS[1]: ["cantendwithadash-"]}, [f'{AT}.{KEYS[1]}: Invalid value: "cantendwithadash-": '], id="CT-optional-key-1.32"),
        pytest.param({KEYS[0]: ["a", "a"]}, [f'{AT}.{KEYS[0]}: Duplicate value: "a"'], id="CT-required-twice-1.33"),
        pytest.param({KEYS[1]: ["a", "A", "a"]}, [f'{AT}.{KEYS[1]}: Duplicate value: "a"'], id="CT-optional-twice-1.33"),
        pytest.param({KEYS[0]: ["b", "a", "c"], KEYS[1]: ["a", "b", "C"]}, [f"{AT}: Invalid value: annotation keys cannot be both required and optional: a, b"], id="CT-both-1.33"),
        pytest.param({"requireServiceAccount": False, KEYS[0]: ["a"]}, [f"{AT}.{KEYS[0]}: Forbidden: requireServiceAccount cannot be false when "], id="CT-not-required-1.31"),
        pytest.param({"requireServiceAccount": False, KEYS[1]: ["a"]}, [], id="1.31-optional"),
        pytest.param({"requireServiceAccount": None, KEYS[0]: ["a"]}, [f"{AT}.requireServiceAccount: Required value"], id="1.31-absent"),
        pytest.param({KEYS[0]: ["a", "example.com/B_c.d"], KEYS[1]: ["c"], "cacheType": "Token"}, [], id="CT-valid-1.27"),
    ],
)  # fmt: skip
def test_token_attributes_are_checked(changes: Any, expected: list[str]) -> None:
    found = faults(provider(tokenAttributes=token_attributes(**changes)))
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_token_attributes_need_v1_of_the_protocol_1_30(version: str) -> None:
    given = provider(apiVersion=f"{EXEC}/{version}", tokenAttributes=token_attributes())
    assert faults(given) == [f"{AT}: Forbidden: tokenAttributes is only supported for {EXEC}/v1 API version"]


@each_case(
    ("key", "is_good"),
    [
        ("a", True), ("A", True), ("a.b_c-D", True), ("a" * 63, True), ("a" * 64, False), ("", False), ("-a", False),
        ("a-", False), (".a", False), ("a b", False), ("a\n", False), ("é", False), ("example.com/a", True), ("Example.COM/A", True),
        ("a/b/c", False), ("/a", False), ("a/", False), ("a..b/c", False), ("-a/c", False), ("a_b/c", False), ("é/c", False),
        ("a." * 126 + "a/c", True), ("a." * 126 + "aa/c", False), ("a" * 253 + "/" + "c" * 63, True),
    ],
)  # fmt: skip
def test_keys_of_annotations_1_32(key: str, is_good: bool) -> None:
    found = faults(provider(tokenAttributes=token_attributes(**{KEYS[1]: [key]})))
    assert (found == []) is is_good


def test_all_faults_are_told_by_provider() -> None:
    given = document(
        provider("a b", matchImages=["%"], apiVersion="x"), provider("/ ", defaultCacheDuration="-1s"), {}
    )
    problems = validate(read(given))
    assert [(problem.field, problem.message.partition(": ")[0]) for problem in problems] == [
        ('providers["a b"].name', "providers.name"),
        ('providers["a b"].apiVersion', "providers.apiVersion"),
        ('providers["a b"].matchImages', "providers.matchImages"),
        ('providers["/ "].name', "providers.name"),
        ('providers["/ "].name', "providers.name"),
        ('providers["/ "].defaultCacheDuration', "providers.defaultCacheDuration"),
        ('providers[""].apiVersion', "providers.apiVersion"),
        ('providers[""].matchImages', "providers.matchImages"),
        ('providers[""].defaultCacheDuration', "providers.defaultCacheDuration"),
    ]


def test_patterns_that_do_not_do_what_they_look_like_2_10() -> None:
    patterns = ["https://gcr.io", "gcr.io", "gcr.io/*", "*", ""]
    found = list(warnings(read(document(provider("a", matchImages=patterns), provider("b")))))
    assert [(each.provider, each.pattern, each.is_useless) for each in found] == [
        ("a", "https://gcr.io", True),
        ("a", "gcr.io/*", True),
        ("a", "*", False),
        ("a", "", True),
    ]
    for each in found:
        assert f"provider 'a': matchImages {each.pattern!r} " in str(each)
        assert each.message in str(each)


def test_a_warning_cannot_steer_a_terminal() -> None:
    warning = PatternWarning("a\x1b[31m\n", "\u202egcr.io", "why", is_useless=True)
    assert str(warning).isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def some(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Fields that are right, wrong or absent."""
    return st.fixed_dictionaries({}, optional={name: st.just(v) | json_values for name, v in fields.items()})


providers = st.lists(
    some(provider(args=["a"], env=[{"name": "a", "value": "b"}], tokenAttributes=token_attributes()))
    | json_values,
    max_size=3,
)


@given(st.builds(lambda found, extra: document(*found, **extra), providers, st.just({}) | some({"x": 1})))
def test_random_documents_are_read_or_refused(given: dict[str, Any]) -> None:
    for text in (json.dumps(given), "---\n" + json.dumps(given)):
        found = decode(text.encode())
        problems = found if isinstance(found, list) else validate(found.providers)
        assert all(problem.message for problem in problems)


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    assert isinstance(decode(data), list)
