"""RegistryAuth against a real registry: every library, every runtime (section 9 of the rules)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kubeauth import errors
from kubeauth.registry._values import RegistryCredential
from kubeauth.testing import Answer, Authority, FakeClock
from kubeauth.testing._http import RawRequest
from tests.registry.servers import (
    Registry,
    Server,
    auth_of,
    authorization,
    basic,
    client,
    form,
    header,
    query,
)
from tests.support.clients import ClientVariant

ALICE = RegistryCredential("alice", "wonderland")
BOB = RegistryCredential("bob", "builder")
WRONG = RegistryCredential("alice", "guessed")
MANIFEST = "/v2/team/app/manifests/v1"


def test_a_401_is_answered_with_a_token_9_2_9_7(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(ALICE), headers={"User-Agent": "puller/1"}) as driver:
        response = driver.get(registry.url + MANIFEST)
    assert (response.status_code, response.json()["user"]) == (200, "alice")
    assert registry.authorizations == ["", "Bearer token-1"]
    (asked,) = registry.tokens.requests
    assert (asked.method, query(asked)) == (
        "GET", {"service": ["registry.test"], "scope": ["repository:team/app:pull"]},
    )  # fmt: skip
    assert authorization(asked) == basic("alice", "wonderland")
    assert (header(asked, "User-Agent"), header(asked, "Accept-Encoding")) == ("puller/1", "identity")


def test_the_token_is_kept_and_sent_at_once_9_2_9_11(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        for _ in range(3):
            assert driver.get(registry.url + MANIFEST).status_code == 200
        assert driver.request("HEAD", registry.url + "/v2/team/app/blobs/sha256:0").status_code == 200
    assert registry.authorizations == ["", *["Bearer token-1"] * 4]
    assert len(registry.tokens.requests) == 1


def test_another_repository_is_another_scope_9_11(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        for path in (MANIFEST, "/v2/team/other/manifests/v1", MANIFEST):
            assert driver.get(registry.url + path).status_code == 200
    assert [query(each)["scope"] for each in registry.tokens.requests] == [
        ["repository:team/app:pull"], ["repository:team/other:pull"],
    ]  # fmt: skip


def test_a_token_is_renewed_before_it_ends_9_10(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    clock = FakeClock()
    registry.lifetime = 300
    with client(variant, authority, auth_of(variant)(ALICE, clock=clock)) as driver:
        driver.get(registry.url + MANIFEST)
        clock.advance(289)
        driver.get(registry.url + MANIFEST)
        assert len(registry.tokens.requests) == 1
        clock.advance(2)
        driver.get(registry.url + MANIFEST)
    # It is known where to ask: there is no second 401.
    assert registry.authorizations == ["", "Bearer token-1", "Bearer token-1", "Bearer token-2"]


def test_tokens_are_not_shared_between_credentials_9_11(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    credentials = [ALICE]
    with client(variant, authority, auth_of(variant)(lambda _image: credentials)) as driver:
        assert driver.get(registry.url + MANIFEST).json()["user"] == "alice"
        credentials[:] = [BOB]
        assert driver.get(registry.url + MANIFEST).json()["user"] == "bob"
        credentials[:] = [ALICE]
        assert driver.get(registry.url + MANIFEST).json()["user"] == "alice"
    assert len(registry.tokens.requests) == 2


def test_nobody_asks_as_nobody_9_7(variant: ClientVariant, authority: Authority, registry: Registry) -> None:
    """No credentials, and an empty one as acr-credential-provider gives it (10.2): no Authorization at all."""
    registry.gives_to_anybody = True
    several: list[Any] = [None, [], RegistryCredential(), lambda _image: []]
    for credentials in several:
        with client(variant, authority, auth_of(variant)(credentials)) as driver:
            assert driver.get(registry.url + MANIFEST).json()["user"] == "anybody"
    assert registry.tokens.authorizations == [""] * 4


def test_nobody_is_told_that_there_are_no_credentials(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(lambda _image: [])) as driver:
        with pytest.raises(errors.ChallengeError, match="There are no credentials for 127") as raised:
            driver.get(registry.url + MANIFEST)
    assert (raised.value.realm, raised.value.status_code) == (registry.realm, 401)
    assert '"wrong user or password"' in raised.value.reason


def test_basic_goes_with_every_request_9_5(variant: ClientVariant, authority: Authority) -> None:
    """As private ECR has it."""
    with Registry(authority, asks_for_basic=True, AWS="pass:wörd") as registry:
        with client(variant, authority, auth_of(variant)(RegistryCredential("AWS", "pass:wörd"))) as driver:
            for path in ("/v2/", MANIFEST, "/v2/other/tags/list"):
                assert driver.get(registry.url + path).status_code == 200
        shown = basic("AWS", "pass:wörd")
        assert registry.authorizations == ["", shown, shown, shown]
        assert registry.tokens.requests == []


def test_nobody_has_no_password_9_5(variant: ClientVariant, authority: Authority) -> None:
    """The 401 is the caller's, and is not asked for twice."""
    body = aparts if variant.is_async else parts
    with Registry(authority, asks_for_basic=True, alice="wonderland") as registry:
        with client(variant, authority, auth_of(variant)(lambda _image: [])) as driver:
            for count in (1, 2):
                assert driver.get(registry.url + MANIFEST).status_code == 401
                assert registry.authorizations == [""] * count
            assert driver.request("PUT", registry.url + MANIFEST, content=body(2)).status_code == 401
            assert registry.requests[-1].body == b"x" * 20
        with client(variant, authority, auth_of(variant)([])) as driver:
            assert driver.request("PUT", registry.url + MANIFEST, content=body(2)).status_code == 401
            assert registry.requests[-1].body == b"x" * 20


