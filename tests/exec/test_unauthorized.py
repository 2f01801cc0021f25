"""After a 401 the plugin is run again, with a rate limit, and the request is retried once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from kubeauth import ClientConfig
from kubeauth.testing import Answer, APIServer, FakeClock
from tests.support.clients import VARIANTS, ClientVariant, Driver
from tests.support.misbehaving import Misbehaving
from tests.support.residue import no_residue

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the plugins are POSIX scripts")

APP = "/api/v1/namespaces/x/services/y/proxy/"
APP_LOGIN_PAGE = b"<h1>Log in to this app first</h1>" * 100


@pytest.fixture
def plugin(tmp_path: Path) -> Misbehaving:
    plugin = Misbehaving(tmp_path)
    plugin.gives_new_tokens()
    return plugin


def new_client(
    variant: ClientVariant, signed_by: str, config: ClientConfig, clock: FakeClock
) -> AbstractContextManager[Driver]:
    """A kubeauth client, or a client of the library with KubeAuth."""

    def make() -> Any:
        if signed_by == "client":
            return variant.Client(config, clock=clock)
        auth = variant.kubeauth.KubeAuth(config, clock=clock)
        return variant.PlainClient(
            auth=auth, verify=variant.kubeauth.ssl_context(config), base_url=config.server
        )

    return variant.drive(make)


SYNC_CLIENT_AND_ASYNC_AUTH = [
    (ClientVariant(httpx, "sync"), "client"),
    (ClientVariant(httpx2, "asyncio"), "auth"),
]
CLIENTS_AND_AUTH = pytest.mark.parametrize(
    ("variant", "signed_by"),
    [*((variant, "client") for variant in VARIANTS), *SYNC_CLIENT_AND_ASYNC_AUTH[1:], (VARIANTS[0], "auth")],
    ids=str,
)
# For behaviour that does not depend on the variant.
CLIENT_AND_AUTH = pytest.mark.parametrize(("variant", "signed_by"), SYNC_CLIENT_AND_ASYNC_AUTH, ids=str)


def tokens_received(server: APIServer) -> list[str]:
    return [(request.header("Authorization") or "").removeprefix("Bearer ") for request in server.requests]


class TestRejectedCredentials:
    @CLIENTS_AND_AUTH
    def test_the_plugin_is_run_once_more_and_not_for_each_request(
        self, signed_by: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            for _ in range(30):
                response = client.get("/version")
                assert response.status_code == 401
                assert response.json()["reason"] == "Unauthorized"
        assert plugin.runs == 2
        assert tokens_received(server) == ["token-1", "token-2"] + ["token-2"] * 29

    @CLIENT_AND_AUTH
    def test_the_rate_limit_doubles_and_is_reset_after_ten_minutes_without_a_401(
        self, signed_by: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        def send_three_requests() -> int:
            for _ in range(3):
                assert client.get("/version").status_code == 401
            return plugin.runs

        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            runs = 2
            assert send_three_requests() == runs

            for delay in (1, 2, 4, 8, 16, 32, 60, 60):
                clock.advance(delay * 0.79)
                assert send_three_requests() == runs

                clock.advance(delay * 0.42)
                runs += 1
                assert send_three_requests() == runs

            clock.advance(600.0)
            assert send_three_requests() == runs + 1

            clock.advance(0.79)
            assert send_three_requests() == runs + 1

            clock.advance(0.42)
            assert send_three_requests() == runs + 2

    @CLIENTS_AND_AUTH
    def test_a_request_is_not_retried_with_the_same_token(
        self, signed_by: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.gives(token="rejected")
        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            for _ in range(10):
                assert client.get("/version").status_code == 401
        assert plugin.runs == 2
        assert len(server.requests) == 10

    @CLIENTS_AND_AUTH
    def test_the_401_is_returned_if_the_refresh_fails(
        self,
        signed_by: str,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            server.tokens = {"token-1": "alice"}
            assert client.get("/version").status_code == 200

            server.tokens = {"token-4": "alice"}
            plugin.fails("no session")

            for _ in range(10):
                response = client.get("/version")
                assert response.status_code == 401
                assert response.json()["reason"] == "Unauthorized"
            assert plugin.runs == 2
            assert "could not be refreshed: getting credentials: exec: executable" in caplog.text

            clock.advance(1.3)
            assert client.get("/version").status_code == 401
            assert plugin.runs == 3

            plugin.gives_new_tokens()
            clock.advance(2.5)
            assert client.get("/version").status_code == 200
        assert plugin.runs == 4


@CLIENTS_AND_AUTH
class TestRetry:
    @pytest.mark.every_variant
    @pytest.mark.parametrize("body", [b"", b"x" * 100_000])
    def test_a_request_is_retried_with_its_body(
        self,
        signed_by: str,
        body: bytes,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
    ) -> None:
        server.tokens = {"token-2": "alice"}
        server.on("POST", "/things", Answer(201, {"created": True}))

        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            for _ in range(3):
                response = client.request("POST", "/things", content=body)
                assert response.status_code == 201
                assert response.json() == {"created": True}

        assert plugin.runs == 2
        assert tokens_received(server) == ["token-1", "token-2", "token-2", "token-2"]
        assert [request.body for request in server.requests] == [body] * 4

    @pytest.mark.parametrize("kind", ["generator", "file"])
    def test_a_body_that_can_be_sent_once_is_not_retried(
        self,
        signed_by: str,
        kind: str,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
        tmp_path: Path,
    ) -> None:
        if kind == "file" and variant.is_async:
            pytest.skip("async clients accept no files")
        server.tokens = {"token-2": "alice"}
        server.on("POST", "/things", Answer(201))
        (tmp_path / "body").write_bytes(b"abc")

        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            with (tmp_path / "body").open("rb") as file:
                content: Any = file if kind == "file" else chunks(variant)
                response = client.request("POST", "/things", content=content)
            assert response.status_code == 401
            assert response.json()["reason"] == "Unauthorized"

            content = chunks(variant)
            assert client.request("POST", "/things", content=content).status_code == 201

        assert plugin.runs == 2
        assert tokens_received(server) == ["token-1", "token-2"]
        assert [request.body for request in server.requests] == [b"abc"] * 2

    @pytest.mark.slow
    def test_an_accepted_retry_resets_the_rate_limit(
        self, signed_by: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        """The rate limit is for users that the server rejects, not for tokens that are revoked often."""
        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            for number in range(2, 12):
                server.tokens = {f"token-{number}": "alice"}
                assert client.get("/version").status_code == 200
        assert plugin.runs == 11


def chunks(variant: ClientVariant) -> Iterator[bytes] | AsyncIterator[bytes]:
    async def asynchronous() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"bc"

    return asynchronous() if variant.is_async else iter([b"a", b"bc"])


@CLIENT_AND_AUTH
class TestServiceProxy:
    """A 401 of a service behind the API server's proxy looks like one of the API server itself."""

    @pytest.mark.slow
    @pytest.mark.parametrize("token", ["new", "unchanged"])
    def test_the_401_is_returned_and_the_plugin_is_rate_limited(
        self,
        signed_by: str,
        token: str,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
    ) -> None:
        server.tokens = {f"token-{number}": "alice" for number in range(1, 99)}
        if token == "unchanged":
            plugin.gives(token="token-1")
        server.on("GET", APP, Answer(401, APP_LOGIN_PAGE, {"WWW-Authenticate": 'Basic realm="app"'}))

        with no_residue(), new_client(variant, signed_by, plugin.config(server), clock) as client:
            for _ in range(20):
                response = client.get(APP)
                assert response.status_code == 401
                assert response.content == APP_LOGIN_PAGE
                assert response.headers["WWW-Authenticate"] == 'Basic realm="app"'
                # A request that the API server accepts does not reset the rate limit.
                assert client.get("/version").status_code == 200
            assert plugin.runs == 2

            with client.stream("GET", APP) as stream:
                assert "".join(stream.rest()) == APP_LOGIN_PAGE.decode()

            for _ in range(600 // 30):
                clock.advance(30.0)
                assert client.get(APP).status_code == 401

        assert plugin.runs <= 2 + 6 + 600 / (60 * 0.8)


def test_a_403_does_not_refresh_the_credential(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    server.tokens = {"token-1": "alice"}
    server.on("GET", "/forbidden", Answer(403, {"reason": "Forbidden"}))

    with no_residue(), variant.client(plugin.config(server), clock=clock) as client:
        for _ in range(5):
            response = client.get("/forbidden")
            assert (response.status_code, response.json()) == (403, {"reason": "Forbidden"})
            clock.advance(700.0)

    assert plugin.runs == 1
    assert len(server.requests) == 5


def test_a_401_for_a_header_of_the_caller_does_not_run_the_plugin(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    with no_residue(), variant.client(plugin.config(server), clock=clock) as client:
        for _ in range(3):
            assert client.get("/version", headers={"Authorization": "Bearer mine"}).status_code == 401
    assert plugin.runs == 0
    assert tokens_received(server) == ["mine"] * 3


def test_a_rejected_certificate_is_replaced_and_the_request_retried(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    """The retry uses a connection with the new certificate."""
    pairs = [server.authority.client(name) for name in ("carol", "dave")]
    statuses = [
        {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
        for pair in pairs
    ]
    plugin.does(f"give(**{statuses!r}[min(len(open(here + '.runs').readlines()), 2) - 1])")
    server.on(
        "POST", "/things", lambda request: Answer(201 if request.common_name == "dave" else 401, b"no carol")
    )

    with no_residue(), variant.client(plugin.config(server), clock=clock) as client:
        assert client.request("POST", "/things", content=b"abc").status_code == 201
        assert client.request("POST", "/things", content=b"abc").status_code == 201

    assert [(request.common_name, request.body) for request in server.requests] == [
        ("carol", b"abc"),
        ("dave", b"abc"),
        ("dave", b"abc"),
    ]
    assert plugin.runs == 2
