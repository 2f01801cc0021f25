"""Programs tested with pytest-httpx: it replaces httpx.HTTPTransport, so that everything in kubeauth runs."""

from __future__ import annotations

import httpx
import pytest
from pytest_httpx import HTTPXMock, IteratorStream

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

URL = f"{SERVER}{PODS}"


def reject_first_token(mock: HTTPXMock, plugin: PluginScript) -> None:
    """The server accepts the second token only, which the plugin returns from then on."""

    def reject(_request: httpx.Request) -> httpx.Response:
        plugin.answer(token="second-token")
        return httpx.Response(401, json=UNAUTHORIZED)

    mock.add_callback(reject, url=URL, match_headers=FIRST)
    mock.add_response(url=URL, match_headers=SECOND, json=ITEMS)


@each_client
@each_kind
def test_a_request_has_the_token(variant: ClientVariant, kind: str, httpx_mock: HTTPXMock) -> None:
    headers = {"Authorization": "Bearer alices-token"}
    httpx_mock.add_response(url=URL, match_headers=headers, json=ITEMS)

    with drive(variant, kind, load_user({"token": "alices-token"})) as client:
        response = client.get(PODS)

    assert response.json() == ITEMS


@each_client
@each_kind
def test_after_a_401_the_plugin_runs_again_and_the_request_is_retried(
    variant: ClientVariant, kind: str, httpx_mock: HTTPXMock, plugin: PluginScript
) -> None:
    reject_first_token(httpx_mock, plugin)
    with drive(variant, kind, load_plugin(plugin)) as client:
        response = client.get(PODS)

    assert response.json() == ITEMS
    assert len(httpx_mock.get_requests()) == 2
    assert len(plugin.runs) == 2


@each_kind
def test_a_body_is_sent_again_after_a_401(kind: str, httpx_mock: HTTPXMock, plugin: PluginScript) -> None:
    reject_first_token(httpx_mock, plugin)
    with drive(SYNC, kind, load_plugin(plugin)) as client:
        response = client.request("POST", PODS, content=b"a pod")

    assert response.status_code == 200
    assert [request.content for request in httpx_mock.get_requests()] == [b"a pod", b"a pod"]


@pytest.mark.parametrize(
    ("kind", "recorded"), [("Client", "Bearer alices-token"), ("KubeAuth", None)], ids=str
)
def test_a_recorded_request_has_the_token_of_a_client_only(
    kind: str, recorded: str | None, httpx_mock: HTTPXMock
) -> None:
    """It records the request that the response references: KubeAuth removes the token from that one."""
    httpx_mock.add_response(url=URL)
    with drive(SYNC, kind, load_user({"token": "alices-token"})) as client:
        client.get(PODS)
    assert [request.headers.get("Authorization") for request in httpx_mock.get_requests()] == [recorded]


@each_kind
def test_a_401_is_returned_if_there_is_only_one_token(kind: str, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(401, url=URL, json=UNAUTHORIZED)
    with drive(SYNC, kind, load_user({"token": "alices-token"})) as client:
        response = client.get(PODS)
    assert (response.status_code, response.json()) == (401, UNAUTHORIZED)


@each_kind
def test_a_plugin_that_fails_sends_no_request(kind: str, httpx_mock: HTTPXMock, plugin: PluginScript) -> None:
    plugin.answer(exit_code=1, stderr="log in first")
    with drive(SYNC, kind, load_plugin(plugin)) as client:
        with pytest.raises(kubeauth.errors.PluginFailed, match="log in first"):
            client.get(PODS)
    assert httpx_mock.get_requests() == []


@each_client
def test_events_of_a_watch_are_received(variant: ClientVariant, httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(stream=IteratorStream([b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n']))
    with drive(variant, "Client", load_user({"token": "alices-token"})) as client:
        with client.stream("GET", PODS, params={"watch": "1"}) as stream:
            events = stream.rest()
    assert events == ['{"type":"ADDED"}', '{"type":"DELETED"}']


@each_client
@pytest.mark.httpx_mock(assert_all_requests_were_expected=False)
def test_a_request_without_a_response_is_a_timeout(variant: ClientVariant, httpx_mock: HTTPXMock) -> None:
    with drive(variant, "Client", load_user({"token": "alices-token"})) as client:
        with pytest.raises(
            httpx.TimeoutException, match=f"No response can be found for GET request on {URL}"
        ):
            client.get(PODS)
    assert len(httpx_mock.get_requests()) == 1


def test_a_get_is_retried_as_on_a_stale_connection(httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(url=URL)
    httpx_mock.add_exception(httpx.ReadError("reset"), url=URL)
    httpx_mock.add_response(url=URL, json=ITEMS)

    with drive(SYNC, "Client", load_user({"token": "alices-token"})) as client:
        client.get(PODS)
        response = client.get(PODS)

    assert response.json() == ITEMS
    assert len(httpx_mock.get_requests()) == 3
