"""Programs tested with respx: it replaces httpcore, so that everything in kubeauth runs."""

from __future__ import annotations

import httpx
import pytest
import respx
from respx.models import AllMockedAssertionError

import kubeauth
from kubeauth.testing import PluginScript
from tests.support.clients import ClientVariant
from tests.testing.mocked import (
    FIRST,
    ITEMS,
    PODS,
    SECOND,
    SERVER,
    SYNC,
    UNAUTHORIZED,
    drive,
    each_client,
    each_kind,
    load_plugin,
    load_user,
)

pytestmark = pytest.mark.respx(base_url=SERVER)


def reject_first_token(router: respx.MockRouter, plugin: PluginScript, method: str = "GET") -> None:
    """The server accepts the second token only, which the plugin returns from then on."""

    def reject(_request: httpx.Request) -> httpx.Response:
        plugin.answer(token="second-token")
        return httpx.Response(401, json=UNAUTHORIZED)

    router.route(method=method, path=PODS, headers=FIRST).mock(side_effect=reject)
    router.route(method=method, path=PODS, headers=SECOND).respond(json=ITEMS)


def authorizations(calls: respx.models.CallList) -> list[str | None]:
    return [call.request.headers.get("Authorization") for call in calls]


@each_client
@each_kind
def test_a_request_has_the_token(variant: ClientVariant, kind: str, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.get(PODS).respond(json=ITEMS)
    with drive(variant, kind, load_user({"token": "alices-token"})) as client:
        response = client.get(PODS)

    assert response.json() == ITEMS
    assert authorizations(route.calls) == ["Bearer alices-token"]


@each_client
@each_kind
def test_after_a_401_the_plugin_runs_again_and_the_request_is_retried(
    variant: ClientVariant, kind: str, respx_mock: respx.MockRouter, plugin: PluginScript
) -> None:
    reject_first_token(respx_mock, plugin)
    with drive(variant, kind, load_plugin(plugin)) as client:
        response = client.get(PODS)

    assert response.json() == ITEMS
    assert authorizations(respx_mock.calls) == ["Bearer first-token", "Bearer second-token"]
    assert len(plugin.runs) == 2


@each_kind
def test_a_body_is_sent_again_after_a_401(
    kind: str, respx_mock: respx.MockRouter, plugin: PluginScript
) -> None:
    reject_first_token(respx_mock, plugin, "POST")
    with drive(SYNC, kind, load_plugin(plugin)) as client:
        response = client.request("POST", PODS, content=b"a pod")

    assert response.status_code == 200
    assert [call.request.content for call in respx_mock.calls] == [b"a pod", b"a pod"]


@each_kind
def test_a_401_is_returned_if_there_is_only_one_token(kind: str, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.get(PODS).respond(401, json=UNAUTHORIZED)
    with drive(SYNC, kind, load_user({"token": "alices-token"})) as client:
        response = client.get(PODS)

    assert (response.status_code, response.json()) == (401, UNAUTHORIZED)
    assert route.call_count == 1


@each_kind
def test_a_plugin_that_fails_sends_no_request(
    kind: str, respx_mock: respx.MockRouter, plugin: PluginScript
) -> None:
    plugin.answer(exit_code=1, stderr="log in first")
    with drive(SYNC, kind, load_plugin(plugin)) as client:
        with pytest.raises(kubeauth.errors.PluginFailed, match="log in first"):
            client.get(PODS)
    assert respx_mock.calls.call_count == 0


@each_client
def test_events_of_a_watch_are_received(variant: ClientVariant, respx_mock: respx.MockRouter) -> None:
    respx_mock.get(PODS, params={"watch": "1"}).respond(content=b'{"type":"ADDED"}\n{"type":"DELETED"}\n')
    with drive(variant, "Client", load_user({"token": "alices-token"})) as client:
        with client.stream("GET", PODS, params={"watch": "1"}) as stream:
            events = stream.rest()
    assert events == ['{"type":"ADDED"}', '{"type":"DELETED"}']


@each_kind
def test_another_origin_gets_no_token(kind: str, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.get("https://other.example/")
    with drive(SYNC, kind, load_user({"token": "alices-token"})) as client:
        client.get("https://other.example/")
    assert authorizations(route.calls) == [None]


@each_client
def test_a_request_without_a_route_is_an_error_of_respx(
    variant: ClientVariant, respx_mock: respx.MockRouter
) -> None:
    with drive(variant, "Client", load_user({"token": "alices-token"})) as client:
        with pytest.raises(AllMockedAssertionError, match=f"'{SERVER}{PODS}'"):
            client.get(PODS)


def test_a_get_is_retried_as_on_a_stale_connection(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.get(PODS).mock(
        side_effect=[httpx.Response(200), httpx.ReadError("reset"), httpx.Response(200, json=ITEMS)]
    )
    with drive(SYNC, "Client", load_user({"token": "alices-token"})) as client:
        client.get(PODS)
        response = client.get(PODS)

    assert response.json() == ITEMS
    assert route.call_count == 3


@pytest.mark.parametrize(("error", "calls"), [(httpx.ReadError, 2), (httpx.ConnectError, 1)])
def test_an_error_that_persists_is_raised(
    error: type[httpx.TransportError], calls: int, respx_mock: respx.MockRouter
) -> None:
    respx_mock.get("/version").respond()
    route = respx_mock.get(PODS).mock(side_effect=error)

    with drive(SYNC, "Client", load_user({"token": "alices-token"})) as client:
        client.get("/version")
        with pytest.raises(error):
            client.get(PODS)

    assert route.call_count == calls


@each_client
def test_a_router_can_be_the_transport_of_a_client(variant: ClientVariant, plugin: PluginScript) -> None:
    router = respx.MockRouter(base_url=SERVER)
    reject_first_token(router, plugin)
    handler = router.async_handler if variant.is_async else router.handler
    factory = variant.in_memory(handler)

    with variant.client(load_plugin(plugin), transport_factory=factory) as client:
        response = client.get(PODS)

    assert response.json() == ITEMS
    assert authorizations(router.calls) == ["Bearer first-token", "Bearer second-token"]


@pytest.mark.respx(base_url=SERVER, using="httpx")
def test_using_httpx_replaces_the_transport_of_a_client(respx_mock: respx.MockRouter) -> None:
    route = respx_mock.get(PODS).respond(json=ITEMS)
    with drive(SYNC, "Client", load_user({"token": "alices-token"})) as client:
        response = client.get(PODS)

    assert response.json() == ITEMS
    assert authorizations(route.calls) == [None]
