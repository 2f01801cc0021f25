"""Scopes, what a token endpoint is asked, what its replies mean, and what is kept: values in, values out."""

from __future__ import annotations

import datetime
import json
import os
import threading
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from kubeauth._credentials.single_flight import Call as SharedCall
from kubeauth._secret import Secret
from kubeauth.registry import _kept
from kubeauth.registry._challenge import Challenge
from kubeauth.registry._flow import Ask, Dialogue, Fetch, Send, Wait, Wanted
from kubeauth.registry._kept import Kept, Outcome, Way
from kubeauth.registry._scopes import MAX_SCOPES, is_modest, subject_of, union
from kubeauth.registry._token import (
    Body,
    Call,
    Endpoint,
    Key,
    NotAsked,
    NoToken,
    Reply,
    Token,
    basic,
    call_by_get,
    call_for,
    endpoint_of,
    token_of,
)  # fmt: skip
from kubeauth.registry._values import RegistryCredential
from kubeauth.testing import FakeClock
from tests.support.cases import each_case

ALICE = RegistryCredential("alice", "wonderland")
ENDPOINT = Endpoint("https://auth.test/token", "registry.test")


@each_case(
    ("method", "target", "name", "scopes"),
    [
        ("GET", "/v2/", "", ()),
        ("GET", "/v2", "", ()),
        ("GET", "/", "", ()),
        ("GET", "/v2/_catalog", "", ("registry:catalog:*",)),
        ("GET", "/v2/_catalog?n=10", "", ("registry:catalog:*",)),
        ("GET", "/v2/app/manifests/latest", "app", ("repository:app:pull",)),
        ("HEAD", "/v2/a/b/c/blobs/sha256:0", "a/b/c", ("repository:a/b/c:pull",)),
        ("GET", "/v2/app/tags/list?n=5", "app", ("repository:app:pull",)),
        ("GET", "/v2/app/referrers/sha256:0", "app", ("repository:app:pull",)),
        ("PUT", "/v2/app/manifests/v1", "app", ("repository:app:pull,push",)),
        ("POST", "/v2/app/blobs/uploads/", "app", ("repository:app:pull,push",)),
        ("POST", "/v2/app/blobs/uploads", "app", ("repository:app:pull,push",)),
        ("PATCH", "/v2/app/blobs/uploads/a/b/c?_state=x", "app", ("repository:app:pull,push",)),
        ("DELETE", "/v2/app/manifests/sha256:0", "app", ("repository:app:delete,pull,push",)),
        # Words of the protocol in a name.
        ("GET", "/v2/manifests/blobs/manifests/v1", "manifests/blobs", ("repository:manifests/blobs:pull",)),
        ("GET", "/v2/a/tags/list/manifests/v1", "a/tags/list", ("repository:a/tags/list:pull",)),
        ("GET", "/v2/a%2Fb/manifests/v1", "a/b", ("repository:a/b:pull",)),
        # No names of repositories, and nothing that could say more than it should.
        ("GET", "/v2/App/manifests/v1", "", ()),
        ("GET", "/v2/a%20repository:b:pull/manifests/v1", "", ()),
        ("GET", "/v2/a,b/manifests/v1", "", ()),
        ("GET", f"/v2/{'a' * 256}/manifests/v1", "", ()),
        ("GET", "/v2/app/unknown/v1", "", ()),
        ("GET", "/v2//manifests/v1", "", ()),
        ("GET", "/v1/app/manifests/v1", "", ()),
        # To mount from another repository, that must be readable.
        ("POST", "/v2/app/blobs/uploads/?mount=sha256:0&from=lib/base", "app", ("repository:app:pull,push", "repository:lib/base:pull")),
        ("POST", "/v2/app/blobs/uploads/?mount=sha256:0&from=app", "app", ("repository:app:pull,push",)),
        ("POST", "/v2/app/blobs/uploads/?mount=sha256:0&from=B%3Apush", "app", ("repository:app:pull,push",)),
        ("POST", "/v2/app/blobs/uploads/?from=lib/base", "app", ("repository:app:pull,push",)),
        ("POST", "/v2/app/blobs/uploads/?mount=sha256:0&from=lib/base" + "&x" * 200, "app", ("repository:app:pull,push",)),
        ("GET", "/v2/app/manifests/v1?mount=sha256:0&from=lib/base", "app", ("repository:app:pull",)),
    ],
)  # fmt: skip
def test_what_a_request_is_about_9_6(method: str, target: str, name: str, scopes: tuple[str, ...]) -> None:
    subject = subject_of(method, "https", "quay.io", None, target)
    assert (subject.image, subject.scopes) == (f"quay.io/{name}", scopes)


