"""What a request asks for: the same to a filter and to the server, or nothing."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeauth._proxy._refusal import Refused
from kubeauth._proxy._target import Mount, Target, method_of, target_of
from tests.support.cases import each_case


@each_case(
    ("target", "path", "sent"),
    [
        (b"/", "/", b"/"),
        (b"/version", "/version", b"/version"),
        (b"/api/v1/pods/", "/api/v1/pods/", b"/api/v1/pods/"),
        (b"/api?watch=1&x=%2e%2e/..//", "/api", b"/api?watch=1&x=%2e%2e/..//"),
        (b"/api?", "/api", b"/api?"),
        (b"/%61pi/v1", "/api/v1", b"/api/v1"),
        (b"/%41PI", "/API", b"/API"),
        (b"/a%20b", "/a b", b"/a%20b"),
        (b"/system:node%3Ax", "/system:node:x", b"/system:node:x"),
        (b"/100%25", "/100%", b"/100%25"),
        (b"/%E2%82%AC", "/€", b"/%E2%82%AC"),
        (b"/%e2%82%ac", "/€", b"/%E2%82%AC"),
        (b"/a%3Fb", "/a?b", b"/a%3Fb"),
        (b"/a%23b", "/a#b", b"/a%23b"),
        (b"/...", "/...", b"/..."),
        (b"/.hidden/a..b", "/.hidden/a..b", b"/.hidden/a..b"),
        (b'/a|b"<>^`{}[]', '/a|b"<>^`{}[]', b"/a%7Cb%22%3C%3E%5E%60%7B%7D%5B%5D"),
        (b"http://localhost:8001/api?x", "/api", b"/api?x"),
        (b"HTTP://LOCALHOST:8001/api", "/api", b"/api"),
        (b"http://localhost:8001", "/", b"/"),
        (b"http://localhost:8001?x", "/", b"/?x"),
    ],
)
def test_what_is_asked_for(target: bytes, path: str, sent: bytes) -> None:
    found = target_of(target, b"localhost:8001")
    assert (found.path, found.below("")) == (path, sent)


@pytest.mark.attack(
    "proxy",
    "paths with two meanings: `..`, `//`, backslashes, escapes of escapes",
    "rejected; the path that was checked is the path that is sent",
)
@each_case(
    "target",
    [
        b"//", b"//evil/", b"/api//v1", b"/api/v1//", b"/./api", b"/api/.", b"/api/..", b"/../api", b"/a/../b",
        b"/%2e%2e/api", b"/%2E%2e/api", b"/.%2e/api", b"/a/%2e/b", b"/a%2fb", b"/a%2Fb", b"/a%252fb", b"/a%25252Fb",
        b"/%252e%252e/api", b"/%25252e%25252e/x", b"/a%5cb", b"/a\\b", b"/..\\b", b"/a%255cb", b"/a;b", b"/a%3bb",
        b"/a;/../b", b"/api/v1/namespaces/x/pods/y/exec;x=y", b"/a%00", b"/a%0d%0ab", b"/a%0A", b"/a%09", b"/a%7f",
        b"/a%2500", b"/%", b"/%4", b"/%zz", b"/a%e2%82", b"/%ff", b"/%c0%ae%c0%ae/", b"/a#b", b"/a?b#c", b"", b"*",
        b"?x", b"api", b"localhost:443", b"http://evil/api", b"http://localhost/api", b"https://localhost:8001/api",
        b"http://a@localhost:8001/api", b"http:///api", b"ftp://localhost:8001/api", b"http:/api",
    ],
)  # fmt: skip
def test_what_could_be_taken_in_two_ways_is_refused(target: bytes) -> None:
    with pytest.raises(Refused) as refused:
        target_of(target, b"localhost:8001")
    assert refused.value.code == 400


def test_a_path_has_an_end() -> None:
    """An expression may take the square of its length, and there is one thread for everybody."""
    assert target_of(b"/" + b"x" * 4095, b"x").path == "/" + "x" * 4095
    with pytest.raises(Refused) as refused:
        target_of(b"/" + b"x" * 4096, b"x")
    assert refused.value.code == 414
    assert target_of(b"/?" + b"x" * 50_000, b"x").path == "/"


@pytest.mark.attack(
    "proxy",
    "paths with two meanings: `..`, `//`, backslashes, escapes of escapes",
    "rejected; the path that was checked is the path that is sent",
)
@pytest.mark.parametrize("times", [3, 1000])
def test_there_is_an_end_to_escapes(times: int) -> None:
    target_of(b"/%" + b"25" * 2 + b"41", b"x")
    with pytest.raises(Refused, match="escapes of escapes"):
        target_of(b"/%" + b"25" * times + b"41", b"x")


def test_a_url_without_a_host_header_is_refused() -> None:
    with pytest.raises(Refused):
        target_of(b"http://localhost/api", None)


@pytest.mark.attack(
    "proxy",
    "paths with two meanings: `..`, `//`, backslashes, escapes of escapes",
    "rejected; the path that was checked is the path that is sent",
)
@given(st.text(st.sampled_from("ab/.%2eEfF5cC;\\?#0"), max_size=12))
def test_what_is_sent_means_what_was_looked_at(text: str) -> None:
    """The server decodes once: it finds the path that the filter saw. And no reading of it has more parts."""
    try:
        found = target_of(b"/" + text.encode(), b"x")
    except Refused:
        return
    path = found.below("").decode().partition("?")[0]
    assert unquote(path) == found.path
    twice = unquote(found.path)
    for read in (found.path, twice):
        assert not re.search(r"//|/\.{1,2}(/|$)|[\\;\x00]", read)
    assert path.count("/") == found.path.count("/") == twice.count("/")


def test_what_nobody_looks_at_goes_as_it_came() -> None:
    found = target_of(b"/a%2fb//c/../%zz?q", b"x", decoded=False)
    assert found.below("/k8s/clusters/1/") == b"/k8s/clusters/1/a%2fb//c/../%zz?q"


@each_case("method", [b"GET", b"POST", b"M-SEARCH", b"OPTIONS"])
def test_methods(method: bytes) -> None:
    assert method_of(method) == method.decode()


@each_case(
    ("method", "code"), [(b"CONNECT", 405), (b"get", 400), (b"Post", 400), (b"G3T", 400), (b"\xff", 400)]
)
def test_methods_that_are_not_passed_on(method: bytes, code: int) -> None:
    """httpx would make capitals of small letters, behind the back of --reject-methods."""
    with pytest.raises(Refused) as refused:
        method_of(method)
    assert refused.value.code == code


@each_case(
    ("prefix", "path", "found"),
    [
        ("/", "/api/v1", "/api/v1"),
        ("", "/api/v1", "/api/v1"),
        ("/custom/", "/custom/api/v1", "/api/v1"),
        ("custom", "/custom/api/v1", "/api/v1"),
        ("/a/b", "/a/b/", "/"),
        ("/api/", "/api/v1", "/api/v1"),  # as kubectl: a part of the API, and not another place for it
        ("/api-of-mine", "/api-of-mine/v1", "/api-of-mine/v1"),
    ],
)
def test_a_prefix(prefix: str, path: str, found: str) -> None:
    stripped = Mount.at(prefix).strip(Target(path, None))
    assert stripped.path == found
    raw = Mount.at(prefix).strip(Target(path, b"q", path.encode()))
    assert raw.below("") == found.encode() + b"?q"


@each_case("path", ["/", "/api", "/customs/api", "/custom"])
def test_what_is_not_below_the_prefix(path: str) -> None:
    with pytest.raises(Refused) as refused:
        Mount.at("/custom").strip(Target(path, None))
    assert refused.value.code == 404
