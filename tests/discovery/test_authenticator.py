"""Who the bearer of a bootstrap token is."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from kubeauth import AsyncClient, Secret
from kubeauth.discovery import BootstrapUser, ClusterSecrets, TokenAuthenticator
from kubeauth.errors import ConfigError, DiscoveryError
from kubeauth.testing import Answer, APIServer, FakeClock
from tests.discovery.objects import NOW, date, secret
from tests.support.cases import each_case
from tests.support.leaks import render_error

TOKEN = "abc123.0123456789abcdef"
USER = BootstrapUser("system:bootstrap:abc123", ("system:bootstrappers",))
GROUP = "system:bootstrappers:foo"


def who(document: Mapping[str, object] | None, token: str | Secret[str] = TOKEN) -> BootstrapUser | None:
    """Who that is, as told in both runtimes."""
    asked: list[str] = []

    def lookup(name: str) -> Mapping[str, object] | None:
        asked.append(name)
        return document

    async def alookup(name: str) -> Mapping[str, object] | None:
        return lookup(name)

    clock = FakeClock(NOW)
    plain = TokenAuthenticator(lookup, clock=clock)
    found = plain.authenticate(token)
    for each in (plain, TokenAuthenticator(alookup, clock=clock)):
        assert anyio.run(each.aauthenticate, token) == found
    assert set(asked) <= {"bootstrap-token-abc123"}
    return found


def test_a_good_token_is_somebody_a24_a35() -> None:
    assert who(secret(TOKEN)) == USER
    assert who(secret(TOKEN), Secret(TOKEN)) == USER
    assert who(secret(TOKEN, auth_extra_groups=GROUP)) == BootstrapUser(
        USER.name, ("system:bootstrappers", GROUP)
    )
    assert who(secret(TOKEN, expiration="2109-01-01T00:00:00Z")) == USER
    assert who(secret(TOKEN, usage_bootstrap_signing=None)) == USER


@each_case(
    "document",
    [
        None,
        {},
        secret(TOKEN, auth_extra_groups="foo"),
        secret(TOKEN, Name="bad-name"),
        secret(TOKEN, usage_bootstrap_authentication=None),
        secret(TOKEN, usage_bootstrap_authentication="True"),
        secret(TOKEN, token_id="barfoo"),
        secret(TOKEN, token_id="foo"),
        secret(TOKEN, token_id=""),
        secret(TOKEN, Deleted=True),
        secret(TOKEN, Type="Opaque"),
        secret(TOKEN, Namespace="default"),
        secret(TOKEN, expiration="2009-01-01T00:00:00Z"),
        secret(TOKEN, expiration=date(NOW)),
        secret(TOKEN, expiration="garbage"),
        secret("abc123.0123456789abcdee"),
        secret("abc123."),
        {**secret(TOKEN), "data": None},
        # Of another token, which has the same secret: a lookup that is mistaken.
        secret("def456.0123456789abcdef"),
    ],
)
def test_each_miss_is_nobody_and_no_error_a35(document: Mapping[str, object] | None) -> None:
    assert who(document) is None


@each_case("token", ["", "x", "foo", TOKEN.upper(), f"{TOKEN}\n", TOKEN.replace(".", ":"), "abc123."])
def test_what_is_no_bootstrap_token_is_not_even_looked_up_a35(token: str) -> None:
    def lookup(_name: str) -> Mapping[str, object]:
        raise AssertionError

    assert TokenAuthenticator(lookup).authenticate(token) is None
    assert anyio.run(TokenAuthenticator(lookup).aauthenticate, token) is None


def test_a_lookup_that_fails_is_an_error_which_shows_no_token_a35_a92() -> None:
    def lookup(_name: str) -> Mapping[str, object]:
        raise DiscoveryError("no answer", status_code=500)

    authenticator = TokenAuthenticator(lookup)
    for call in (authenticator.authenticate, lambda token: anyio.run(authenticator.aauthenticate, token)):
        with pytest.raises(DiscoveryError, match="no answer") as raised:
            call(TOKEN)
        assert "0123456789abcdef" not in render_error(raised.value)


def test_an_async_lookup_needs_an_event_loop() -> None:
    async def lookup(_name: str) -> Mapping[str, object] | None:
        return None

    class Later:
        def __await__(self) -> Any:
            yield

    with pytest.raises(ConfigError, match="use aauthenticate"):
        TokenAuthenticator(lookup).authenticate(TOKEN)
    with pytest.raises(ConfigError, match="use aauthenticate"):
        TokenAuthenticator(lambda _name: Later()).authenticate(TOKEN)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_secrets_of_a_cluster_are_looked_up_there_a35(server: APIServer, backend: str) -> None:
    path = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-"
    server.on("GET", f"{path}abc123", Answer(body=secret(TOKEN)))
    server.on("GET", f"{path}broken", Answer(body=b"x"))
    server.on("GET", f"{path}denied", Answer(403, {"kind": "Status", "message": "not for you", "code": 403}))

    async def main() -> None:
        async with AsyncClient(server.config(token="alices-token")) as client:
            authenticator = TokenAuthenticator(ClusterSecrets(client), clock=FakeClock(NOW))
            assert await authenticator.aauthenticate(TOKEN) == USER
            assert await authenticator.aauthenticate(f"nobody{TOKEN[6:]}") is None
            with pytest.raises(DiscoveryError, match="what the server answers is no Secret"):
                await authenticator.aauthenticate(f"broken{TOKEN[6:]}")
            with pytest.raises(DiscoveryError, match="the server answers 403: not for you") as raised:
                await authenticator.aauthenticate(f"denied{TOKEN[6:]}")
            assert raised.value.status_code == 403
            told = "".join(traceback.format_exception(raised.value))
            assert "0123456789abcdef" not in told

    anyio.run(main, backend=backend)