@each_case(
    ("scheme", "host", "port", "image"),
    [
        ("https", "registry-1.docker.io", None, "docker.io/team/app"),
        ("https", "registry-1.docker.io", 5000, "registry-1.docker.io:5000/team/app"),
        ("https", "quay.io", None, "quay.io/team/app"),
        ("https", "quay.io", 8443, "quay.io:8443/team/app"),
        # Without a port it would be an image of Docker's hub, and have its password (5.7).
        ("https", "registry", None, "registry:443/team/app"),
        ("http", "localhost", None, "localhost:80/team/app"),
        ("http", "localhost", 5000, "localhost:5000/team/app"),
        ("https", "::1", 5000, "[::1]:5000/team/app"),
        ("https", "::1", None, "[::1]/team/app"),
    ],
)
def test_what_credentials_are_looked_up_by_9_1(scheme: str, host: str, port: int | None, image: str) -> None:
    assert subject_of("GET", scheme, host, port, "/v2/team/app/manifests/v1").image == image


def test_the_union_of_scopes_9_12() -> None:
    assert union(["b:x:push,pull", "aws"], ["a:h:5000/x:pull", "b:x:pull,delete", "aws"], []) == (
        "a:h:5000/x:pull", "aws", "b:x:delete,pull,push",
    )  # fmt: skip
    assert union([":", "a:"]) == (":", "a:")
    assert is_modest(("a:b:c",) * MAX_SCOPES)
    assert not is_modest(("a:b:c",) * (MAX_SCOPES + 1))
    assert not is_modest(("x" * 2000,))


@each_case(
    ("realm", "url"),
    [
        ("https://a.test/token", "https://a.test/token?service=s&scope=repository:a/b:pull&scope=x:y:*"),
        (
            "https://a.test/token?x=1",
            "https://a.test/token?x=1&service=s&scope=repository:a/b:pull&scope=x:y:*",
        ),
        ("https://a.test/token?", "https://a.test/token?service=s&scope=repository:a/b:pull&scope=x:y:*"),
        ("https://a.test", "https://a.test?service=s&scope=repository:a/b:pull&scope=x:y:*"),
    ],
)
def test_the_realm_keeps_its_query_9_7(realm: str, url: str) -> None:
    call = call_for(Endpoint(realm, "s"), ("repository:a/b:pull", "x:y:*"), RegistryCredential())
    assert call == Call(url)


def test_a_service_is_sent_as_it_is_9_7() -> None:
    call = call_for(Endpoint("https://a.test/", "x&y=z \ud800"), (), ALICE)
    assert isinstance(call, Call)
    assert parse_qs(urlsplit(call.url).query) == {"service": ["x&y=z ?"]}
    assert call_for(Endpoint("https://a.test/", ""), (), RegistryCredential()) == Call("https://a.test/")


def test_a_realm_without_its_fragment_9_6() -> None:
    registry = httpx.URL("https://r.test")
    assert endpoint_of(
        Challenge("bearer", {"realm": "https://a.test/t#x@y"}), registry, httpx.URL
    ) == Endpoint("https://a.test/t", "")
    # A user name is before the host, not in a query.
    assert endpoint_of(
        Challenge("bearer", {"realm": "https://a.test?x=a@b"}), registry, httpx.URL
    ) == Endpoint("https://a.test?x=a@b", "")


def test_what_basic_needs_9_5() -> None:
    assert basic(RegistryCredential("a", "b:c")) == Secret("Basic YTpiOmM=")
    assert basic(RegistryCredential("a")) == Secret("Basic YTo=")
    assert basic(RegistryCredential(password="p")) == Secret("Basic OnA=")
    assert basic(RegistryCredential("ä", "\ud800")) == Secret("Basic w6Q67aCA")
    assert "no credential" in str(basic(RegistryCredential()))
    assert "it is a token" in str(basic(RegistryCredential(identity_token="t")))


