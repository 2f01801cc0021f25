"""A server that refuses what the plugin gave: asked again, but not for ever; repeated, but only once."""

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

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these plugins are for POSIX")

# Another token for each run: token-1, token-2, ...
COUNTS_UP = "give(token='token-%d' % len(open(here + '.runs').readlines()))"
APP = "/api/v1/namespaces/x/services/y/proxy/"
NO_ENTRY = b"<h1>Log in to this app first</h1>" * 100


@pytest.fixture
def plugin(tmp_path: Path) -> Misbehaving:
    plugin = Misbehaving(tmp_path)
    plugin.does(COUNTS_UP)
    return plugin


def client_of(
    variant: ClientVariant, way: str, config: ClientConfig, clock: FakeClock
) -> AbstractContextManager[Driver]:
    """Ours, or the library's own with our auth."""

    def make() -> Any:
        if way == "client":
            return variant.Client(config, clock=clock)
        auth = variant.kubeauth.KubeAuth(config, clock=clock)
        return variant.PlainClient(
            auth=auth, verify=variant.kubeauth.ssl_context(config), base_url=config.server
        )

    return variant.drive(make)


TWO = [(ClientVariant(httpx, "sync"), "client"), (ClientVariant(httpx2, "asyncio"), "auth")]
WAYS = pytest.mark.parametrize(
    ("variant", "way"),
    [*((variant, "client") for variant in VARIANTS), *TWO[1:], (VARIANTS[0], "auth")],
    ids=str,
)
# For what is decided behind all variants.
TWO_WAYS = pytest.mark.parametrize(("variant", "way"), TWO, ids=str)


def tokens_at(server: APIServer) -> list[str]:
    return [(request.header("Authorization") or "").removeprefix("Bearer ") for request in server.requests]


