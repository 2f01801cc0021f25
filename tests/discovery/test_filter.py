"""The seed's mode, from the server's side: signed requests get signed answers, all others what they would get anyway."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import httpx
import pytest

from kubeauth.discovery import BootstrapUser, DiscoveryFilter, verify_detached
from kubeauth.discovery._filter import App, Message, Receive, Scope, Send
from kubeauth.discovery._jwt import request_jwt
from kubeauth.errors import ConfigError, DiscoveryError
from kubeauth.testing import FakeClock
from tests.discovery import second
from tests.discovery.objects import date, secret
from tests.discovery.vectors import J1, J2, S1, S1_BODY, S2, S2_BODY, SEED
from tests.support.cases import each_case
from tests.support.leaks import render_error

PATH = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
ID, KEY = SEED.split(".")
THEN = 1_500_000_000.0
SECRETS = {"bootstrap-token-ae23dc": secret(SEED)}
REFUSAL = {
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
    "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
}  # fmt: skip


class ClusterInfo:
    """An application that serves `body`, in pieces, and remembers what it was asked."""

    def __init__(
        self, *body: bytes, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        self.body = body or (S1_BODY,)
        self.status = status
        self.headers = [(b"content-type", b"application/json")] if headers is None else headers
        self.scopes: list[Scope] = []
        self.received: list[Message] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["type"] != "http":
            return
        self.received.append(await receive())
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        for number, piece in enumerate(self.body, start=1):
            await send({"type": "http.response.body", "body": piece, "more_body": number < len(self.body)})

    @property
    def asked(self) -> dict[bytes, bytes]:
        """The headers of the one request."""
        (scope,) = self.scopes
        return dict(scope["headers"])


def run(work: Callable[[], Awaitable[Any]], backend: str = "asyncio") -> Any:
    return anyio.run(work, backend=backend)


def filtered(
    app: App, secrets: Mapping[str, Any] = SECRETS, now: float = THEN, **options: Any
) -> DiscoveryFilter:
    return DiscoveryFilter(app, secrets.get, clock=FakeClock(now), **options)


def get(
    app: Any,
    jwt: str | None = J1,
    *,
    path: str = PATH,
    method: str = "GET",
    backend: str = "asyncio",
    **headers: str,
) -> httpx.Response:
    """What a client gets through a real ASGI transport."""

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if jwt is not None:
            sent["Authorization"] = f"Bearer {jwt}"
        async with httpx.AsyncClient(transport=transport, base_url="https://cluster") as client:
            return await client.request(method, path, headers=sent)

    found: httpx.Response = run(main, backend)
    return found


# trio warns of whoever stops reading in the middle, as the transport of httpx does with what is asked.
@pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")
@each_case("backend", ["asyncio", "trio"])
@each_case(("body", "jws"), [(S1_BODY, S1), (S2_BODY, S2)], ids=["S1", "S2"])
def test_a_signed_request_gets_a_signed_answer_a77_a80_a81(body: bytes, jws: str, backend: str) -> None:
    app = ClusterInfo(body)
    response = get(filtered(app), backend=backend)
    assert (response.status_code, response.content) == (200, body)
    assert response.headers.get_list("X-Kubernetes-JWS") == [jws]
    assert verify_detached(response.content, response.headers["X-Kubernetes-JWS"], SEED)
    (scope,) = app.scopes
    assert scope["kubeauth.bootstrap_user"] == BootstrapUser(
        "system:bootstrap:ae23dc", ("system:bootstrappers",)
    )


def test_a_client_and_the_filter_agree_a76_a78_a80() -> None:
    """As they are used: by the clock of this computer."""
    jwt = request_jwt(SEED, now=time.time(), audience="cluster-1").reveal()

    async def lookup(name: str) -> Mapping[str, object] | None:
        return SECRETS.get(name)

    response = get(DiscoveryFilter(ClusterInfo(), lookup, cluster_id="cluster-1"), jwt)
    assert verify_detached(response.content, response.headers["X-Kubernetes-JWS"], SEED)


def test_the_application_sees_neither_jwt_nor_encodings_a81() -> None:
    app = ClusterInfo()
    get(filtered(app), accept="application/json", accept_encoding="gzip")
    asked = app.asked
    assert asked[b"accept"] == b"application/json"
    assert b"accept-encoding" not in asked
    assert b"authorization" not in asked


@each_case(
    ("body", "headers"),
    [
        ((S1_BODY[:7], S1_BODY[7:]), [(b"Content-Length", b"132")]),
        ((b"", S1_BODY, b""), [(b"Transfer-Encoding", b"chunked")]),
        (tuple(bytes([byte]) for byte in S1_BODY), []),
        ((S1_BODY,), [(b"Content-Length", b"7")]),
        (
            (S1_BODY,),
            [(b"X-Kubernetes-JWS", b"forged"), (b"x-kubernetes-jws", b"forged"), (b"X-Other", b"kept")],
        ),
    ],
    ids=["two", "empty ones", "bytes", "wrong length", "headers of its own"],
)
def test_what_comes_in_pieces_is_joined_and_signed_once_a80_a81(
    body: tuple[bytes, ...], headers: Any
) -> None:
    response = get(filtered(ClusterInfo(*body, headers=headers)))
    assert response.content == S1_BODY
    assert response.headers.get_list("x-kubernetes-jws") == [S1]
    assert response.headers.get_list("content-length") == ["132"]
    assert "transfer-encoding" not in response.headers
    assert response.headers.get("x-other") == ("kept" if len(headers) == 3 else None)


@each_case("status", [204, 304, 404, 500])
def test_what_is_not_the_configmap_is_not_signed_a80(status: int) -> None:
    body = b"" if status in (204, 304) else b"error"
    response = get(filtered(ClusterInfo(body, status=status, headers=[(b"X-Kubernetes-JWS", b"forged")])))
    assert (response.status_code, response.content) == (status, body)
    assert "x-kubernetes-jws" not in response.headers


def test_a_head_has_no_body_and_no_signature_a80() -> None:
    response = get(filtered(ClusterInfo(b"", headers=[(b"content-length", b"132")])), method="HEAD")
    assert (response.status_code, response.headers["content-length"]) == (200, "132")
    assert "x-kubernetes-jws" not in response.headers
    refused = get(filtered(ClusterInfo()), J2, method="HEAD")
    assert (refused.status_code, refused.content) == (401, b"")


OURS = {"alg": "HS256", "kid": ID, "typ": "JWT"}
CLAIMS = {"sub": ID, "exp": THEN + 60}


@each_case(
    ("jwt", "secrets"),
    [
        pytest.param(second.jwt({**OURS, "typ": "x"}, CLAIMS, KEY), SECRETS, id="typ"),
        pytest.param(second.jwt({**OURS, "crit": []}, CLAIMS, KEY), SECRETS, id="crit"),
        pytest.param(second.jwt({**OURS, "kid": "../x"}, CLAIMS, KEY), SECRETS, id="kid"),
        pytest.param(J2, SECRETS, id="unknown"),
        pytest.param(J1, {}, id="nobody"),
        pytest.param(J1[:-4] + "AAAA", SECRETS, id="signature"),
        pytest.param(second.jwt(OURS, CLAIMS, "0" * 16), {}, id="the key that stands in"),
        pytest.param(second.jwt(OURS, {**CLAIMS, "exp": THEN}, KEY), SECRETS, id="over"),
        pytest.param(second.jwt(OURS, {**CLAIMS, "exp": THEN + 121}, KEY), SECRETS, id="too long"),
        pytest.param(second.jwt(OURS, {**CLAIMS, "sub": "abcdef"}, KEY), SECRETS, id="sub"),
        pytest.param(second.jwt(OURS, {**CLAIMS, "aud": "other"}, KEY), SECRETS, id="aud"),
        pytest.param(second.jwt(OURS, {**CLAIMS, "iat": THEN + 6}, KEY), SECRETS, id="iat"),
        *[
            pytest.param(J1, {"bootstrap-token-ae23dc": secret(SEED, **changes)}, id=f"secret: {changes}")
            for changes in (
                {"usage_bootstrap_authentication": None}, {"expiration": date(THEN)}, {"Deleted": True},
                {"Type": "Opaque"}, {"token_id": "abcdef"}, {"Namespace": "default"}, {"auth_extra_groups": "foo"},
            )
        ],
        pytest.param(second.jwt(OURS, CLAIMS, ""), {"bootstrap-token-ae23dc": secret(f"{ID}.")}, id="empty secret"),
        pytest.param(second.jwt(OURS, CLAIMS, "pw"), {"bootstrap-token-ae23dc": secret(f"{ID}.pw")}, id="no token's form"),
    ],
)  # fmt: skip
def test_every_jwt_that_is_no_good_is_refused_alike_a77_a78_a79_a85_a86(
    jwt: str, secrets: Mapping[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = ClusterInfo()
    response = get(filtered(app, secrets, cluster_id="cluster-1", skew=5), jwt)
    assert (response.status_code, response.json()) == (401, REFUSAL)
    assert dict(response.headers) == {
        "content-type": "application/json",
        "content-length": str(len(response.content)),
    }
    assert app.scopes == []
    # The log says why, and shows neither secret nor JWT (A92).
    (said,) = [record.getMessage() for record in caplog.records if record.name == "kubeauth.discovery"]
    assert said.startswith("a request for cluster-info is refused: ")
    assert KEY not in caplog.text
    assert not any(part in caplog.text for part in jwt.split("."))


@each_case(
    ("jwt", "options"),
    [
        (None, {}),
        (SEED, {}),
        ("a.b.c", {}),
        (second.jwt({**OURS, "alg": "none"}, CLAIMS, KEY), {}),
        (second.jwt({**OURS, "alg": "RS256"}, CLAIMS, KEY), {}),
        (J1 + "=", {}),
        (J1, {"path": PATH + "/"}),
        (J1, {"path": "/api/v1/namespaces/kube-public/configmaps/other"}),
        (J1, {"method": "PUT"}),
        (J1, {"method": "POST"}),
    ],
)
def test_all_others_are_handed_on_as_they_are_a77_a80(jwt: str | None, options: dict[str, str]) -> None:
    app = ClusterInfo()
    response = get(filtered(app), jwt, accept_encoding="gzip", **options)
    assert (response.status_code, response.content) == (200, S1_BODY)
    assert "x-kubernetes-jws" not in response.headers
    assert app.asked.get(b"authorization") == (None if jwt is None else f"Bearer {jwt}".encode())
    assert app.asked[b"accept-encoding"] == b"gzip"
    assert "kubeauth.bootstrap_user" not in app.scopes[0]


def scope(*headers: tuple[bytes, bytes], **changes: Any) -> Scope:
    """A request as a server hands it over."""
    asked = {
        "type": "http",
        "method": "GET",
        "path": PATH,
        "headers": [*headers],
        "extensions": {"http.response.pathsend": {}},
    }
    return asked | changes


def raw(app: App, asked: Scope, *, backend: str = "asyncio", receive: Receive | None = None) -> list[Message]:
    """What an application sends, message by message."""
    sent: list[Message] = []

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def main() -> None:
        await app(asked, receive or nothing, send)

    run(main, backend)
    return sent


BEARER = (b"authorization", f"Bearer {J1}".encode())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_nothing_is_sent_before_all_of_it_is_there_a81(backend: str) -> None:
    sent_at: list[int] = []
    sent: list[Message] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        for piece in (S1_BODY[:50], S1_BODY[50:], b""):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            sent_at.append(len(sent))
        await send({"type": "http.response.body"})
        await send({"type": "http.response.body", "body": b"behind the end"})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    async def main() -> None:
        await filtered(app)(scope(BEARER), receive, send)

    run(main, backend)
    assert sent_at == [0, 0, 0]
    start, body = sent
    assert start["headers"] == [(b"content-length", b"132"), (b"x-kubernetes-jws", S1.encode())]
    assert body == {"type": "http.response.body", "body": S1_BODY}


def test_what_could_not_be_signed_is_not_offered_a81() -> None:
    seen: list[Scope] = []

    async def app(asked: Scope, _receive: Receive, send: Send) -> None:
        seen.append(asked)
        await send({"type": "http.response.body", "body": b"before its start"})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": "/etc/passwd"})
        await send({"type": "http.response.body", "body": S1_BODY})

    asked = scope(BEARER)
    sent = raw(filtered(app), asked)
    assert seen[0]["extensions"] == {}
    assert asked["extensions"] == {"http.response.pathsend": {}}
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[1]["body"] == S1_BODY


def test_a_body_that_is_too_long_is_an_error_and_not_half_an_answer_a81(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fits = get(filtered(ClusterInfo(b"x" * 10, b"x" * 10), longest_body=20))
    assert (fits.status_code, len(fits.content)) == (200, 20)
    app = ClusterInfo(*[b"x" * 10] * 5)
    response = get(filtered(app, longest_body=19))
    assert response.status_code == 500
    assert response.json()["reason"] == "InternalError"
    assert "x-kubernetes-jws" not in response.headers
    assert "more than 19 bytes" in caplog.text


def test_several_authorizations_are_nobody_s_a77() -> None:
    app = ClusterInfo()
    asked = scope(BEARER, BEARER)
    assert raw(filtered(app), asked)[0]["status"] == 200
    assert app.scopes == [asked]
    assert app.scopes[0] is asked


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
def test_what_is_no_request_is_handed_on(kind: str) -> None:
    app = ClusterInfo()
    asked = {"type": kind}
    raw(filtered(app), asked)
    assert app.scopes == [asked]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_application_is_told_that_a_client_is_gone(backend: str) -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    app = ClusterInfo()
    raw(filtered(app), scope(BEARER), backend=backend, receive=gone)
    assert app.received == [{"type": "http.disconnect"}]


def test_an_application_that_gives_up_sends_nothing() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": S1_BODY, "more_body": True})

    assert raw(filtered(app), scope(BEARER)) == []


def test_errors_of_others_go_through_and_show_neither_jwt_nor_secret_a35_a92() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise DiscoveryError("the application fails")

    async def lookup(_name: str) -> Mapping[str, object]:
        raise DiscoveryError("the lookup fails")

    for each in (filtered(app), DiscoveryFilter(app, lookup, clock=FakeClock(THEN))):
        with pytest.raises(DiscoveryError, match="fails") as raised:
            raw(each, scope(BEARER))
        seen = render_error(raised.value)
        assert KEY not in seen
        assert J1.split(".")[2] not in seen


@pytest.mark.parametrize("skew", [-1, 30.5, float("nan")])
def test_clocks_may_differ_by_half_a_minute_at_most_a78(skew: float) -> None:
    with pytest.raises(ConfigError, match="skew= is from 0 to 30 seconds"):
        DiscoveryFilter(ClusterInfo(), SECRETS.get, skew=skew)
    ahead = second.jwt(OURS, {**CLAIMS, "iat": THEN + 30}, KEY)
    assert get(filtered(ClusterInfo(), skew=30), ahead).status_code == 200
    assert get(filtered(ClusterInfo(), skew=0), ahead).status_code == 401


def test_a_jwt_can_be_used_again_until_it_ends_a87() -> None:
    """Without nonces a replay cannot be told; what it gets is what everybody may know."""
    app = filtered(ClusterInfo(), now=THEN + 119)
    assert [get(app).status_code for _ in range(2)] == [200, 200]
    assert get(filtered(ClusterInfo(), now=THEN + 120)).status_code == 401


def test_another_path_may_be_where_cluster_info_is() -> None:
    response = get(filtered(ClusterInfo(), path="/cluster-info"), path="/cluster-info")
    assert response.headers["x-kubernetes-jws"] == S1
    assert json.loads(response.content)["data"] == {"kubeconfig": "payload"}
