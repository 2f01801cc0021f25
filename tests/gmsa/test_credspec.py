"""Contents of credential specs, as Go writes and compares them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth._parsing import read_json
from kubeauth.gmsa import Decision
from kubeauth.gmsa._credspec import MAX_CONTENTS, canonical, credspec_of, mismatch, same
from kubeauth.gmsa._review import write_review
from kubeauth.schemas import AdmissionRequest, AdmissionReview
from tests.gmsa.pods import cluster, container, pod
from tests.support.cases import each_case

# What json.Marshal of Go 1.26 makes of these.
GO = [
    (
        '{"CmsPlugins": ["ActiveDirectory"], "DomainJoinConfig": {"Sid": "S-1-5-21-1-2-3", "MachineAccountName": "WebApp01", '
        '"Guid": "244818ae-87ac-4fcd-92ec-e79e5252348a", "DnsTreeName": "example.test", "DnsName": "example.test", '
        '"NetBiosName": "EXAMPLE"}, "ActiveDirectoryConfig": {"GroupManagedServiceAccounts": '
        '[{"Name": "WebApp01", "Scope": "EXAMPLE"}, {"Scope": "example.test", "Name": "WebApp01"}]}}',
        '{"ActiveDirectoryConfig":{"GroupManagedServiceAccounts":[{"Name":"WebApp01","Scope":"EXAMPLE"},'
        '{"Name":"WebApp01","Scope":"example.test"}]},"CmsPlugins":["ActiveDirectory"],"DomainJoinConfig":'
        '{"DnsName":"example.test","DnsTreeName":"example.test","Guid":"244818ae-87ac-4fcd-92ec-e79e5252348a",'
        '"MachineAccountName":"WebApp01","NetBiosName":"EXAMPLE","Sid":"S-1-5-21-1-2-3"}}',
    ),
    (
        '{"CmsPlugins": ["ActiveDirectory"], "ActiveDirectoryConfig": {"HostAccountConfig": {"PortableCcgVersion": "1", '
        '"PluginGUID": "{ABC}", "PluginInput": "vault=a&user=u&password=<password>"}}}',
        '{"ActiveDirectoryConfig":{"HostAccountConfig":{"PluginGUID":"{ABC}","PluginInput":'
        '"vault=a\\u0026user=u\\u0026password=\\u003cpassword\\u003e","PortableCcgVersion":"1"}},'
        '"CmsPlugins":["ActiveDirectory"]}',
    ),
    (
        '{"é": "\\u2028\\u2029 ü \\ud83d\\ude00", "B": "\\u007f\\u0001\\b\\f\\n\\r\\t\\"\\\\/", "b": [], "a": {}, "n": null, "t": true}',
        '{"B":"\x7f\\u0001\\b\\f\\n\\r\\t\\"\\\\/","a":{},"b":[],"n":null,"t":true,"é":"\\u2028\\u2029 ü 😀"}',
    ),
    (
        '{"x": "\\ud800", "n": [1, 1.0, 1e3, 0.1, 1e21, 1e-7, -0.0, 1e20]}',
        '{"n":[1,1,1000,0.1,1e+21,1e-7,-0,100000000000000000000],"x":"�"}',
    ),
    ("{}", "{}"),
]


@each_case(("text", "expected"), GO)
def test_contents_are_written_byte_for_byte_as_go_does_b32(text: str, expected: str) -> None:
    assert canonical(read_json(text.encode())) == expected


VECTORS = [
    (
        {"CmsPlugins": ["ActiveDirectory"]},
        pod("n"),
        "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvc2VjdXJpdHlDb250ZXh0L3dpbmRvd3NPcHRpb25zL2dtc2FDcmVkZW50aWFsU3BlYyIsInZhbHVlIj"
        "oie1wiQ21zUGx1Z2luc1wiOltcIkFjdGl2ZURpcmVjdG9yeVwiXX0ifV0=",
    ),
    (
        {"a": "<x>&"},
        pod(containers=[container("0"), container("1", "n")]),
        "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvY29udGFpbmVycy8xL3NlY3VyaXR5Q29udGV4dC93aW5kb3dzT3B0aW9ucy9nbXNhQ3JlZGVudGlhbF"
        "NwZWMiLCJ2YWx1ZSI6IntcImFcIjpcIlxcdTAwM2N4XFx1MDAzZVxcdTAwMjZcIn0ifV0=",
    ),
]


@pytest.mark.parametrize(("credspec", "document", "patch"), VECTORS, ids=["pod", "container"])
def test_a_patch_is_byte_for_byte_that_of_the_shipped_webhook_b35(
    credspec: dict[str, Any], document: dict[str, Any], patch: str
) -> None:
    operations = cluster(n=credspec).expand(document)
    to = AdmissionReview(request=AdmissionRequest(uid="u"))
    answer = json.loads(write_review(to, Decision(True, patch=tuple(operations))))
    assert answer["response"] == {"uid": "u", "allowed": True, "patch": patch, "patchType": "JSONPatch"}


SAME = [
    ('{"a":1}', {"a": 1}),
    ('{"a":1}', {"a": 1.0}),
    ('{"a":1.0}', {"a": 1}),
    ('{"a":100}', {"a": 1e2}),
    ('{"a":9007199254740993}', {"a": 9007199254740992}),  # the same float64
    ('{"b":{"d":[1,2],"c":null},"a":"x"}', {"a": "x", "b": {"c": None, "d": [1, 2]}}),
    (' {\n"a" :\t"\\u0041" } ', {"a": "A"}),
    ('{"a":"\\ud800"}', {"a": "\ufffd"}),
    ("{}", {}),
]
OTHER = [
    ('{"a":true}', {"a": 1}),
    ('{"a":1}', {"a": True}),
    ('{"a":false}', {"a": 0}),
    ('{"a":0}', {"a": None}),
    ('{"a":""}', {"a": None}),
    ('{"a":null}', {}),
    ('{"a":"1"}', {"a": 1}),
    ('{"a":[1,2]}', {"a": [2, 1]}),
    ('{"a":[1]}', {"a": [1, 1]}),
    ('{"a":[]}', {"a": {}}),
    ('{"A":"x"}', {"a": "x"}),
    ('{"a":"x "}', {"a": "x"}),
    ('{"a":{"b":"c"}}', {"a": {"b": "d"}}),
]


@each_case(("contents", "credspec"), SAME)
def test_contents_match_however_they_are_written_b41(contents: str, credspec: dict[str, Any]) -> None:
    assert mismatch(contents, credspec_of(credspec)) is None


@each_case(("contents", "credspec"), OTHER)
def test_contents_that_differ_in_anything_do_not_match_b41_b42(
    contents: str, credspec: dict[str, Any]
) -> None:
    assert mismatch(contents, credspec_of(credspec)) == "they differ"


@each_case(
    ("contents", "reason"),
    [
        ("", "not valid JSON"),
        ("nope", "not valid JSON"),
        ("{} {}", "not valid JSON"),
        ('{"a":"x"', "not valid JSON"),
        ("[]", "no JSON object"),
        ("null", "no JSON object"),
        ('"x"', "no JSON object"),
        ('{"a":NaN}', "a number that is not valid in JSON"),
        ('{"a":-Infinity}', "a number that is not valid in JSON"),
        ('{"a":1e400}', "a number that is not valid in JSON"),
        (f'{{"a":{"9" * 400}}}', "a number that is not valid in JSON"),
        ('{"a":"x","a":"x"}', "twice"),
        ('{"b":{"a":"x","\\u0061":"x"}}', "twice"),
        ('{"\\ud800":"x","\\ud801":"x"}', "twice"),
        ('{"a":' * 200 + "1" + "}" * 200, "nested"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested"),
        ("[" * 60_000, "nested"),
        ("x" * (MAX_CONTENTS + 1), "longer than 65536 bytes"),
        ("é" * (MAX_CONTENTS // 2 + 1), "longer than 65536 bytes"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_does_not_match_b42(contents: str, reason: str) -> None:
    # Among them 1e400: as text it must not match text.
    for credspec in ({"a": "x"}, {"a": "1e400"}, {"a": "9" * 400}):
        assert reason in (mismatch(contents, credspec_of(credspec)) or "")


def test_equal_text_is_equal_at_once_b41() -> None:
    """Also where comparing would refuse it: what is too long is the cluster's own."""
    credspec = {"a": "x" * MAX_CONTENTS}
    assert mismatch(canonical(credspec), credspec_of(credspec)) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab<é", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text("ab<é", max_size=2), JSON, max_size=4)


@given(OBJECTS)
def test_what_is_written_is_read_as_the_same(credspec: dict[str, Any]) -> None:
    text = canonical(credspec)
    assert same(json.loads(text), credspec)
    assert "<" not in text
    assert mismatch(json.dumps(credspec, indent=1), credspec_of(credspec)) is None


@given(JSON, JSON)
def test_same_is_an_equality_that_knows_types(one: Any, other: Any) -> None:
    assert same(one, one)
    assert same(one, other) == same(other, one)
    if same(one, other):
        assert one == other
    if json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True):
        assert same(one, other)