@pytest.mark.parametrize("asks_for_basic", [True, False])
def test_a_name_with_a_colon_is_refused_9_5(
    variant: ClientVariant, authority: Authority, asks_for_basic: bool
) -> None:
    with Registry(authority, asks_for_basic=asks_for_basic, alice="x:wonderland") as registry:
        auth = auth_of(variant)(RegistryCredential("alice:x", "wonderland"))
        with client(variant, authority, auth) as driver:
            with pytest.raises(errors.ChallengeError, match="its user name has a colon in it"):
                driver.get(registry.url + MANIFEST)
        assert registry.authorizations + registry.tokens.authorizations == [""]


def test_bearer_is_chosen_over_basic_9_4(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    both = {
        "WWW-Authenticate": 'Basic realm="x", Negotiate',
        "www-authenticate": registry.challenge("a:b:pull")["WWW-Authenticate"],
    }
    ours = registry.serve
    registry.respond = lambda request: (
        ours(request) if authorization(request) else Answer(401, b"", headers=both)
    )
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + "/v2/").status_code == 200
    assert registry.authorizations == ["", "Bearer token-1"]
    assert query(registry.tokens.requests[0])["scope"] == ["a:b:pull"]


@pytest.mark.parametrize(
    "challenge", ["", "Negotiate", 'Bearer service="x"', "Digest realm=x, nonce=y", '"""', "Bearer"]
)
def test_without_a_usable_challenge_the_401_is_the_callers_9_4(
    variant: ClientVariant, authority: Authority, challenge: str
) -> None:
    answer = Answer(401, {"errors": ["theirs"]}, headers={"WWW-Authenticate": challenge} if challenge else {})
    with Server(lambda _: answer, authority) as server:
        with client(variant, authority, auth_of(variant)(ALICE)) as driver:
            response = driver.get(server.url + MANIFEST)
        assert (response.status_code, response.json()) == (401, {"errors": ["theirs"]})
        assert server.authorizations == [""]


