"""Registries and token endpoints that are up to no good, or just odd: nothing leaks, everything ends (9.15-9.18)."""

from __future__ import annotations

import gzip
import itertools
import json
import logging
import pickle
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubeauth import errors
from kubeauth.registry._token import MAX_REPLY
from kubeauth.registry._values import RegistryCredential
from kubeauth.testing import Answer, Authority
from kubeauth.testing._http import RawRequest
from tests.registry.servers import Registry, Server, auth_of, authorization, basic, client
from tests.support.clients import VARIANTS, ClientVariant
from tests.support.frames import package_locals

PASSWORD = "sentinel-of-alice"
ALICE = RegistryCredential("alice", PASSWORD)
MANIFEST = "/v2/team/app/manifests/v1"


@pytest.fixture
def registry(authority: Authority) -> Iterator[Registry]:
    with Registry(authority, alice=PASSWORD) as it:
        yield it


def challenged(realm: str) -> Callable[[RawRequest], Answer]:
    return lambda _: Answer(401, {}, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="s"'})


@pytest.mark.attack(
    "RegistryAuth",
    "a challenge with an unsafe realm: http, a user name, backslashes, no host",
    "no request, and no credential, is sent there",
)
@pytest.mark.parametrize(
    ("realm", "why"),
    [
        ("http://127.0.0.1:{port}/token", "the registry is https"),
        ("https://mallory:pw-of-mallory@127.0.0.1:{port}/token", "has a user name in it"),
        ("https://@127.0.0.1:{port}/token", "has a user name in it"),
        ("//127.0.0.1:{port}/token", "not an absolute http or https URL"),
        ("/token", "not an absolute http or https URL"),
        ("ftp://127.0.0.1:{port}/token", "not an absolute http or https URL"),
        ("https:///token", "not an absolute http or https URL"),
        ("https://127.0.0.1:{port}/to ken", "not an absolute http or https URL"),
        ("https://127.0.0.1:{port}\\\\@evil/", "not an absolute http or https URL"),
        ("https://127.0.0.1:port/", "not an absolute http or https URL"),
        ("https://127.0.0.1:99999/token", "not an absolute http or https URL"),
        ("https://127.0.0.1:-1/token", "not an absolute http or https URL"),
        (f"https://127.0.0.1:{'9' * 30}/token", "not an absolute http or https URL"),
        ("https://registry..test/token", "not an absolute http or https URL"),
        ("https://.test/token", "not an absolute http or https URL"),
        (f"https://{'a' * 64}.test/token", "not an absolute http or https URL"),
        ("the registry", "not an absolute http or https URL"),
    ],
)  # fmt: skip
def test_an_unsafe_realm_is_not_asked_9_6_9_15(
    variant: ClientVariant, authority: Authority, realm: str, why: str
) -> None:
    with Server(lambda _: Answer(200, {"token": "t"})) as plain:
        with Server(challenged(realm.format(port=plain.listener.port)), authority) as server:
            with client(variant, authority, auth_of(variant)(ALICE)) as driver:
                with pytest.raises(errors.ChallengeError, match=why) as raised:
                    driver.get(server.url + MANIFEST)
            assert len(server.requests) == 1
        assert plain.requests == []
    assert "pw-of-mallory" not in str(raised.value) + raised.value.realm


def test_a_realm_on_another_host_is_asked_9_15(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """That is how Docker's hub has it. The registry was asked over TLS, and says whom it trusts."""
    registry.realm = registry.realm.replace("127.0.0.1", "localhost")
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200
    assert registry.tokens.authorizations == [basic("alice", PASSWORD)]


def test_a_plain_registry_may_have_a_plain_realm_on_its_own_host_9_15(
    variant: ClientVariant, authority: Authority
) -> None:
    with Registry(alice=PASSWORD) as registry:
        for host in ("127.0.0.1", "localhost"):  # both are this machine
            registry.realm = f"http://{host}:{registry.tokens.listener.port}/token"
            with client(variant, authority, auth_of(variant)(ALICE)) as driver:
                assert driver.get(registry.url + MANIFEST).status_code == 200
        asked = len(registry.tokens.requests)
        for host in ("192.0.2.1", "registry.invalid"):
            registry.realm = f"http://{host}/token"
            with client(variant, authority, auth_of(variant)(ALICE)) as driver:
                with pytest.raises(errors.ChallengeError, match="http on another host"):
                    driver.get(registry.url + MANIFEST)
        assert len(registry.tokens.requests) == asked


def test_a_plain_registry_may_have_a_safe_realm_9_15(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    with Server(registry.serve) as plain:
        with client(variant, authority, auth_of(variant)(ALICE)) as driver:
            assert driver.get(plain.url + MANIFEST).status_code == 200


@pytest.mark.attack(
    "RegistryAuth",
    "challenges, rejections and redirects from another host",
    "no credential is sent there, and none is dropped because of it",
)
def test_a_challenge_from_elsewhere_is_not_believed_9_16(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """The registry redirects, and whoever is there asks for a password."""
    with Server(challenged(registry.realm), authority) as elsewhere:
        registry.respond = lambda _: Answer(307, {}, headers={"Location": elsewhere.url + "/blob"})
        with client(variant, authority, auth_of(variant)(ALICE), follow_redirects=True) as driver:
            response = driver.get(registry.url + MANIFEST)
        assert (response.status_code, elsewhere.authorizations) == (401, [""])
    assert registry.tokens.requests == []


@pytest.mark.attack(
    "RegistryAuth",
    "challenges, rejections and redirects from another host",
    "no credential is sent there, and none is dropped because of it",
)
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_from_elsewhere_burns_no_credential_9_16(
    variant: ClientVariant, authority: Authority, registry: Registry, status: int
) -> None:
    ours = registry.serve
    with Server(lambda _: Answer(status, {"theirs": "expired"}), authority) as storage:

        def serve(request: RawRequest) -> Answer:
            answer = ours(request)
            there = {"Location": storage.url + "/blob"}
            return Answer(307, {}, headers=there) if answer.status == 200 else answer

        registry.respond = serve
        bob = RegistryCredential("bob", "x")
        with client(variant, authority, auth_of(variant)([ALICE, bob]), follow_redirects=True) as driver:
            response = driver.get(registry.url + "/v2/team/app/blobs/sha256:0")
        assert (response.status_code, response.json()) == (status, {"theirs": "expired"})
    assert len(registry.tokens.requests) == 1


@pytest.mark.attack(
    "RegistryAuth",
    "challenges, rejections and redirects from another host",
    "no credential is sent there, and none is dropped because of it",
)
def test_storage_never_sees_the_token_9_15_9_17(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """The registry sends who may have a blob to somebody else's storage, on another port of the same host."""
    ours = registry.serve
    with (
        Server(lambda _: Answer(200, b"blob"), authority) as storage,
        Server(lambda _: Answer(200, b"b")) as plain,
    ):
        for there in (storage, plain):
            registry.respond = lambda request, there=there: (  # type: ignore[misc]
                Answer(307, {}, headers={"Location": there.url + "/blob"})
                if (answer := ours(request)).status == 200
                else answer
            )
            with client(variant, authority, auth_of(variant)(ALICE), follow_redirects=True) as driver:
                for _ in range(2):  # signed after a 401, and at once
                    assert driver.get(registry.url + "/v2/team/app/blobs/sha256:0").status_code == 200
            assert there.authorizations == ["", ""]


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if not variant.is_async], ids=str)
def test_a_token_follows_to_https_on_the_same_host_9_17(variant: ClientVariant) -> None:
    """As both libraries have it, from port 80 to port 443. What is asked for there is not believed."""
    seen = []

    def answer(request: Any) -> Any:
        seen.append((str(request.url), request.headers.get("Authorization", "")))
        if request.url.path == "/token":
            return variant.library.Response(200, json={"token": "t"})
        if request.url.scheme == "https":
            return variant.library.Response(
                401, headers={"WWW-Authenticate": 'Bearer realm="https://evil.test/"'}
            )
        if "Authorization" not in request.headers:
            return variant.library.Response(
                401, headers={"WWW-Authenticate": 'Bearer realm="http://reg.test/token"'}
            )
        return variant.library.Response(307, headers={"Location": f"https://reg.test{MANIFEST}"})

    auth, transport = auth_of(variant)(ALICE), variant.library.MockTransport(answer)
    with variant.library.Client(auth=auth, transport=transport, follow_redirects=True) as it:
        assert it.get(f"http://reg.test{MANIFEST}").status_code == 401
    assert seen[-1] == (f"https://reg.test{MANIFEST}", "Bearer t")
    assert all("evil" not in url for url, _ in seen)


@pytest.mark.attack(
    "RegistryAuth",
    "challenges, rejections and redirects from another host",
    "no credential is sent there, and none is dropped because of it",
)
@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_endpoint_that_redirects_gets_nobody_a_password_9_15(
    variant: ClientVariant, authority: Authority, registry: Registry, follow: bool, status: int
) -> None:
    with Server(lambda _: Answer(200, {"token": "theirs", "access_token": "theirs"}), authority) as elsewhere:
        registry.tokens.respond = lambda _: Answer(status, {}, headers={"Location": elsewhere.url + "/token"})
        for credential in (ALICE, RegistryCredential(identity_token=PASSWORD)):
            with client(variant, authority, auth_of(variant)(credential), follow_redirects=follow) as driver:
                with pytest.raises(errors.ChallengeError, match=r"redirects|it answered 30"):
                    driver.get(registry.url + MANIFEST)
        for request in elsewhere.requests:
            assert (authorization(request), request.body) == ("", b"")
    assert registry.authorizations == ["", ""]


def test_a_token_endpoint_may_redirect_to_itself(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    ours = registry.issue
    registry.tokens.respond = lambda request: (
        ours(request)
        if request.path.startswith("/v2/token")
        else Answer(307, {}, headers={"Location": "/v2" + request.path})
    )
    with client(variant, authority, auth_of(variant)(ALICE), follow_redirects=True) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200


def endless() -> Iterator[bytes]:
    return itertools.repeat(b'{"token": "' + b"x" * 65536)


# trio warns of whoever stops reading in the middle, and httpx has no other way to.
IGNORE_TRIO = pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")


@pytest.mark.attack(
    "RegistryAuth",
    "token replies that are malformed, endless, compressed, or hold a line break",
    "a ChallengeError that names the reason; at most 1 MiB is read",
)
@IGNORE_TRIO
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(200, {"token": "evil\r\nX-Injected: 1"}), "its token cannot be sent: it contains a line break"),
        (Answer(200, {"token": "tökén"}), "not ASCII"),
        (Answer(200, {"token": " t "}), "starts or ends with white space"),
        (Answer(200, {"token": "", "access_token": ""}), "there is no token in its reply"),
        (Answer(200, {"token": 7, "access_token": None}), "there is no token in its reply"),
        (Answer(200, ["token"]), "not a JSON object"),
        (Answer(200, b"<html>log in"), "not a JSON object"),
        (Answer(200, b"[" * 100_000), "not a JSON object"),
        (Answer(200, b"\xff"), "not a JSON object"),
        (Answer(200, b'{"token": "' + b"x" * MAX_REPLY + b'"}'), "longer than 1,048,576 bytes"),
        (Answer(200, b"", chunks=endless()), "longer than 1,048,576 bytes"),
        (Answer(503, b"", chunks=endless()), "it answered 503."),
        (Answer(200, gzip.compress(b'{"token": "t"}'), headers={"Content-Encoding": "gzip"}), "compressed"),
        (Answer(204, b""), "not a JSON object"),
        (Answer(404, {"errors": [{"message": "no \x1b[31mroute\n"}]}), r'it answered 404: "no \\u001b\[31mroute\\n"'),
        (Answer(404, {"errors": ["no"]}), "it answered 404[.]"),
        (Answer(404, {"error": "x" * 5000}), r'it answered 404: "x{200}\.\.\."\.'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_reply_that_makes_no_sense_9_10(
    variant: ClientVariant, authority: Authority, registry: Registry, answer: Answer, why: str
) -> None:
    registry.tokens.respond = lambda _: answer
    with client(variant, authority, auth_of(variant)([ALICE, RegistryCredential("bob", "x")])) as driver:
        with pytest.raises(errors.ChallengeError, match=why) as raised:
            driver.get(registry.url + MANIFEST)
    assert (raised.value.realm, raised.value.status_code) == (registry.realm, answer.status)
    assert (len(registry.tokens.requests), registry.authorizations) == (1, [""])


@pytest.mark.attack(
    "RegistryAuth", "401 or 403 to every request, with any number of credentials", "at most 15 requests"
)
def test_a_401_for_ever_ends(variant: ClientVariant, authority: Authority, registry: Registry) -> None:
    registry.respond = lambda _: Answer(401, {}, headers=registry.challenge("repository:team/app:pull"))
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 401
        assert (len(registry.requests), len(registry.tokens.requests)) == (2, 1)
        # The token that is kept, and a new one.
        assert driver.get(registry.url + MANIFEST).status_code == 401
        assert (len(registry.requests), len(registry.tokens.requests)) == (4, 2)


@pytest.mark.attack(
    "RegistryAuth", "401 or 403 to every request, with any number of credentials", "at most 15 requests"
)
@pytest.mark.parametrize("is_known", [True, False])
def test_any_number_of_credentials_costs_a_few_requests(
    variant: ClientVariant, authority: Authority, registry: Registry, is_known: bool
) -> None:
    """httpx ends a request after 20 redirects, and counts ours."""
    many = [RegistryCredential(f"user-{number}", "x") for number in range(50)]
    if is_known:
        registry.users |= {each.username: "x" for each in many}
        registry.respond = lambda _: Answer(
            403 if registry.tokens.requests else 401, {}, headers=registry.challenge()
        )
    with client(variant, authority, auth_of(variant)(lambda _image: many)) as driver:
        if is_known:
            assert driver.get(registry.url + MANIFEST).status_code == 403
        else:
            with pytest.raises(errors.ChallengeError, match="12 credentials were tried"):
                driver.get(registry.url + MANIFEST)
    assert len(registry.requests) + len(registry.tokens.requests) <= 15


@pytest.mark.attack(
    "RegistryAuth",
    "a 401 with an endless body, a compression bomb or an invalid length",
    "it is neither read to its end nor decompressed",
)
@IGNORE_TRIO
def test_a_401_without_end_is_not_read_to_its_end(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    ours = registry.serve

    def serve(request: RawRequest) -> Answer:
        answer = ours(request)
        return Answer(401, b"", headers=answer.headers, chunks=endless()) if answer.status == 401 else answer

    registry.respond = serve
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200
        registry.tokens.respond = lambda _: Answer(200, {"token": "unknown"})
        registry.revoke()
        response = driver.get(registry.url + MANIFEST)
        assert (response.status_code, response.content) == (401, b"")


@pytest.mark.attack(
    "RegistryAuth",
    "a 401 with an endless body, a compression bomb or an invalid length",
    "it is neither read to its end nor decompressed",
)
def test_a_401_that_is_a_bomb_is_not_unpacked(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    """Both libraries read a response before they send the next request, and unpack what they read."""
    ours = registry.serve
    bomb = gzip.compress(gzip.compress(bytes(2**24)))
    assert len(bomb) < 1000

    def serve(request: RawRequest) -> Answer:
        answer = ours(request)
        if answer.status == 200:
            return answer
        return Answer(401, bomb, headers={**answer.headers, "Content-Encoding": "gzip, gzip"})

    registry.respond = serve
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        response = driver.get(registry.url + MANIFEST)
    assert (response.status_code, [each.content for each in response.history]) == (200, [b"", b""])


@pytest.mark.attack(
    "RegistryAuth",
    "challenges that are too long, or that demand every scope",
    "ignored, or reduced to what the request needs",
)
@pytest.mark.parametrize("padding", ["x" * 9000, '",' * 5000])
def test_a_challenge_that_is_too_long_is_none(
    variant: ClientVariant, authority: Authority, registry: Registry, padding: str
) -> None:
    challenge = registry.challenge(more=f',more="{padding}"')
    registry.respond = lambda _: Answer(401, {}, headers=challenge)
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 401
    assert registry.tokens.requests == []


@pytest.mark.attack(
    "RegistryAuth",
    "challenges that are too long, or that demand every scope",
    "ignored, or reduced to what the request needs",
)
def test_a_registry_that_wants_every_scope_gets_what_the_request_needs(
    variant: ClientVariant, authority: Authority, registry: Registry
) -> None:
    ours = registry.serve
    many = [f"repository:r{number}:pull" for number in range(100)]
    registry.respond = lambda request: (
        Answer(401, {}, headers=registry.challenge(*many)) if not authorization(request) else ours(request)
    )
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        assert driver.get(registry.url + MANIFEST).status_code == 200
    assert registry.tokens.requests[0].path.count("scope=") == 1


@pytest.mark.attack("RegistryAuth", "secrets in errors, logs, reprs and tracebacks", "none")
def test_no_secret_is_ever_shown(
    variant: ClientVariant, authority: Authority, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever an endpoint repeats: in errors, what they hold, their pickles, and every log at DEBUG."""
    caplog.set_level(logging.DEBUG)
    spelled = basic("alice", PASSWORD).removeprefix("Basic ")
    shown: list[str] = []
    for said in (PASSWORD, spelled, f"{PASSWORD * 40}"):
        for credential in (ALICE, RegistryCredential("alice", identity_token=PASSWORD)):
            registry.tokens.respond = lambda _, said=said: Answer(  # type: ignore[misc]
                403, {"errors": [{"message": f"no: {said}"}], "error_description": said}
            )
            auth = auth_of(variant)(credential)
            with client(variant, authority, auth) as driver:
                with pytest.raises(errors.ChallengeError) as raised:
                    driver.get(registry.url + MANIFEST)
            again = pickle.loads(pickle.dumps(raised.value))
            assert (again.realm, again.status_code, again.reason) == (
                registry.realm,
                403,
                raised.value.reason,
            )
            held = list(map(str, package_locals(raised.value, "registry")))
            assert len(held) > 1
            shown += [str(again), repr(again), again.reason, repr(auth), repr(vars(auth)), *held]
    registry.tokens.respond = registry.issue
    with client(variant, authority, auth_of(variant)(ALICE)) as driver:
        response = driver.get(registry.url + MANIFEST)
    shown += [
        repr(response),
        json.dumps(repr(response.history)),
        repr([each.content for each in response.history]),
        caplog.text,
    ]
    assert [text for text in shown if PASSWORD in text or spelled in text or "token-1" in text] == []


def test_a_certificate_that_is_not_trusted_is_the_librarys_error(
    variant: ClientVariant, registry: Registry
) -> None:
    with variant.drive(
        lambda: variant.PlainClient(auth=auth_of(variant)(ALICE), verify=ssl.create_default_context())
    ) as driver:
        with pytest.raises(variant.library.ConnectError):
            driver.get(registry.url + MANIFEST)


@pytest.mark.attack(
    "RegistryAuth",
    "a 401 with an endless body, a compression bomb or an invalid length",
    "it is neither read to its end nor decompressed",
)
@pytest.mark.parametrize("length", ["²", "9" * 5000, "-1", "1_0"])
def test_a_401_with_an_invalid_length_is_not_read(variant: ClientVariant, length: str) -> None:
    """No transport of ours passes such a response on; others may."""
    challenge = {"WWW-Authenticate": 'Bearer realm="https://reg.test/token"'}

    def answer(request: Any) -> Any:
        if request.url.path == "/token":
            return variant.library.Response(200, json={"token": "t"})
        if "Authorization" in request.headers:
            return variant.library.Response(200)
        headers = [(name.encode(), value.encode()) for name, value in challenge.items()]
        headers.append((b"Content-Length", length.encode("latin-1")))
        return variant.library.Response(401, headers=headers, stream=variant.library.ByteStream(b"x"))

    auth, transport = auth_of(variant)(ALICE), variant.library.MockTransport(answer)
    with variant.library.Client(auth=auth, transport=transport) as it:
        assert it.get(f"https://reg.test{MANIFEST}").status_code == 200