def test_an_identity_token_by_get_9_8() -> None:
    named = RegistryCredential("00000000-0000-0000-0000-000000000000", identity_token="t")
    assert call_by_get(ENDPOINT, (), named).authorization == basic(RegistryCredential(named.username, "t"))
    nameless = RegistryCredential("a:b", identity_token="t")
    assert call_by_get(ENDPOINT, (), nameless).authorization == basic(RegistryCredential("<token>", "t"))
    posted = call_for(Endpoint("https://a.test/", ""), (), RegistryCredential(identity_token="t\ud800"))
    assert isinstance(posted, Call)
    assert posted.form == Secret(b"grant_type=refresh_token&client_id=kubeauth&refresh_token=t%ED%A0%80")


NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def issued(seconds_ago: float) -> str:
    return (NOW - datetime.timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


@each_case(
    ("document", "seconds"),
    [
        ({}, 60),
        ({"expires_in": 300}, 300),
        ({"expires_in": 5}, 60),
        ({"expires_in": -5}, 60),
        ({"expires_in": 0}, 60),
        ({"expires_in": "300"}, 60),
        ({"expires_in": True}, 60),
        ({"expires_in": None}, 60),
        ({"expires_in": 1e300}, 365 * 86400),
        ({"expires_in": 10**400}, 60),
        ({"expires_in": 300, "issued_at": issued(0)}, 300),
        ({"expires_in": 300, "issued_at": issued(100)}, 200),
        # Far off: one of the two clocks is wrong, and the token has just come.
        ({"expires_in": 300, "issued_at": issued(290)}, 300),
        ({"expires_in": 300, "issued_at": issued(86400)}, 300),
        ({"expires_in": 300, "issued_at": issued(-100)}, 300),
        ({"expires_in": 300, "issued_at": "0001-01-01T00:00:00Z"}, 300),
        ({"expires_in": 300, "issued_at": "yesterday"}, 300),
        ({"expires_in": 300, "issued_at": 7}, 300),
    ],
)
def test_until_when_a_token_is_good_9_10(document: dict[str, object], seconds: float) -> None:
    date = NOW.timestamp()
    reply = Reply(200, True, body=Body(json.dumps({"token": "t", **document}).encode()))
    token = token_of(reply, ALICE, by_post=False, now=1000.0, date=date)
    assert isinstance(token, Token)
    assert (token.ends, token.expires) == (1000.0 + seconds - 10, date + seconds - 10)
    assert token.is_good(token.ends - 1, token.expires - 1)
    # Over when either clock says so.
    assert not token.is_good(token.ends, token.expires - 1)
    assert not token.is_good(token.ends - 1, token.expires)
    assert "t" not in repr(token.authorization).replace("Secret", "").replace("hidden", "")


def outcome(status: int, document: object, *, by_post: bool = False) -> Outcome | NotAsked:
    reply = Reply(status, True, body=Body(json.dumps(document).encode()))
    return token_of(reply, ALICE, by_post=by_post, now=0.0, date=0.0)


def test_either_name_of_a_token_9_10() -> None:
    both = {"token": "one", "access_token": "other"}
    for document, by_post, text in (
        (both, False, "one"), (both, True, "other"), ({"access_token": "x"}, False, "x"), ({"token": "x"}, True, "x"),
        ({"token": "", "access_token": "x"}, False, "x"),
    ):  # fmt: skip
        token = outcome(200, document, by_post=by_post)
        assert isinstance(token, Token)
        assert token.authorization == Secret(f"Bearer {text}")


@each_case(
    ("status", "by_post", "is_refusal", "is_passing"),
    [
        (401, False, True, False), (403, False, True, False), (400, False, False, False), (400, True, True, False),
        (401, True, True, False), (404, False, False, False), (429, False, False, True), (500, True, False, True),
        (503, False, False, True), (302, False, False, False),
    ],
)  # fmt: skip
def test_whose_fault_it_is_9_13(status: int, by_post: bool, is_refusal: bool, is_passing: bool) -> None:
    found = outcome(status, {}, by_post=by_post)
    assert isinstance(found, NoToken)
    assert (found.status, found.is_refusal, found.is_passing) == (status, is_refusal, is_passing)


@pytest.mark.parametrize("status", [404, 405])
def test_an_endpoint_without_post_9_8(status: int) -> None:
    assert outcome(status, {}, by_post=True) == NotAsked()
    assert isinstance(outcome(status, {}), NoToken)


def key(number: int) -> Key:
    return Key(ENDPOINT, (f"repository:r{number}:pull",), ALICE.digest)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kept, "MOST_KEPT", 3)
    clock = FakeClock()
    kept = Kept(clock)
    token = Token(Secret("Bearer t"), clock.monotonic() + 60, clock.time() + 60)
    for number in range(3):
        kept.land(key(number), SharedCall(), token)
    assert kept.board(key(0), None, SharedCall()) is token  # asked for last
    kept.land(key(3), SharedCall(), token)
    assert [isinstance(kept.board(key(number), None, SharedCall()), Token) for number in range(4)] == [
        True, False, True, True,
    ]  # fmt: skip


