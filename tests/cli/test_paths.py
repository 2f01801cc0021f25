"""What PATH means, by its syntax."""

from __future__ import annotations

import pytest

from kubeauth.cli._ends import Failed, Status
from kubeauth.cli._paths import Target, target_of
from tests.support.cases import each_case


def url(text: str, *, all_namespaces: bool = False) -> str:
    return target_of(text, namespace="ns", all_namespaces=all_namespaces).url


@each_case(
    ("text", "expected"),
    [
        ("/", "/"),
        ("/version", "/version"),
        ("/api/v1/namespaces?limit=1&labelSelector=a%3Db", "/api/v1/namespaces?limit=1&labelSelector=a%3Db"),
        ("/a b#c", "/a%20b%23c"),
        ("/x%2Fy", "/x%2Fy"),
        ("//other.example/x", "//other.example/x"),
        ("pods", "/api/v1/namespaces/ns/pods"),
        ("pods/", "/api/v1/namespaces/ns/pods"),
        ("pods?labelSelector=a in (b,c)", "/api/v1/namespaces/ns/pods?labelSelector=a%20in%20(b,c)"),
        ("pods/web-0", "/api/v1/namespaces/ns/pods/web-0"),
        ("pods/web-0/log?follow=1", "/api/v1/namespaces/ns/pods/web-0/log?follow=1"),
        ("v1", "/api/v1"),
        ("v1/pods", "/api/v1/namespaces/ns/pods"),
        ("v1/pods/v2", "/api/v1/namespaces/ns/pods/v2"),
        ("apps/v1", "/apis/apps/v1"),
        ("apps/v1/deployments", "/apis/apps/v1/namespaces/ns/deployments"),
        ("apps/v1/deployments/web", "/apis/apps/v1/namespaces/ns/deployments/web"),
        ("example.com/v1alpha1/things/x/status", "/apis/example.com/v1alpha1/namespaces/ns/things/x/status"),
        ("example.com/v2beta1/things", "/apis/example.com/v2beta1/namespaces/ns/things"),
        ("pods/version1", "/api/v1/namespaces/ns/pods/version1"),
        ("nodes", "/api/v1/nodes"),
        ("namespaces/kube-system", "/api/v1/namespaces/kube-system"),
        ("rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("p\udcffds", "/api/v1/namespaces/ns/p%FFds"),
    ],
)  # fmt: skip
def test_a_path(text: str, expected: str) -> None:
    assert url(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pods", "/api/v1/pods"),
        ("apps/v1/deployments", "/apis/apps/v1/deployments"),
        ("example.com/v1/clusterthings/x", "/apis/example.com/v1/clusterthings/x"),
    ],
)
def test_all_namespaces_leave_it_out(text: str, expected: str) -> None:
    assert url(text, all_namespaces=True) == expected


@each_case("text", ["pods/..", "../secrets", "./pods", "pods/%2e%2E/x", "apps/v1/../v1"])
def test_dots_lead_nowhere(text: str) -> None:
    with pytest.raises(Failed, match="no path") as failed:
        url(text)
    assert failed.value.status is Status.USAGE


@each_case("namespace", ["..", ".", "a/b", "..%2f", "a/../b"])
def test_a_namespace_is_one_word(namespace: str) -> None:
    """As client-go sees it: `-n ..` would be all namespaces."""
    with pytest.raises(Failed, match="is no namespace") as failed:
        target_of("pods", namespace=namespace)
    assert failed.value.status is Status.USAGE
    assert target_of("nodes", namespace=namespace).url == "/api/v1/nodes"


def test_a_namespace_is_quoted() -> None:
    assert target_of("pods", namespace="a b").path == "/api/v1/namespaces/a%20b/pods"


@pytest.mark.parametrize("text", ["", "?limit=1", "https://other.example/api"])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(Failed, match="is no path") as failed:
        url(text)
    assert failed.value.status is Status.USAGE


def test_all_namespaces_are_for_what_has_one() -> None:
    with pytest.raises(Failed, match="-A is for a PATH that does not begin with a slash"):
        url("/api/v1/pods", all_namespaces=True)


def test_whether_the_group_was_guessed() -> None:
    guessed = {
        text: target_of(text, namespace="ns").is_guessed for text in ("pods", "v1/pods", "a/v1/b", "/b")
    }
    assert guessed == {"pods": True, "v1/pods": False, "a/v1/b": False, "/b": False}


@each_case(
    ("query", "expected"),
    [("", False), ("watch=1", True), ("a=b&watch=true", True), ("watch=0", False), ("watch=false", False), ("awatch=1", False)],
)  # fmt: skip
def test_whether_it_is_a_watch_by_itself(query: str, expected: bool) -> None:
    assert Target("/x", query).watches is expected


def test_parameters_are_added_behind_those_there_are() -> None:
    assert Target("/x").with_parameters(watch="1").url == "/x?watch=1"
    assert Target("/x", "limit=1").with_parameters(limit="2", a="b c").url == "/x?limit=1&a=b%20c"


def test_one_object_is_watched_in_its_collection() -> None:
    one = target_of("pods/web-0?x=y", namespace="ns")
    assert one.in_its_collection().url == "/api/v1/namespaces/ns/pods?x=y&fieldSelector=metadata.name%3Dweb-0"
    others = [target_of(text, namespace="ns") for text in ("pods", "/api/v1/pods/x", "pods/web-0/log")]
    assert [each.in_its_collection() for each in others] == others
