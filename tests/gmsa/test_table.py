"""The tests of kubernetes-sigs/windows-gmsa, each by the line of webhook_test.go that it is at; `it` is its integration test.

Where theirs run twelve times, at both levels and with up to five other containers, these run 24 times: at all four levels.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kubeauth.errors import AdmissionError
from kubeauth.gmsa import PatchOperation, Policy, authorize, effective_credential_specs
from kubeauth.gmsa._driver import settled
from kubeauth.gmsa._review import mutation, read_review, validation, write_review
from tests.gmsa.pods import (
    COMPAT,
    CONTENTS,
    CREDSPEC,
    LEVELS,
    LISTS,
    SHIPPED_LEVELS,
    STRICT,
    Cluster,
    Document,
    cluster,
    container,
    extra_contents,
    options_at,
    patched,
    pod,
    pod_at,
    resource_at,
)
from tests.support.cases import each_case

HOSTNAMES = Policy(random_hostname=True)
# The same JSON with other blanks and keys in another order.
REFORMATTED = """{ "plugins": [ "ActiveDirectory",
    "Other" ], "join":{"Sid":"S-1-5-21-1-2-3", "DnsName": "example.test"} }"""


def times12(test: Any) -> Any:
    """At each level, with each number of other containers, strict and as shipped."""
    cases = [
        pytest.param(level, extras, policy, id=f"{level}-{extras}-{'compat' if policy.compat else 'strict'}")
        for policy, levels in ((Policy(), LEVELS), (COMPAT, SHIPPED_LEVELS))
        for level in levels
        for extras in range(6)
    ]
    return each_case(("level", "extras", "policy"), cases)(test)


EMPTY = [
    pytest.param(pod(None, None, containers=[container("c", None, None)]), id="empty"),
    pytest.param(pod(containers=[container("c")]), id="none"),
]


@pytest.mark.parametrize("document", EMPTY)
def test_ValidateCreate_18_35_without_options_nobody_is_asked(document: Document) -> None:
    known = cluster()
    assert known.create(document).allowed
    assert not known.was_asked


@times12
def test_ValidateCreate_55_with_identical_contents(level: str, extras: int, policy: Policy) -> None:
    decision = cluster().create(pod_at(level, "web-spec", CONTENTS, extras=extras), policy)
    assert (decision.allowed, decision.code, decision.message, decision.patch) == (True, 200, "", ())


@times12
def test_ValidateCreate_67_with_the_same_json_written_otherwise(
    level: str, extras: int, policy: Policy
) -> None:
    assert cluster().create(pod_at(level, "web-spec", REFORMATTED, extras=extras), policy).allowed


@times12
def test_ValidateCreate_83_with_another_value_in_a_list(level: str, extras: int, policy: Policy) -> None:
    other = json.dumps({**CREDSPEC, "plugins": ["ActiveDirectory", "Else"]})
    decision = cluster().create(pod_at(level, "web-spec", other, extras=extras), policy)
    assert (decision.allowed, decision.code) == (False, 422)
    assert f'in {level} "{resource_at(level)}" do not match' in decision.message
    assert '"web-spec"' in decision.message


@times12
def test_ValidateCreate_100_with_contents_that_are_not_json(level: str, extras: int, policy: Policy) -> None:
    decision = cluster().create(pod_at(level, "web-spec", "i ain't no JSON object", extras=extras), policy)
    assert (decision.allowed, decision.code) == (False, 422)
    assert f'in {level} "{resource_at(level)}" do not match' in decision.message
    assert "not valid JSON" in decision.message


@times12
def test_ValidateCreate_113_with_contents_and_no_name(level: str, extras: int, policy: Policy) -> None:
    decision = cluster().create(pod_at(level, None, CONTENTS, extras=extras), policy)
    assert (decision.allowed, decision.code) == (False, 422)
    assert f'{level} "{resource_at(level)}" has the contents' in decision.message
    assert "without its name" in decision.message


@times12
def test_ValidateCreate_127_when_the_authoriser_says_no(level: str, extras: int, policy: Policy) -> None:
    known = cluster()
    known.refusals["web-spec"] = "it is not your day"
    decision = known.create(pod_at(level, "web-spec", CONTENTS, extras=extras), policy)
    assert (decision.allowed, decision.code) == (False, 403)
    for part in (
        'service account "robot"',
        '"shop"',
        "`use`",
        '"web-spec"',
        f'{level} "{resource_at(level)}"',
    ):
        assert part in decision.message
    assert "it is not your day" in decision.message
    assert {(each.user.name, each.namespace) for each in known.reviewed} == {
        ("system:serviceaccount:shop:robot", "shop")
    }


@times12
def test_ValidateCreate_154_when_the_spec_does_not_exist(level: str, extras: int, policy: Policy) -> None:
    known = cluster()
    del known.specs["web-spec"]
    decision = known.create(pod_at(level, "web-spec", CONTENTS, extras=extras), policy)
    assert (decision.allowed, decision.code) == (False, 404)
    assert 'GMSACredentialSpec "web-spec" does not exist' in decision.message


@each_case("document", EMPTY)
@each_case("policy", [Policy(), HOSTNAMES])
def test_MutateCreate_181_201_204_224_without_options_there_is_no_patch(
    document: Document, policy: Policy
) -> None:
    known = cluster()
    assert known.expand(document, policy) == []
    assert not known.was_asked


@each_case("level", LEVELS)
def test_MutateCreate_226_256_contents_that_are_there_get_a_hostname(level: str) -> None:
    (operation,) = cluster().expand(pod_at(level, "web-spec", "x"), HOSTNAMES)
    assert operation == {"op": "add", "path": "/spec/hostname", "value": "a-random-name-4"}
    assert len(operation["value"]) == 15


@each_case("level", LEVELS)
def test_MutateCreate_258_275_a_hostname_that_is_there_is_kept(level: str) -> None:
    document = pod_at(level, "web-spec", "x")
    document["spec"]["hostname"] = "mine"
    assert cluster().expand(document, HOSTNAMES) == []


def path_of(document: Document, level: str, name: str) -> str:
    within = "/spec"
    if level != "pod":
        names = [each["name"] for each in document["spec"][LISTS[level]]]
        within = f"/spec/{LISTS[level]}/{names.index(name)}"
    return f"{within}/securityContext/windowsOptions/gmsaCredentialSpec"


def added(document: Document, level: str, extras: int) -> list[PatchOperation]:
    """What the others need."""
    others = "container" if level == "pod" else level
    return [
        {"op": "add", "path": path_of(document, others, f"c{n}"), "value": extra_contents(n)}
        for n in range(extras)
    ]


@times12
def test_MutateCreate_295_every_name_gets_its_contents(level: str, extras: int, policy: Policy) -> None:
    document = pod_at(level, "web-spec", extras=extras, bare=True)
    patch = cluster().expand(document, Policy(random_hostname=True, compat=policy.compat))
    assert patch.pop() == {"op": "add", "path": "/spec/hostname", "value": "a-random-name-4"}
    here: PatchOperation = {"op": "add", "path": path_of(document, level, "here"), "value": CONTENTS}
    expected = [here, *added(document, level, extras)]
    assert sorted(patch, key=str) == sorted(expected, key=str)
    # In the order in which the containers are.
    assert [each["path"] for each in patch] == sorted(
        (each["path"] for each in expected), key=lambda path: (path.count("/") > 4, path)
    )
    assert options_at(patched(document, patch), level)["gmsaCredentialSpec"] == CONTENTS


@times12
def test_MutateCreate_368_contents_that_are_there_are_left_alone(
    level: str, extras: int, policy: Policy
) -> None:
    document = pod_at(level, "web-spec", "whatever", extras=extras, bare=True)
    patch = cluster().expand(document, policy)
    assert sorted(patch, key=str) == sorted(added(document, level, extras), key=str)
    answer = reviewed("mutate", document, cluster(), policy=policy)
    assert ("patch" in answer) == ("patchType" in answer) == (extras > 0)


@times12
def test_MutateCreate_394_when_the_spec_does_not_exist(level: str, extras: int, policy: Policy) -> None:
    known = cluster()
    del known.specs["web-spec"]
    with pytest.raises(AdmissionError, match='GMSACredentialSpec "web-spec" does not exist') as caught:
        known.expand(pod_at(level, "web-spec", extras=extras, bare=True), policy)
    assert caught.value.status_code == 404


@pytest.mark.parametrize("document", EMPTY)
def test_ValidateUpdate_421_438_without_options(document: Document) -> None:
    assert authorize(document, old_pod=document).allowed


@times12
def test_ValidateUpdate_445_unchanged(level: str, extras: int, policy: Policy) -> None:
    document = pod_at(level, "web-spec", CONTENTS, extras=extras)
    assert authorize(document, old_pod=document, policy=policy).allowed


def refused_update(level: str, extras: int, policy: Policy, name: str, contents: str) -> str:
    old = pod_at(level, "web-spec", CONTENTS, extras=extras)
    new = pod_at(level, name, contents, extras=extras)
    decision = authorize(new, old_pod=old, policy=policy)
    assert (decision.allowed, decision.code) == (False, 403)
    assert f'credential spec in {level} "{resource_at(level)}" cannot be changed' in decision.message
    return decision.message


@times12
def test_ValidateUpdate_457_another_name(level: str, extras: int, policy: Policy) -> None:
    assert refused_update(level, extras, policy, "other", CONTENTS).startswith("the name of")


@times12
def test_ValidateUpdate_471_other_contents(level: str, extras: int, policy: Policy) -> None:
    assert refused_update(level, extras, policy, "web-spec", "{}").startswith("the contents of")


@times12
def test_ValidateUpdate_485_both(level: str, extras: int, policy: Policy) -> None:
    assert refused_update(level, extras, policy, "other", "{}").startswith("the name and contents of")


def test_501_507_options_off_and_on() -> None:
    assert not Policy().random_hostname
    assert HOSTNAMES.random_hostname


@each_case("place", ["name", "contents"])
@each_case(
    ("one", "other", "same"),
    [(None, None, True), ("foo", None, False), ("foo", "foo", True), ("foo", "bar", False)],
)
def test_EqualStringPointers_516_either_way_round(
    place: str, one: str | None, other: str | None, same: bool
) -> None:
    first, second = ((one, None), (other, None)) if place == "name" else ((None, one), (None, other))
    assert authorize(pod(*first), old_pod=pod(*second)).allowed is same
    assert authorize(pod(*second), old_pod=pod(*first)).allowed is same


def reviewed(
    path: str, document: object, known: Cluster, *, policy: Policy = STRICT, **given: Any
) -> Document:
    """The response to a review, as a webhook at that path writes it."""
    request = {
        "uid": "some-uid", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
        "namespace": "shop", "object": document, **given,
    }  # fmt: skip
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    read, decision = read_review(body.encode())
    if decision is None:
        steps = mutation(read.request, policy) if path == "mutate" else validation(read.request, policy)
        decision = settled(steps, known.lookup, known.review)
    answer: Document = json.loads(write_review(read, decision))["response"]
    return answer


def test_webhook_http_test_73_a_review_is_mutated() -> None:
    answer = reviewed("mutate", pod("web-spec"), cluster())
    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("some-uid", True, "JSONPatch")
    assert isinstance(answer["patch"], str)


def test_webhook_http_test_100_a_review_is_denied() -> None:
    known = cluster()
    known.refusals["web-spec"] = "no"
    answer = reviewed("validate", pod("web-spec", CONTENTS), known)
    assert (answer["allowed"], answer["status"]["code"]) == (False, 403)
    assert "robot" in answer["status"]["message"]


def test_webhook_http_test_141_a_deployment_is_not_a_pod() -> None:
    answer = reviewed("validate", {}, cluster(), kind={"kind": "Deployment"})
    assert (answer["uid"], answer["allowed"], answer["status"]["code"]) == ("some-uid", False, 400)
    assert "Deployment" in answer["status"]["message"]


@pytest.mark.parametrize("level", SHIPPED_LEVELS)
def test_it_51_64_a_name_is_inlined_and_then_admitted(level: str) -> None:
    document = pod_at(level, "web-spec")
    after = patched(document, cluster().expand(document))
    assert options_at(after, level) == {"gmsaCredentialSpecName": "web-spec", "gmsaCredentialSpec": CONTENTS}
    assert cluster().create(after).allowed


def test_it_77_each_gets_its_own() -> None:
    document = pod("web-spec", containers=[container("a", "extra-1"), container("b", "extra-2")])
    after = patched(document, cluster().expand(document))
    assert effective_credential_specs(after) == {"a": extra_contents(1), "b": extra_contents(2)}
    assert after["spec"]["securityContext"]["windowsOptions"]["gmsaCredentialSpec"] == CONTENTS


def test_it_92_contents_written_otherwise_are_kept() -> None:
    document = pod("web-spec", REFORMATTED)
    assert cluster().expand(document) == []
    assert cluster().create(document).allowed


def test_it_115_135_153_172_191_what_is_refused() -> None:
    known = cluster()
    known.refusals["system:serviceaccount:shop:robot"] = ""
    assert "is not allowed" in known.create(pod("web-spec")).message
    with pytest.raises(AdmissionError, match="does not exist"):
        known.expand(pod("unknown"))
    assert "without its name" in known.create(pod(None, CONTENTS)).message
    assert "without its name" in known.create(pod(containers=[container("c", None, CONTENTS)])).message
    assert "do not match" in cluster().create(pod("web-spec", "{}")).message


@pytest.mark.parametrize("level", SHIPPED_LEVELS)
def test_it_211_241_neither_contents_nor_name_can_be_applied(level: str) -> None:
    old = pod_at(level, "web-spec", CONTENTS)
    assert not authorize(pod_at(level, "web-spec", "{}"), old_pod=old).allowed
    assert not authorize(pod_at(level, "extra-1", CONTENTS), old_pod=old).allowed


def test_it_271_a_spec_for_nodes_outside_the_domain_is_inlined_with_escapes() -> None:
    credspec = {"ActiveDirectoryConfig": {"HostAccountConfig": {"PluginInput": "password=<password>"}}}
    (operation,) = cluster(host=credspec).expand(pod("host"))
    assert operation["value"] == (
        r'{"ActiveDirectoryConfig":{"HostAccountConfig":{"PluginInput":"password=\u003cpassword\u003e"}}}'
    )


def test_it_284_another_image_is_allowed_b52() -> None:
    old = pod(containers=[container("c", "web-spec", CONTENTS)])
    new = pod(containers=[{**container("c", "web-spec", CONTENTS), "image": "newer"}])
    assert authorize(new, old_pod=old).allowed


def test_it_308_339_what_an_object_is_called_does_not_count_b4() -> None:
    """v1 is what is asked for (B53); of what comes only `credspec` is read, in that spelling."""
    known = cluster()
    known.specs["web-spec"]["apiVersion"] = "windows.k8s.io/v1alpha1"
    assert known.create(pod("web-spec", CONTENTS)).allowed
    known.specs["web-spec"] = {"credSpec": CREDSPEC}
    assert known.create(pod("web-spec", CONTENTS)).code == 417


def test_it_466_random_hostnames() -> None:
    known = cluster()
    assert [each["path"] for each in known.expand(pod("web-spec"), HOSTNAMES)][-1] == "/spec/hostname"
    assert known.expand(pod(), HOSTNAMES) == []
    assert [each["path"] for each in known.expand(pod("web-spec"))] == [
        "/spec/securityContext/windowsOptions/gmsaCredentialSpec"
    ]


@each_case(
    ("options", "code"),
    [
        ((None, None), 200),
        (("web-spec", CONTENTS), 200),
        (("we_b", CONTENTS), 422),
        (("web-spec", ""), 422),
        (("web-spec", '{"a":"' + "x" * (65536 - 8) + '"}'), 422),
        (("web-spec", '{"a":"' + "x" * (65537 - 8) + '"}'), 422),
    ],
    ids=["empty", "good", "underscore", "no contents", "65536", "65537"],
)
def test_validation_test_25663_what_the_api_server_refuses_b13(
    options: tuple[str | None, str | None], code: int
) -> None:
    decision = cluster().create(pod(*options))
    assert decision.code == code
    assert ("longer than 65536 bytes" in decision.message) == (len(options[1] or "") == 65537)


def test_kuberuntime_container_windows_test_53_other_options_do_not_matter_b66() -> None:
    one = container("c", "n", "contents")
    one["securityContext"]["windowsOptions"] |= {"runAsUserName": "u", "hostProcess": True}
    assert effective_credential_specs(pod(containers=[one])) == {"c": "contents"}


def test_e2e_gmsa_kubelet_49_the_pods_and_the_containers_own() -> None:
    document = pod("acme", "acme.com", containers=[container("1"), container("2", "contoso", "contoso.org")])
    assert effective_credential_specs(document) == {"1": "acme.com", "2": "contoso.org"}


def test_every_row_of_upstream_is_here() -> None:
    """By the lines that their tests are at. What needs a server, files or an environment is tested where those are."""
    rows = """18 55 67 83 100 113 127 154 181 204 226 258 295 368 394 421 445 457 471 485 501 507 516 73 141
        51 64 77 92 115 135 153 172 191 211 241 271 284 308 339 466 25663 53 49"""
    named = {number for name in globals() if name.startswith("test_") for number in re.findall(r"\d+", name)}
    assert [row for row in rows.split() if row not in named] == []