def test_a_late_refusal_does_not_evict_a_newer_token() -> None:
    clock = FakeClock()
    kept = Kept(clock)
    older, newer = (Token(Secret(f"Bearer {n}"), clock.monotonic() + 60, clock.time() + 60) for n in "12")
    kept.land(key(0), SharedCall(), newer)
    assert kept.board(key(0), older, SharedCall()) is newer
    kept.drop(key(0), older)
    assert kept.board(key(0), None, SharedCall()) is newer
    kept.drop(key(0), newer)
    own: SharedCall[Outcome] = SharedCall()
    assert kept.board(key(0), None, own) is own


def test_a_flight_that_was_given_up_does_not_end_the_one_after_it() -> None:
    kept = Kept(FakeClock())
    first: SharedCall[Outcome] = SharedCall()
    second: SharedCall[Outcome] = SharedCall()
    assert kept.board(key(0), None, first) is first
    kept.abandon(key(0), first)
    assert first.is_done
    assert kept.board(key(0), None, second) is second
    kept.abandon(key(0), first)
    assert kept.board(key(0), None, SharedCall()) is second


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_flight_that_is_late_is_replaced_once() -> None:
    """By the first that waited in vain; the others wait for that. Who has more time waits on."""
    kept = Kept(FakeClock())
    stuck, second, third = SharedCall[Outcome](), SharedCall[Outcome](), SharedCall[Outcome]()
    assert kept.board(key(0), None, stuck) is stuck
    stuck.wait(0)
    assert kept.board(key(0), None, second) is stuck
    assert kept.board(key(0), None, second, stuck) is second
    assert kept.board(key(0), None, third, stuck) is second
    assert not stuck.is_done


def test_after_two_flights_that_came_to_nothing_everybody_asks_for_themselves() -> None:
    clock = FakeClock()
    kept = Kept(clock)
    url = httpx.URL("https://r.test/v2/r0/tags/list")
    wanted = Wanted(subject_of("GET", "https", "r.test", None, url.raw_path.decode()), url, can_repeat=True)
    kept.learn(wanted.origin, wanted.subject.scopes, Way(ENDPOINT, wanted.subject.scopes))
    steps = Dialogue(kept, clock, httpx.URL, wanted).steps(is_fixed=True)
    ask = next(steps)
    assert isinstance(ask, Ask)
    ask.credentials = [ALICE]
    for _ in range(2):
        others = SharedCall[Outcome]()
        assert kept.board(key(0), None, others) is others
        assert next(steps) == Wait(others)
        kept.abandon(key(0), others)
    fetch = next(steps)
    assert isinstance(fetch, Fetch)
    fetch.reply = Reply(200, True, body=Body(b'{"token": "t"}'))
    send = next(steps)
    assert isinstance(send, Send)
    assert send.authorization == Secret("Bearer t")
    assert isinstance(kept.board(key(0), None, SharedCall()), Token)


def test_whoever_is_interrupted_may_hold_the_lock() -> None:
    """By a signal whose handler asks a registry, or by the garbage collector that ends a task."""
    kept = Kept(FakeClock())
    interruptions: list[object] = []

    class Interrupted(str):
        def __hash__(self) -> int:  # it is looked up while the lock is held
            interruptions.append(kept.board(key(0), None, SharedCall()))
            return 0

    def learn() -> None:
        kept.learn(("https", b"r.test", None), (Interrupted("repository:app:pull"),), Way(ENDPOINT))

    learning = threading.Thread(target=learn, daemon=True)
    learning.start()
    learning.join(60)
    assert not learning.is_alive()
    assert interruptions


def test_after_a_fork_nobody_waits_for_the_parents_request() -> None:
    kept = Kept(FakeClock())
    kept.board(key(0), None, SharedCall())
    kept.learn(("https", b"r.test", None), (), Way(ENDPOINT))
    with kept._mu:  # as if another thread were in the middle of it
        kept.after_fork()
    own: SharedCall[Outcome] = SharedCall()
    assert kept.board(key(0), None, own) is own
    assert own.leader_thread == threading.get_ident()
    assert kept.way(("https", b"r.test", None), ()) == Way(ENDPOINT)