def test_a_scope_that_is_not_named_is_derived_9_6(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.names_scope = False
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + "/v2/").status_code == 200
        assert driver.get(registry.url + "/v2/_catalog").status_code == 200
        assert driver.get(registry.url + MANIFEST).status_code == 200
        assert driver.request("PUT", registry.url + MANIFEST, content=b"{}").status_code == 200
        url = f"{registry.url}/v2/team/app/blobs/uploads/?mount=sha256:0&from=library/base"
        assert driver.request("POST", url).status_code == 200
    assert [query(each).get("scope", []) for each in registry.tokens.requests] == [
        [], ["registry:catalog:*"], ["repository:team/app:pull"], ["repository:team/app:pull,push"],
        ["repository:library/base:pull", "repository:team/app:pull,push"],
    ]  # fmt: skip


def test_an_identity_token_is_exchanged_by_post_9_8_9_9(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.identity_tokens["refresh&me"] = "alice"
    for credential in (
        RegistryCredential(identity_token="refresh&me"),
        RegistryCredential("<token>", "refresh&me"),
    ):
        with client(variant, authority, auth_of(variant)(credential)) as driver:
            assert driver.get(registry.url + MANIFEST).json()["user"] == "alice"
    for asked in registry.tokens.requests:
        assert (asked.method, authorization(asked)) == ("POST", "")
        assert form(asked) == {
            "grant_type": ["refresh_token"], "service": ["registry.test"], "client_id": ["kubeauth"],
            "scope": ["repository:team/app:pull"], "refresh_token": ["refresh&me"],
        }  # fmt: skip


def test_where_there_is_no_post_it_goes_by_get_9_8(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.accepts_post = False
    registry.users["<token>"] = "refresh-me"
    with client(
        variant, authority, auth_of(variant)(RegistryCredential(identity_token="refresh-me"))
    ) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200
    assert [each.method for each in registry.tokens.requests] == ["POST", "GET"]


def test_an_identity_token_that_is_no_good_is_refused_9_8(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    old = RegistryCredential(identity_token="old")
    with client(variant, authority, auth_of(variant)([old, BOB])) as driver:
        assert driver.get(registry.url + MANIFEST).json()["user"] == "bob"
    with client(variant, authority, auth_of(variant)(old)) as driver:
        with pytest.raises(errors.ChallengeError, match='it answered 400: "no such token"'):
            driver.get(registry.url + MANIFEST)


def test_a_registry_token_is_sent_as_it_is_9_9(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.issued["ready-made"] = ("alice", ("repository:team/app:pull",))
    with client(
        variant, authority, auth_of(variant)(RegistryCredential(registry_token="ready-made"))
    ) as driver:
        assert driver.get(registry.url + MANIFEST).json()["user"] == "alice"
    assert registry.tokens.requests == []
    with client(
        variant, authority, auth_of(variant)(RegistryCredential(registry_token="two\nlines"))
    ) as driver:
        with pytest.raises(errors.ChallengeError, match="cannot be sent: it contains a line break"):
            driver.get(registry.url + MANIFEST)


def test_a_token_that_is_no_good_any_more_is_fetched_once_more_9_12(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        driver.get(registry.url + MANIFEST)
        registry.revoke()
        assert driver.get(registry.url + MANIFEST).status_code == 200
    assert registry.authorizations == ["", "Bearer token-1", "Bearer token-1", "Bearer token-2"]


def test_a_token_that_somebody_else_fetched_may_be_over_too_9_12(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """It was there when the first one was refused. How old it was nobody knows: one of our own is fetched."""
    auth = auth_of(variant)(ALICE)
    ours = registry.serve

    def meanwhile(request: RawRequest) -> Answer:
        if authorization(request) == "Bearer token-1" and not registry.issued:
            registry.respond = ours
            with client(variant, authority, auth) as somebody_else:
                assert somebody_else.get(registry.url + MANIFEST).status_code == 200
            registry.revoke()
        return ours(request)

    with client(variant, authority, auth) as driver:
        driver.get(registry.url + MANIFEST)
        registry.revoke()
        registry.respond = meanwhile
        assert driver.get(registry.url + MANIFEST).status_code == 200
    assert registry.authorizations[2:] == [
        "Bearer token-1", "Bearer token-1", "Bearer token-2", "Bearer token-2", "Bearer token-3",
    ]  # fmt: skip


def test_more_scope_is_asked_for_once_9_12(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """The token is good for what was asked: the union of what it had and what is missing."""
    ours = registry.serve
    registry.respond = lambda request: ours(
        RawRequest(request.method, "/v2/secret/base/manifests/v1", request.headers, b"", None, None, 0)
        if authorization(request) and len(registry.requests) > 1
        else request
    )
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200
        assert driver.get(registry.url + MANIFEST).status_code == 200
    assert [query(each)["scope"] for each in registry.tokens.requests] == [
        ["repository:team/app:pull"], ["repository:secret/base:pull", "repository:team/app:pull"],
    ]  # fmt: skip


def test_a_registry_that_is_never_content_is_asked_a_few_times_9_12(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """A 401 each time, with another scope each time."""

    def greedy(_: RawRequest) -> Answer:
        return Answer(
            401,
            {"n": len(registry.requests)},
            headers=registry.challenge(f"repository:r{len(registry.requests)}:pull"),
        )

    registry.respond = greedy
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        response = driver.get(registry.url + MANIFEST)
    assert response.status_code == 401
    assert len(registry.requests) == response.json()["n"] == 3  # as nobody, with a token, and with more scope
    assert len(registry.tokens.requests) == 2


def test_credentials_are_tried_in_order_5_11_9_13(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.denied.add("alice")
    with client(variant, authority, auth_of(variant)([WRONG, ALICE, BOB])) as driver:
        assert driver.get(registry.url + MANIFEST).json()["user"] == "bob"
        assert registry.tokens.authorizations == [
            basic(each.username, each.password) for each in (WRONG, ALICE, BOB)
        ]
        # Who was welcome is asked first from then on: a wrong password is not tried again and again.
        assert driver.get(registry.url + MANIFEST).json()["user"] == "bob"
    assert len(registry.tokens.requests) == 3
    # A 403 is no reason to ask for the same token again.
    assert registry.authorizations == ["", "Bearer token-1", "Bearer token-2", "Bearer token-2"]


def test_the_last_answer_is_the_callers_5_11(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.denied |= {"alice", "bob"}
    with client(variant, authority, auth_of(variant)([ALICE, BOB])) as driver:
        response = driver.get(registry.url + MANIFEST)
        assert (response.status_code, response.json()["user"]) == (403, "bob")
        with driver.stream("GET", registry.url + MANIFEST) as stream:
            assert "bob" in stream.line()


def test_all_refused_is_an_error_5_11(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    also_wrong = RegistryCredential("mallory", "guessed")
    with client(variant, authority, auth_of(variant)([WRONG, also_wrong, WRONG])) as driver:
        with pytest.raises(errors.ChallengeError, match="2 credentials were tried") as raised:
            driver.get(registry.url + MANIFEST)
    assert (raised.value.status_code, raised.value.realm) == (401, registry.realm)
    assert len(registry.tokens.requests) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_endpoint_that_has_no_time_burns_no_credential_9_13(
    variant: ClientVariant, authority: Authority, registry: Registry, status: int
) -> None:
    registry.tokens.respond = lambda _: Answer(status, {"details": "too many"})
    told: list[RegistryCredential] = []
    source = Remembering([ALICE, BOB], told)
    with client(variant, authority, auth_of(variant)(source)) as driver:
        with pytest.raises(errors.ChallengeError, match="try again later") as raised:
            driver.get(registry.url + MANIFEST)
        assert raised.value.status_code == status
        assert (len(registry.tokens.requests), told) == (1, [])
        registry.tokens.respond = registry.issue
        assert driver.get(registry.url + MANIFEST).json()["user"] == "alice"


class Remembering:
    """A source that is told what was refused."""

    def __init__(self, credentials: list[RegistryCredential], told: list[RegistryCredential]) -> None:
        self.given = credentials
        self.told = told
        self.taken: list[tuple[str, RegistryCredential]] = []
        self.newer: list[RegistryCredential] | None = None
        self.images: list[str] = []

    def credentials(self, image: str) -> Sequence[RegistryCredential]:
        self.images.append(image)
        return self.given

    async def acredentials(self, image: str) -> Sequence[RegistryCredential]:
        return self.credentials(image)

    def refused(self, image: str, credential: RegistryCredential) -> None:
        self.told.append(credential)
        self.given = self.newer or self.given

    def accepted(self, image: str, credential: RegistryCredential) -> None:
        self.taken.append((image, credential))


@pytest.mark.parametrize("asks_for_basic", [True, False])
@pytest.mark.parametrize("by_method", [True, False])
def test_a_password_that_was_replaced_is_asked_for_again(
    variant: ClientVariant, authority: Authority, asks_for_basic: bool, by_method: bool
) -> None:
    with Registry(authority, asks_for_basic=asks_for_basic, alice="new") as registry:
        source = Remembering([RegistryCredential("alice", "old")], [])
        source.newer = [RegistryCredential("alice", "new")]
        auth = auth_of(variant)(source.credentials if by_method else source)
        with client(variant, authority, auth) as driver:
            assert driver.get(registry.url + MANIFEST).status_code == 200
            assert driver.get(registry.url + MANIFEST).status_code == 200
        assert source.told == [RegistryCredential("alice", "old")]
        # Once, not for each request.
        assert source.taken == [(f"{registry.host}/team/app", RegistryCredential("alice", "new"))]
        assert source.images == [f"{registry.host}/team/app"] * 3


def test_a_source_with_nothing_newer_is_asked_twice(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    source = Remembering([WRONG], [])
    with client(variant, authority, auth_of(variant)(source)) as driver:
        with pytest.raises(errors.ChallengeError):
            driver.get(registry.url + MANIFEST)
    assert (len(source.images), len(registry.tokens.requests), source.told) == (2, 1, [WRONG])
    assert source.taken == []


def test_a_denied_credential_is_not_called_stale_9_13(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.denied.add("alice")
    source = Remembering([ALICE], [])
    with client(variant, authority, auth_of(variant)(source)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 403
    assert (source.images, source.told) == ([f"{registry.host}/team/app"], [])


def test_async_lookups_are_for_async_clients(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    async def look_up(_image: str) -> list[RegistryCredential]:
        return [BOB]

    with client(variant, authority, auth_of(variant)(acredentials=look_up)) as driver:
        if variant.is_async:
            assert driver.get(registry.url + MANIFEST).json()["user"] == "bob"
        else:
            with pytest.raises(errors.ConfigError, match="this client is not async"):
                driver.get(registry.url + MANIFEST)


def test_what_the_caller_has_signed_is_left_alone(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        response = driver.get(registry.url + MANIFEST, headers={"authorization": "Bearer mine"})
    assert response.status_code == 401
    assert registry.authorizations == ["Bearer mine"]
    assert registry.tokens.requests == []


def test_v2_alone_decides_nothing_9_14(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    ours = registry.serve
    registry.respond = lambda request: Answer(200, {}) if request.path == "/v2/" else ours(request)
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + "/v2/").status_code == 200
        assert driver.get(registry.url + MANIFEST).status_code == 200


def test_a_registry_that_changes_its_mind_is_followed(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        for asks_for_basic, way in ((False, "Bearer"), (True, "Basic"), (False, "Bearer")):
            registry.asks_for_basic = asks_for_basic
            registry.requests.clear()
            assert driver.get(registry.url + MANIFEST).status_code == 200
            assert registry.authorizations[-1].startswith(way)
            assert driver.get(registry.url + MANIFEST).status_code == 200
            assert len(registry.requests) == 3  # the last one is right at once
        with Server(registry.issue, authority) as elsewhere:
            registry.realm = f"{elsewhere.url}/token"
            registry.revoke()
            assert driver.get(registry.url + MANIFEST).status_code == 200
            assert len(elsewhere.requests) == 1


def test_a_token_endpoint_that_moves_is_found_again(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """A connection that is refused ends a request; the next one asks the registry."""
    clock = FakeClock()
    with client(variant, authority, auth_of(variant)(ALICE, clock=clock)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200
        registry.tokens.listener.close()
        clock.advance(3600)
        with pytest.raises(variant.library.ConnectError):
            driver.get(registry.url + MANIFEST)
        with Server(registry.issue, authority) as elsewhere:
            registry.realm = f"{elsewhere.url}/token"
            assert driver.get(registry.url + MANIFEST).status_code == 200


def test_connections_go_back_to_the_pool(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """With one connection in all: whatever holds on to one would wait for itself."""
    limits = variant.library.Limits(max_connections=1)
    registry.denied.add("alice")
    one = variant.library.Timeout(5)
    # Token endpoint and registry are on one server here, and there is one connection for both.
    tokens, serve = registry.issue, registry.serve
    registry.realm = f"{registry.url}/token"
    registry.respond = lambda request: (tokens if "/token" in request.path else serve)(request)
    with client(
        variant, authority, auth_of(variant)([WRONG, ALICE, BOB]), limits=limits, timeout=one
    ) as driver:
        for _ in range(3):
            assert driver.get(registry.url + MANIFEST).status_code == 200
    assert {each.connection for each in registry.requests} == {1}


def parts(count: int) -> Any:
    return (b"x" * 10 for _ in range(count))


async def aparts(count: int) -> Any:
    for part in parts(count):
        yield part


def test_a_body_that_can_be_sent_once_is_sent_when_it_is_known_how_9_18(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    body = aparts if variant.is_async else parts
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        url = registry.url + "/v2/team/app/blobs/uploads/1?digest=sha256:0"
        assert driver.request("PUT", url, content=body(3)).status_code == 200
        assert [(each.method, each.path) for each in registry.requests[:1]] == [("GET", "/v2/")]
        assert registry.requests[-1].body == b"x" * 30
        assert len(registry.requests) == 2
        # The token is no good any more: the 401 is the caller's, and the next try has another.
        registry.revoke()
        assert driver.request("PUT", url, content=body(3)).status_code == 401
        assert len(registry.requests) == 3
        assert driver.request("PUT", url, content=body(3)).status_code == 200
        registry.denied.add("alice")
        assert driver.request("PUT", url, content=body(3)).status_code == 403


def test_a_body_that_can_be_sent_once_where_nobody_asks_9_14(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """`/v2/` is open, and the upload is not: it is known for the next."""
    body = aparts if variant.is_async else parts
    ours = registry.serve
    registry.respond = lambda request: Answer(200, {}) if request.path == "/v2/" else ours(request)
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.request("PUT", registry.url + MANIFEST, content=body(1)).status_code == 401
        assert driver.request("PUT", registry.url + MANIFEST, content=body(1)).status_code == 200
        registry.respond = lambda request: Answer(200, {})
        assert (
            driver.request("PUT", registry.url + "/v2/open/manifests/1", content=body(1)).status_code == 200
        )


class Replaced:
    """Keeps a password until it is told that nobody takes it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._kept = self._now()

    def _now(self) -> RegistryCredential:
        return RegistryCredential("alice", self._registry.users["alice"])

    def lookup(self, _image: str) -> list[RegistryCredential]:
        return [self._kept]

    def refused(self, _image: str, _credential: RegistryCredential) -> None:
        self._kept = self._now()


def test_a_body_that_can_be_sent_once_and_a_password_that_was_replaced_9_5(
    variant: ClientVariant, authority: Authority
) -> None:
    body = aparts if variant.is_async else parts
    with Registry(authority, asks_for_basic=True, alice="wonderland") as registry:
        with client(variant, authority, auth_of(variant)(Replaced(registry).lookup)) as driver:
            answers = [driver.request("PUT", registry.url + MANIFEST, content=body(1))]
            registry.users["alice"] = "looking-glass"
            answers += [driver.request("PUT", registry.url + MANIFEST, content=body(1)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 401, 200, 200]


@pytest.mark.parametrize("refusal", ["a wrong password", "nobody", "a 401", "a 403"])
def test_a_body_that_can_be_sent_once_gets_to_the_last_of_several_5_11(
    variant: ClientVariant, authority: Authority, refusal: str
) -> None:
    """One with each try: what was refused is not what the next one begins with."""
    body = aparts if variant.is_async else parts
    asks_for_basic = refusal in ("a wrong password", "nobody")
    others = [RegistryCredential("bob", "b"), RegistryCredential("carol", "c")]
    if asks_for_basic:
        others = others if refusal == "a wrong password" else [RegistryCredential()]
    with Registry(authority, asks_for_basic=asks_for_basic, alice="wonderland") as registry:
        if not asks_for_basic:
            registry.users |= {"bob": "b", "carol": "c"}
        registry.denied = {"bob", "carol"}
        ours = registry.serve

        def serve(request: RawRequest) -> Answer:
            answer = ours(request)
            if answer.status == 403 and refusal == "a 401":
                return Answer(401, {}, headers=registry.challenge(more=',error="insufficient_scope"'))
            return answer

        registry.respond = serve
        with client(variant, authority, auth_of(variant)([*others, ALICE])) as driver:
            tries = len(others) + 3
            answers = [driver.request("PUT", registry.url + MANIFEST, content=body(1)) for _ in range(tries)]
            if not asks_for_basic:
                # A token that is no good any more is not the fault of who has it.
                registry.revoke()
                answers += [driver.request("PUT", registry.url + MANIFEST, content=body(1)) for _ in range(2)]
    refused = 403 if refusal == "a 403" else 401
    assert [answer.status_code for answer in answers] == [
        *[refused] * len(others), *[200] * 3, *([] if asks_for_basic else [401, 200])
    ]  # fmt: skip


def test_a_hook_may_have_read_everything(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    def read(response: Any) -> None:
        response.read()

    async def aread(response: Any) -> None:
        await response.aread()

    hooks = {"response": [aread if variant.is_async else read]}
    with client(variant, authority, auth_of(variant)(ALICE), event_hooks=hooks) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200


def test_the_registry_may_be_named(variant: ClientVariant, authority: Authority, registry: Registry) -> None:
    with Registry(authority, alice="wonderland") as other:
        with client(
            variant, authority, auth_of(variant)(lambda _image: [ALICE], registry=registry.url)
        ) as driver:
            assert driver.get(other.url + MANIFEST).status_code == 401
            assert driver.get(registry.url + MANIFEST).status_code == 200
        assert len(other.requests) == 1
    for wrong in ("127.0.0.1", "ftp://x", "https://", "https://user:secret-word@host:port", ""):
        with pytest.raises(errors.ConfigError, match=r"is not an http\(s\) URL") as raised:
            auth_of(variant)(ALICE, registry=wrong)
        assert "secret-word" not in str(raised.value)


def test_credentials_given_by_hand_are_for_the_first_registry(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with Registry(authority, alice="wonderland") as other:
        with client(variant, authority, auth_of(variant)(ALICE)) as driver:
            assert driver.get(registry.url + MANIFEST).status_code == 200
            assert driver.get(other.url + MANIFEST).status_code == 401
        assert (other.authorizations, other.tokens.requests) == ([""], [])


@pytest.mark.parametrize("given", [("alice", "wonderland"), "alice:wonderland", [ALICE, None]])
def test_what_is_no_credential_is_known_at_once_and_not_shown(variant: ClientVariant, given: Any) -> None:
    """httpx takes a tuple of two strings for a name and a password."""
    with pytest.raises(errors.ConfigError, match=r"RegistryCredential\(username, password\)") as raised:
        auth_of(variant)(given)
    assert "wonderland" not in str(raised.value)


@pytest.mark.parametrize("code", [401, 403])
def test_what_the_storage_says_is_the_callers_however_long_9_16(
    code: int, variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """It is not the registry that refuses. So nothing of it is read before the caller reads it."""
    said = b"x" * 200_000
    with Server(lambda _request: Answer(code, said), authority) as storage:
        there = Answer(307, headers={"Location": f"{storage.url}/blob"})
        answer = registry.respond
        registry.respond = lambda request: there if authorization(request) else answer(request)
        with client(variant, authority, auth_of(variant)(ALICE), follow_redirects=True) as driver:
            response = driver.get(registry.url + MANIFEST)
        assert (response.status_code, response.content) == (code, said)
        assert storage.authorizations == [""]


@pytest.mark.parametrize("asks_for_basic", [False, True])
def test_what_a_registry_says_carries_no_credential(
    asks_for_basic: bool, variant: ClientVariant, authority: Authority
) -> None:
    """Responses and errors hold their requests, which are pickled with them, after redirects too."""
    ways = {
        "/v2/team/app/there": Answer(307, headers={"Location": MANIFEST}),
        "/v2/team/app/gone": Answer(hang_up=True),
        "/v2/team/app/to-gone": Answer(307, headers={"Location": "/v2/team/app/gone"}),
    }
    kept: list[Any] = []
    with Registry(authority, asks_for_basic=asks_for_basic, alice="wonderland") as registry:
        answer = registry.respond
        registry.respond = lambda request: (
            ways[request.path] if authorization(request) and request.path in ways else answer(request)
        )
        with client(variant, authority, auth_of(variant)(ALICE)) as driver:
            for path, follow in (
                (MANIFEST, False),
                ("/v2/team/app/there", True),
                ("/v2/team/app/there", False),
            ):
                kept.append(driver.get(registry.url + path, follow_redirects=follow))
            kept.append(kept[-1].next_request)
            for path in ("/v2/team/app/gone", "/v2/team/app/to-gone"):
                with pytest.raises(variant.library.RemoteProtocolError) as caught:
                    driver.get(registry.url + path, follow_redirects=True)
                kept += [caught.value, caught.value.request]
        signed = [shown for shown in registry.authorizations if shown]
    assert [getattr(it, "status_code", None) for it in kept] == [200, 200, 307, *[None] * 5]
    assert len(signed) >= 7
    secrets = {shown.partition(" ")[2].encode() for shown in signed}
    assert not [(it, secret) for it in kept for secret in secrets if secret in pickle.dumps(it)]


def test_nor_does_an_error_of_the_token_endpoint(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    registry.tokens.respond = lambda _request: Answer(hang_up=True)
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        with pytest.raises(variant.library.RemoteProtocolError) as caught:
            driver.get(registry.url + MANIFEST)
    secret = basic("alice", "wonderland")
    assert registry.tokens.authorizations == [secret]
    assert secret.partition(" ")[2].encode() not in pickle.dumps([caught.value, caught.value.request])


def test_nor_does_a_token_that_a_hook_has_read(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """The answer of the token endpoint is in the history of the registry's, and is pickled with it."""
    read: list[str] = []

    def note(response: Any) -> None:
        response.read()
        read.append(response.text)

    async def anote(response: Any) -> None:
        await response.aread()
        read.append(response.text)

    hooks = {"response": [anote if variant.is_async else note]}
    with client(variant, authority, auth_of(variant)(ALICE), event_hooks=hooks) as driver:
        response = driver.get(registry.url + MANIFEST)
    assert response.json()["user"] == "alice"
    assert any("token-1" in text for text in read)
    assert b"token-1" not in pickle.dumps(response)


@pytest.mark.parametrize("whose", ["registry", "token endpoint"])
def test_an_answer_that_breaks_off_is_an_error_about_its_request(
    whose: str, variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """Whoever handles an error asks it for its request: without one that is a RuntimeError."""

    def broken() -> Iterator[bytes]:
        yield b"{"
        raise ConnectionError

    server = registry if whose == "registry" else registry.tokens
    status = 401 if whose == "registry" else 200
    server.respond = lambda _: Answer(status, chunks=broken(), headers=registry.challenge())
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        with pytest.raises(variant.library.RemoteProtocolError) as caught:
            driver.get(registry.url + MANIFEST)
    assert str(caught.value.request.url).startswith(server.url)
    assert "Authorization" not in caught.value.request.headers


def test_what_the_caller_has_set_is_the_callers(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        response = driver.get(registry.url + MANIFEST, headers={"Authorization": "Bearer own"})
    assert response.request.headers["Authorization"] == "Bearer own"