class TestForEver:
    @WAYS
    def test_the_plugin_runs_once_more_and_not_for_every_request(
        self, way: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            for _ in range(30):
                response = client.get("/version")
                assert response.status_code == 401
                assert response.json()["reason"] == "Unauthorized"
        assert plugin.runs == 2
        assert tokens_at(server) == ["token-1", "token-2"] + ["token-2"] * 29

    @TWO_WAYS
    def test_the_limit_doubles_and_is_forgotten_after_ten_quiet_minutes(
        self, way: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        def ask() -> int:
            for _ in range(3):
                assert client.get("/version").status_code == 401
            return plugin.runs

        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            runs = 2
            assert ask() == runs
            for delay in (1, 2, 4, 8, 16, 32, 60, 60):
                clock.advance(delay * 0.79)
                assert ask() == runs
                clock.advance(delay * 0.42)
                runs += 1
                assert ask() == runs
            clock.advance(600.0)
            assert ask() == runs + 1
            clock.advance(0.79)
            assert ask() == runs + 1
            clock.advance(0.42)
            assert ask() == runs + 2

    @WAYS
    def test_a_plugin_that_gives_the_same_again(
        self, way: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        plugin.gives(token="unwelcome")
        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            for _ in range(10):
                assert client.get("/version").status_code == 401
        assert plugin.runs == 2
        # Nothing is repeated to say the same.
        assert len(server.requests) == 10

    @WAYS
    def test_a_plugin_that_then_fails(
        self,
        way: str,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            server.tokens = {"token-1": "alice"}
            assert client.get("/version").status_code == 200
            server.tokens = {"token-4": "alice"}
            plugin.does("sys.exit('no session')")
            for _ in range(10):
                response = client.get("/version")
                assert response.status_code == 401
                assert response.json()["reason"] == "Unauthorized"
            assert plugin.runs == 2
            assert "could not be refreshed: getting credentials: exec: executable" in caplog.text
            clock.advance(1.3)
            assert client.get("/version").status_code == 401
            assert plugin.runs == 3
            plugin.does(COUNTS_UP)
            clock.advance(2.5)
            assert client.get("/version").status_code == 200
        assert plugin.runs == 4


@WAYS
class TestThenFine:
    @pytest.mark.every_variant
    @pytest.mark.parametrize("body", [b"", b"x" * 100_000])
    def test_repeated_with_its_body(
        self,
        way: str,
        body: bytes,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
    ) -> None:
        server.tokens = {"token-2": "alice"}
        server.on("POST", "/things", Answer(201, {"made": True}))
        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            for _ in range(3):
                response = client.request("POST", "/things", content=body)
                assert response.status_code == 201
                assert response.json() == {"made": True}
        assert plugin.runs == 2
        assert tokens_at(server) == ["token-1", "token-2", "token-2", "token-2"]
        assert [request.body for request in server.requests] == [body] * 4

    @pytest.mark.parametrize("kind", ["generator", "file"])
    def test_what_can_be_sent_once_is_not_repeated(
        self,
        way: str,
        kind: str,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
        tmp_path: Path,
    ) -> None:
        if kind == "file" and variant.is_async:
            pytest.skip("the async clients take no files")
        server.tokens = {"token-2": "alice"}
        server.on("POST", "/things", Answer(201))
        (tmp_path / "body").write_bytes(b"abc")
        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            with (tmp_path / "body").open("rb") as file:
                content: Any = file if kind == "file" else chunks(variant)
                response = client.request("POST", "/things", content=content)
            assert response.status_code == 401
            assert response.json()["reason"] == "Unauthorized"
            content = chunks(variant)
            assert client.request("POST", "/things", content=content).status_code == 201
        assert plugin.runs == 2
        assert tokens_at(server) == ["token-1", "token-2"]
        assert [request.body for request in server.requests] == [b"abc"] * 2

    @pytest.mark.slow
    def test_the_next_refusal_is_worth_a_run_at_once(
        self, way: str, variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
    ) -> None:
        """A token that was revoked ten times in a second is not a user who is unwelcome."""
        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            for number in range(2, 12):
                server.tokens = {f"token-{number}": "alice"}
                assert client.get("/version").status_code == 200
        assert plugin.runs == 11


def chunks(variant: ClientVariant) -> Iterator[bytes] | AsyncIterator[bytes]:
    async def asynchronous() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"bc"

    return asynchronous() if variant.is_async else iter([b"a", b"bc"])


@TWO_WAYS
class TestAnAppBehindTheServersProxy:
    """Its 401 looks like the API server's own, and comes from the same origin."""

    @pytest.mark.slow
    @pytest.mark.parametrize("plugin_gives", ["another", "the same"])
    def test_it_reaches_the_caller_and_the_plugin_is_left_in_peace(
        self,
        way: str,
        plugin_gives: str,
        variant: ClientVariant,
        server: APIServer,
        clock: FakeClock,
        plugin: Misbehaving,
    ) -> None:
        server.tokens = {f"token-{number}": "alice" for number in range(1, 99)}
        if plugin_gives == "the same":
            plugin.gives(token="token-1")
        server.on("GET", APP, Answer(401, NO_ENTRY, {"WWW-Authenticate": 'Basic realm="app"'}))
        with no_residue(), client_of(variant, way, plugin.config(server), clock) as client:
            for _ in range(20):
                response = client.get(APP)
                assert response.status_code == 401
                assert response.content == NO_ENTRY
                assert response.headers["WWW-Authenticate"] == 'Basic realm="app"'
                # What is welcome elsewhere says nothing about the app.
                assert client.get("/version").status_code == 200
            assert plugin.runs == 2
            with client.stream("GET", APP) as stream:
                assert "".join(stream.rest()) == NO_ENTRY.decode()
            # Ten minutes of it.
            for _ in range(600 // 30):
                clock.advance(30.0)
                assert client.get(APP).status_code == 401
        assert plugin.runs <= 2 + 6 + 600 / (60 * 0.8)


def test_403_is_an_answer(
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


def test_a_callers_own_token_is_the_callers_concern(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    with no_residue(), variant.client(plugin.config(server), clock=clock) as client:
        for _ in range(3):
            assert client.get("/version", headers={"Authorization": "Bearer mine"}).status_code == 401
    assert plugin.runs == 0
    assert tokens_at(server) == ["mine"] * 3


def test_a_certificate_that_is_refused_gives_way_to_another(
    variant: ClientVariant, server: APIServer, clock: FakeClock, plugin: Misbehaving
) -> None:
    """The replay goes out on connections that show the new one."""
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
