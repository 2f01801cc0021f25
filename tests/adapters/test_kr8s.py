"""kr8s, through kubeauth.adapters.kr8s."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import kr8s
import pytest
import yaml
from kr8s.objects import ConfigMap, Pod

from kubeauth import load_config
from kubeauth.adapters.kr8s import Api, aapi, api
from kubeauth.testing import Answer, APIServer
from tests.adapters.promises import NAMESPACES, POD, Promises
from tests.adapters.with_kr8s import SIDES
from tests.support.shell_plugin import ShellPlugin


class TestKr8s(Promises):
    sides = SIDES
    Refused = kr8s.ServerError


@pytest.fixture
def kube(server: APIServer) -> Iterator[Api]:
    it = api(server.config(token="alices-token"))
    yield it
    it.close()


def test_objects_with_an_api(kube: Api, server: APIServer) -> None:
    path = "/api/v1/namespaces/web/configmaps"
    found = {"metadata": {"name": "settings", "namespace": "web"}, "data": {"a": "1"}}
    server.on("POST", path, lambda request: Answer(201, request.body))
    server.on("GET", f"{path}/settings", Answer(body=found))
    server.on("DELETE", f"{path}/settings", Answer(body={"kind": "Status", "status": "Success"}))
    settings = ConfigMap({"metadata": {"name": "settings", "namespace": "web"}}, api=kube)
    settings.create()
    settings.refresh()
    assert settings.raw["data"] == {"a": "1"}
    settings.delete()
    kube.namespace = "web"
    assert kube.namespace == "web"
    assert {request.user for request in server.requests} == {"alice"}


def test_who_asks_without_an_api_gets_this_one(kube: Api, server: APIServer) -> None:
    # kr8s would warn that it does not know the server's release: that is about the server.
    server.on("GET", "/version", Answer(body={"gitVersion": "v1.33.0"}))
    assert [each.name for each in kr8s.get("namespaces")] == NAMESPACES
    assert kr8s.whoami() == "alice"  # type: ignore[no-untyped-call]
    assert Pod(POD).api is kube


def test_the_server_is_asked_who_we_are(kube: Api) -> None:
    assert kube.whoami() == "alice"  # type: ignore[no-untyped-call]


def test_authenticating_again_does_nothing(
    server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="alices-token")
    # kr8s would load this, and run what it names.
    other = ShellPlugin(tmp_path, name="other")
    config_file = tmp_path / "config"
    config_file.write_text(yaml.safe_dump(server.kubeconfig({"exec": other.exec_config()})))
    monkeypatch.setenv("KUBECONFIG", str(config_file))
    kube = api(load_config(server.kubeconfig({"exec": plugin.exec_config()})))
    kube.version()
    kube.reauthenticate()  # type: ignore[no-untyped-call]
    assert kube.auth.server == server.url
    kube.version()
    kube.close()
    assert (len(plugin.runs), len(other.runs)) == (1, 0)


@pytest.mark.anyio
async def test_connections_in_use_are_kept_when_kr8s_wants_new_ones(server: APIServer) -> None:
    """It does after a handshake that failed, for one: other tasks may be in the middle of something."""
    kube = await aapi(server.config(token="alices-token"))
    await kube.version()
    await kube._create_session()
    await kube.version()
    await kube.aclose()
    assert [request.connection for request in server.requests] == [1, 1]


@pytest.mark.parametrize(
    ("answer", "message", "status"),
    [
        (Answer(404, {"kind": "Status", "message": "gone", "code": 404}), "gone", 404),
        (Answer(409, {"kind": "Status", "code": 409}), "409 Conflict", 409),
        (Answer(503, b"<html>"), "503 Service Unavailable", 503),
        (Answer(403, [1]), "403 Forbidden", 403),
    ],
)
def test_what_the_server_refuses_is_the_error_of_kr8s(
    answer: Answer, message: str, status: int, kube: Api, server: APIServer
) -> None:
    server.on("GET", "/version", answer)
    with pytest.raises(kr8s.ServerError, match=message) as caught:
        kube.version()
    assert caught.value.response is not None
    assert caught.value.response.status_code == status
    assert len(server.requests) == 1


def test_who_wants_to_see_the_answer_does(kube: Api, server: APIServer) -> None:
    server.on("GET", "/api/v1/namespaces/default/pods/web", Answer(403, {"kind": "Status", "message": "no"}))
    assert Pod(POD, api=kube).exists() is False
    assert len(server.requests) == 1


def test_a_watch_that_is_refused(kube: Api, server: APIServer) -> None:
    forbidden = {"kind": "Status", "message": "not for you", "code": 403}
    server.on("GET", "/api/v1/namespaces/default/configmaps", Answer(403, forbidden))
    with pytest.raises(kr8s.ServerError, match="not for you"):
        next(kube.watch("configmaps", namespace="default"))
    assert [request.path.endswith("watch=true") for request in server.requests].count(True) == 1


def test_logs_are_streamed(kube: Api, server: APIServer) -> None:
    server.on("GET", "/api/v1/namespaces/default/pods/web", Answer(body=POD))
    server.on("GET", "/api/v1/namespaces/default/pods/web/log", Answer(chunks=[b"one\n", b"two\n"]))
    assert list(Pod(POD, api=kube).logs(follow=True)) == ["one", "two"]


def test_it_can_be_used_after_it_was_closed(kube: Api, server: APIServer) -> None:
    kube.version()
    kube.close()
    kube.version()
    assert [request.connection for request in server.requests] == [1, 2]


def test_a_timeout_is_that_of_kr8s(kube: Api, server: APIServer) -> None:
    watch = server.watch("/version")
    kube.timeout = 0.2
    with pytest.raises(kr8s.APITimeoutError):
        kube.version()
    watch.end()


def test_without_a_timeout_there_is_none(kube: Api) -> None:
    """httpx's own would end every quiet watch."""
    kube.version()
    assert kube._session is not None
    assert kube._session.timeout == httpx.Timeout(None)


def test_the_namespace_is_that_of_the_config(server: APIServer) -> None:
    kube = api(server.config(token="alices-token", namespace="web"))
    assert kube.namespace == "web"
    kube.close()


def test_redirects_are_followed_as_kr8s_does(kube: Api, server: APIServer) -> None:
    server.on("GET", "/version", Answer(302, headers={"Location": "/moved"}))
    server.on("GET", "/moved", Answer(body={"gitVersion": "v1.33.0"}))
    assert kube.version() == {"gitVersion": "v1.33.0"}
    assert [request.user for request in server.requests] == ["alice"] * 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_api_is_one_of_its_own(backend: str, server: APIServer) -> None:
    """kr8s remembers by its arguments what it made; two configs must not be taken for each other."""

    async def both() -> list[Any]:
        server.tokens["bobs-token"] = "bob"
        found = []
        apis = [await aapi(server.config(token=token)) for token in ("alices-token", "bobs-token")]
        for each in apis:
            found.append(await each.whoami())  # type: ignore[no-untyped-call]
            await each.aclose()
        return found

    assert anyio.run(both, backend=backend) == ["alice", "bob"]


def test_what_nobody_holds_goes_away(server: APIServer) -> None:
    made = api(server.config(token="alices-token"))
    made.version()
    made.close()
    left = weakref.ref(made)
    del made
    gc.collect()
    assert left() is None
