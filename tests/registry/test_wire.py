"""What a provider is asked and what it answers, to the byte (3.1-3.2, 3.10-3.15); and what real ones answer (10.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth._secret import Secret
from kubeauth.registry._wire import (
    BadResponse,
    Request,
    read_request,
    read_response,
    write_request,
    write_response,
)
from kubeauth.schemas import AuthConfig
from kubeauth.schemas import CredentialProviderRequest as RequestModel
from kubeauth.schemas import CredentialProviderResponse as Response
from tests.registry.configs import EXEC, VERSIONS
from tests.support.cases import each_case
from tests.support.leaks import SENTINEL

V1 = f"{EXEC}/v1"
TOKEN = Secret("some.jwt-token")


def line(version: str, **fields: Any) -> bytes:
    document = {"kind": "CredentialProviderRequest", "apiVersion": f"{EXEC}/{version}", **fields}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("version", VERSIONS, ids=[f"PT-encode-{version}" for version in VERSIONS])
def test_a_request_to_the_byte_3_1(version: str) -> None:
    assert write_request(Request("docker.io/library/foobar", f"{EXEC}/{version}")) == (
        b'{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/'
        + version.encode()
        + b'","image":"docker.io/library/foobar"}\n'
    )


def test_a_request_with_token_and_annotations_to_the_byte_3_1() -> None:
    asked = Request("gcr.io/x", V1, TOKEN, {"b": "2", "a.io/k": "<1>&\u2028é", "B": ""})
    assert write_request(asked) == (
        b'{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
        b'"image":"gcr.io/x","serviceAccountToken":"some.jwt-token","serviceAccountAnnotations":'
        b'{"B":"","a.io/k":"\\u003c1\\u003e\\u0026\\u2028\xc3\xa9","b":"2"}}\n'
    )


@each_case(
    ("token", "annotations", "fields"),
    [
        (None, {}, {}),
        (Secret(""), {}, {}),
        (TOKEN, {}, {"serviceAccountToken": "some.jwt-token"}),
        (None, {"a": ""}, {"serviceAccountAnnotations": {"a": ""}}),
    ],
)
def test_what_is_empty_is_left_out_3_2(token: Any, annotations: dict[str, str], fields: Any) -> None:
    asked = Request("gcr.io/x", V1, token, annotations)
    assert write_request(asked) == line("v1", image="gcr.io/x", **fields)
    for version in ("v1alpha1", "v1beta1"):
        # Those versions have no such fields.
        older = Request("gcr.io/x", f"{EXEC}/{version}", token, annotations)
        assert write_request(older) == line(version, image="gcr.io/x")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_it_was_written_3_1(version: str) -> None:
    asked = Request("reg.io:5000/a/b", f"{EXEC}/{version}", TOKEN, {"a": "é<", "b": ""})
    found = read_request(write_request(asked))
    assert found == (asked if version == "v1" else Request("reg.io:5000/a/b", f"{EXEC}/{version}"))
    assert isinstance(found, Request)
    assert found.registry == "reg.io:5000"


def test_a_later_kubelet_may_say_more_3_2() -> None:
    found = read_request(line("v1", image="gcr.io/x", serviceAccountAnnotations=None, podName="p"))
    assert found == Request("gcr.io/x")


@each_case(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"{", "line 1, column 2: not valid JSON"),
        (b"null", "it must be a mapping, not null"),
        (b"[]", "it must be a mapping, not a list"),
        (b"{}", "kind must be CredentialProviderRequest, and apiVersion "),
        (line("v2", image="x"), "kind must be CredentialProviderRequest, and apiVersion "),
        (line("v1", image="x").replace(b"Request", b"Response"), "kind must be CredentialProviderRequest"),
        (line("v1"), "image is missing"),
        (line("v1", image=1), "image must be a string, not a number"),
        (line("v1", image="x", serviceAccountToken=[]), "serviceAccountToken must be a string, not a list"),
        (line("v1", image="x", serviceAccountAnnotations=[]), "serviceAccountAnnotations must be an object"),
        (line("v1", image="x", serviceAccountAnnotations={"a": 1}), "serviceAccountAnnotations.a must be a"),
    ],
)
def test_other_requests_are_refused(data: bytes, words: str) -> None:
    found = read_request(data)
    assert isinstance(found, str)
    assert found.startswith(words)


def test_what_cannot_be_text_is_written_all_the_same() -> None:
    data = write_request(Request("gcr.io/\ud800"))
    assert json.loads(data)["image"] == "gcr.io/?"


def answer(version: str = "v1", **changes: Any) -> dict[str, Any]:
    fields = {
        "kind": "CredentialProviderResponse",
        "apiVersion": f"{EXEC}/{version}",
        "cacheKeyType": "Registry",
        "cacheDuration": "1m",
        "auth": {"*.registry.io": {"username": "user", "password": "password"}},
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def text(value: Any) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()


def read(value: Any, version: str = "v1") -> Response:
    found = read_response(text(value), f"{EXEC}/{version}")
    assert isinstance(found, Response), found
    return found


def login(username: str, password: str) -> AuthConfig:
    return AuthConfig(username=username, password=Secret(password))


def refused(value: Any, version: str = "v1") -> BadResponse:
    found = read_response(text(value), f"{EXEC}/{version}")
    assert isinstance(found, BadResponse), found
    assert found.advice
    return found


@pytest.mark.parametrize("version", VERSIONS, ids=[f"PT-decode-{version}" for version in VERSIONS])
def test_an_answer_is_read_3_14(version: str) -> None:
    assert read(answer(version), version) == Response(
        api_version=f"{EXEC}/{version}",
        auth={"*.registry.io": login("user", "password")},
        cache_key_type="Registry",
        cache_duration=60.0,
    )


@pytest.mark.parametrize("around", ["{}", "{}\n", "\r\n\t {} \n\n"])
def test_blanks_around_it_do_no_harm_3_10_10_5(around: str) -> None:
    assert read(around.replace("{}", json.dumps(answer()))) == read(answer())


@each_case(
    ("form", "words"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("\ufeff{}", "not valid JSON"),
        ("I0101 getting credentials\n{}", "not valid JSON"),
        ("{}\ndone", "not valid JSON"),
        ("{}{}", "not valid JSON"),
        ("---\n{}", "not valid JSON"),
        ("{}\0", "not valid JSON"),
        ("[{}]", "it must be a mapping, not a list"),
    ],
    ids=["nothing", "blanks", "bom", "log-before", "log-behind", "two", "yaml", "nul", "list"],
)
def test_anything_else_on_stdout_spoils_it_3_10(form: str, words: str) -> None:
    found = refused(form.replace("{}", json.dumps(answer())))
    assert words in found.reason
    assert "and nothing else, on its standard output" in found.advice


def test_what_is_no_utf_8_is_refused_3_10() -> None:
    data = json.dumps(answer()).encode().replace(b'"user', b'"user\xff')
    found = read_response(data, V1)
    assert isinstance(found, BadResponse)
    assert found.reason == "not valid UTF-8 text"


@each_case("value", ["null", "{}", '"x"', "1"])
def test_what_is_no_answer_at_all_3_11(value: str) -> None:
    assert refused(value).reason.startswith(("it must be a mapping", "apiVersion from credential plugin"))


@each_case(
    ("said", "shown"),
    [
        (f"{EXEC}/v1beta1", f"{EXEC}/v1beta1"),
        pytest.param("foobar.kubelet.k8s.io/v1", "another", id="PT-wrong-group"),
        (f"{EXEC}/v2", "another"),
        ("v1", "another"),
        (f" {V1}", "another"),
        (["a"], "another"),
        ("", "none"),
        (None, "none"),
        (..., "none"),
    ],
)
def test_the_version_must_be_the_one_of_the_configuration_3_11(said: Any, shown: str) -> None:
    found = refused(answer(apiVersion=said))
    assert found.reason == (
        "apiVersion from credential plugin response did not match expected "
        f"apiVersion:{V1}, actual apiVersion:{shown}"
    )
    assert (f"to {EXEC}/v1beta1." in found.advice) == (shown == f"{EXEC}/v1beta1")


@each_case(
    "kind", ["CredentialProviderRequest", "credentialproviderresponse", "", None, ..., ["x"]], ids=repr
)
def test_the_kind_must_be_right_3_12(kind: Any) -> None:
    """PT: wrong kind."""
    assert refused(answer(kind=kind)).reason == "kind must be CredentialProviderResponse"


@each_case(
    ("value", "reason"),
    [
        (answer(extra=1), "unknown field"),
        (answer(Auth={}), "Auth: unknown field"),
        (answer(cachekeytype="Image"), "cachekeytype: unknown field"),
        (answer(metadata=None), "unknown field"),
        (answer(auth={"a.io": {"email": "x"}}), "auth[...].email: unknown field"),
        (answer(auth={"a.io": {"identitytoken": "x"}}), "auth[...].identitytoken: unknown field"),
        (answer(auth={"a.io": {"Username": "x"}}), "auth[...].Username: unknown field"),
        (answer(auth={"a.io": {"other": "x"}}), "auth[...]: unknown field"),
        (answer(auth={"a.io": []}), "auth[...]: must be a mapping, not a list"),
        (answer(auth={"a.io": {"username": 1}}), "auth[...].username: must be a string, not a number"),
        (answer(auth={"a.io": {"password": {}}}), "auth[...].password: must be a string, not a mapping"),
        (answer(auth=[]), "auth: must be a mapping, not a list"),
        (answer(cacheKeyType=1), "cacheKeyType: must be a string, not a number"),
        (answer(cacheDuration=60), "cacheDuration: must be a string, not a number"),
        (answer(cacheDuration="60"), "cacheDuration: not a duration"),
        (answer(cacheDuration=""), "cacheDuration: not a duration"),
    ],
)
def test_it_is_read_strictly_3_12(value: Any, reason: str) -> None:
    assert refused(value).reason == reason


@each_case(
    ("once", "twice"),
    [
        ('"kind"', '"kind": "CredentialProviderResponse", "kind"'),
        ('"auth"', '"auth": {}, "auth"'),
        ('"*.registry.io"', '"*.registry.io": {}, "*.registry.io"'),
        ('"username"', '"username": "user", "username"'),
        ('"*.registry.io"', '"\\ud800": {}, "\ufffd": {}, "*.registry.io"'),
    ],
    ids=["top-level", "auth", "key-of-auth", "entry", "half-a-character"],
)
def test_what_is_there_twice_is_refused_3_12(once: str, twice: str) -> None:
    given = json.dumps(answer())
    assert read(given).cache_key_type == "Registry"
    assert refused(given.replace(once, twice)).reason == "a field, or a key of auth, is in it twice"


@pytest.mark.parametrize("given", [{}, {"username": None, "password": None}, None], ids=repr)
def test_absent_names_and_passwords_are_empty_3_14(given: Any) -> None:
    assert read(answer(auth={"a.io": given})).auth == {"a.io": login("", "")}


@pytest.mark.parametrize("auth", [..., None, {}], ids=repr)
def test_no_credentials_are_an_answer_3_14_10_5(auth: Any) -> None:
    assert read(answer(auth=auth)).auth == {}


@each_case(
    ("given", "seconds"),
    [(..., None), (None, None), ("0s", 0.0), ("5m0s", 300.0), ("1h0m0s", 3600.0), ("6h0m0s", 21600.0), ("-1s", -1.0)],
    ids=repr,
)  # fmt: skip
def test_durations_3_14_10_5(given: Any, seconds: float | None) -> None:
    assert read(answer(cacheDuration=given)).cache_duration == seconds


@each_case("given", ["image", "IMAGE", "", None, ..., "ServiceAccount", "Registry "], ids=repr)
def test_the_type_of_the_cache_key_must_be_known_3_15(given: Any) -> None:
    # 10.6: ServiceAccount is a word of the configuration.
    assert refused(answer(cacheKeyType=given)).reason == "cacheKeyType must be Image, Registry or Global"


@pytest.mark.parametrize("given", ["Image", "Registry", "Global"])
def test_types_of_the_cache_key_3_15(given: str) -> None:
    assert read(answer(cacheKeyType=given)).cache_key_type == given


@pytest.mark.parametrize("key_type", ["Image", "nonsense"])
def test_a_token_that_comes_back_is_told_before_the_type_of_the_cache_key_3_16_4_17(key_type: str) -> None:
    token = Secret(SENTINEL)
    auth = {"a.io": {"username": "u", "password": "p"}, "b.io": {"username": "u", "password": SENTINEL}}
    given = text(answer(auth=auth, cacheKeyType=key_type))
    found = read_response(given, V1, forbidden=token)
    assert isinstance(found, BadResponse)
    assert found.is_echo
    assert SENTINEL not in repr(found)
    # A user name is not compared, nor is a token that is not there.
    user = text(answer(auth={"a.io": {"username": SENTINEL, "password": ""}}))
    for allowed, forbidden in ((user, token), (user, Secret("")), (text(answer(auth=auth)), None)):
        assert isinstance(read_response(allowed, V1, forbidden=forbidden), Response)


def test_real_providers_10_1_10_2_10_3_10_4_10_5() -> None:
    jwt = "e." * 20_000
    guid = "00000000-0000-0000-0000-000000000000"
    ecr = answer(cacheDuration=..., auth={"1.dkr.ecr.us.amazonaws.com": {"username": "AWS", "password": jwt}})
    assert read(ecr).auth == {"1.dkr.ecr.us.amazonaws.com": login("AWS", jwt)}
    acr = answer(
        cacheDuration="5m0s",
        auth={
            "*.azurecr.*": {"username": "", "password": ""},
            "x.azurecr.io": {"username": guid, "password": jwt},
        },
    )
    assert list(read(acr).auth.items()) == [
        ("*.azurecr.*", login("", "")),
        ("x.azurecr.io", login(guid, jwt)),
    ]
    assert read(answer(cacheDuration="0s", auth=...)) == Response(
        cache_key_type="Registry", cache_duration=0.0
    )
    keys = ["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev", "https://index.docker.io/v1/"]
    entry = {"username": "_token", "password": "ya29.x"}
    gcp = json.dumps(answer(cacheKeyType="Image", cacheDuration="0s", auth=dict.fromkeys(keys, entry)))
    assert list(read(gcp + "\n").auth) == keys
    # It answers v1 whatever it is asked.
    assert "to credentialprovider.kubelet.k8s.io/v1." in refused(gcp, "v1beta1").advice


SECRET_ENTRY = {"username": SENTINEL, "password": SENTINEL}
LEAKY: dict[str, Any] = {
    "text": SENTINEL,
    "before": SENTINEL + json.dumps(answer()),
    "behind": json.dumps(answer()) + SENTINEL,
    "unclosed": f'{{"auth": {{"{SENTINEL}": {{"password": "{SENTINEL}',
    "version": answer(apiVersion=SENTINEL, auth={SENTINEL: SECRET_ENTRY}),
    "kind": answer(kind=SENTINEL),
    "type": answer(cacheKeyType=SENTINEL),
    "duration": answer(cacheDuration=SENTINEL),
    "field": answer(**{SENTINEL: SENTINEL}),
    "field with dots": answer(**{f"auth.x.{SENTINEL}": SENTINEL}),
    "field of an entry": answer(auth={SENTINEL: {**SECRET_ENTRY, SENTINEL: SENTINEL}}),
    "entry": answer(auth={SENTINEL: SENTINEL}),
    "entry with dots": answer(auth={f"a.{SENTINEL}": [SENTINEL]}),
    "password": answer(auth={SENTINEL: {"password": [SENTINEL]}}),
    "twice": f'{{"kind": "CredentialProviderResponse", "apiVersion": "{V1}", "{SENTINEL}": 1, "{SENTINEL}": 1}}',
    "control character": json.dumps(answer(auth={"a": SECRET_ENTRY})).replace(SENTINEL, f"{SENTINEL}\n"),
}


@each_case("value", LEAKY.values(), ids=LEAKY.keys())
def test_nothing_of_an_answer_is_told_3_13(value: Any) -> None:
    assert SENTINEL not in repr(refused(value))


def test_printing_shows_no_secret_3_13() -> None:
    assert SENTINEL not in repr(read(answer(auth={SENTINEL: SECRET_ENTRY})))
    assert SENTINEL not in repr(Request("gcr.io/x", V1, Secret(SENTINEL)))


texts = st.text(st.characters(exclude_categories=["Cs"]))
entries = st.dictionaries(texts, st.tuples(texts, texts.map(Secret)), max_size=4)
durations = st.none() | st.integers(0, 10**9).map(float) | st.integers(0, 10**12).map(lambda n: n / 10**6)


@given(entries, st.sampled_from(["Image", "Registry", "Global"]), durations, st.sampled_from(VERSIONS))
def test_what_is_written_is_read(auth: Any, key_type: str, duration: float | None, version: str) -> None:
    written = write_response(auth, key_type, duration, f"{EXEC}/{version}")
    found = read_response(written, f"{EXEC}/{version}")
    assert isinstance(found, Response)
    assert [(key, (each.username, each.password)) for key, each in found.auth.items()] == list(auth.items())
    assert found.cache_key_type == key_type
    assert found.cache_duration == (duration and pytest.approx(duration, abs=1e-6))


@given(texts.filter(bool), texts, st.dictionaries(texts, texts, max_size=4), st.sampled_from(VERSIONS))
def test_requests_are_those_of_the_model(
    image: str, token: str, annotations: dict[str, str], version: str
) -> None:
    is_v1 = version == "v1"
    asked = Request(
        image, f"{EXEC}/{version}", Secret(token) if token and is_v1 else None, annotations if is_v1 else {}
    )
    model = RequestModel(
        api_version=asked.api_version,
        image=image,
        service_account_token=asked.token or Secret(""),
        service_account_annotations=asked.annotations,
    )
    assert RequestModel.model_validate_json(write_request(asked)) == model
    assert read_request(model.model_dump_json(context={"reveal_secrets": True}).encode()) == asked
    assert read_request(json.dumps(model.to_document(reveal_secrets=True)).encode()) == asked


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
answers = st.fixed_dictionaries({}, optional={name: st.just(v) | json_values for name, v in answer().items()})


@given(st.binary(max_size=100) | (answers | json_values).map(text))
def test_random_answers_are_read_or_refused(data: bytes) -> None:
    assert isinstance(read_response(data, V1), Response | BadResponse)


requests = st.fixed_dictionaries(
    {"kind": st.just("CredentialProviderRequest"), "apiVersion": st.just(V1)},
    optional={name: json_values for name in ("image", "serviceAccountToken", "serviceAccountAnnotations")},
)


@given(st.binary(max_size=100) | (requests | json_values).map(text))
def test_random_requests_are_read_or_refused(data: bytes) -> None:
    assert isinstance(read_request(data), Request | str)
