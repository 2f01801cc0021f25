"""Many processes: a config travels as a recipe, each process asks the plugin once, a live credential stays."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import yaml

import kubeauth
import kubeauth.httpx2
from kubeauth.errors import ConfigError
from kubeauth.testing import Answer, APIServer, PluginScript
from tests.support.clients import ClientVariant
from tests.support.processes import TASKS

METHODS = ["spawn", "forkserver", "fork"]
TOKEN = "s3ntinel-token"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    script = PluginScript(tmp_path)
    script.answer(token=TOKEN)
    return script


@pytest.fixture
def kubeconfig(server: APIServer, plugin: PluginScript, tmp_path: Path) -> str:
    server.tokens[TOKEN] = "alice"
    stanza = plugin.exec_config(env=[{"name": "SETTING", "value": "s3ntinel-variable"}])
    document = server.kubeconfig({"exec": stanza, "as": "somebody"})
    document["contexts"].append({"name": "other", "context": {"cluster": "local", "user": "tester"}})
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def done(how: str, method: str, kubeconfig: str, plugin: PluginScript) -> Any:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.processes", how, method, kubeconfig],
        env={**os.environ, "ALLOWED": str(plugin.path)},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(ran.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["by_process", "by_pool", "by_executor"])
def test_a_config_travels_and_each_process_runs_the_plugin_once(
    how: str, method: str, kubeconfig: str, plugin: PluginScript, server: APIServer
) -> None:
    results = done(how, method, kubeconfig, plugin)
    assert len(results) == (3 if how == "by_process" else TASKS)
    processes = {result.pop("process") for result in results}
    assert len(plugin.runs) == len(processes)
    # What the parent asked for is what the worker has.
    expected = {
        "status": 200, "timeout": 33.0, "allowed": [str(plugin.path)], "context": "other", "namespace": "web",
        "impersonated": "somebody", "environment": {"SETTING": "s3ntinel-variable"},
    }  # fmt: skip
    assert results == [expected] * len(results)
    assert {request.header("Impersonate-User") for request in server.requests} == {"somebody"}


@pytest.mark.parametrize("method", METHODS)
def test_a_client_does_not_and_says_what_to_send(method: str, kubeconfig: str, plugin: PluginScript) -> None:
    said = done("refused", method, kubeconfig, plugin)
    assert len(said) == (2 if method == "fork" else 3)
    for words in said:
        assert words.startswith("ConfigError: Client cannot be pickled or copied")
        assert "Send its ClientConfig" in words


def test_a_server_that_forks_runs_the_plugin_once_for_each_process(
    kubeconfig: str, plugin: PluginScript, server: APIServer
) -> None:
    results = done("prefork", "fork", kubeconfig, plugin)
    assert results == [[200] * 100] * 5
    assert len(plugin.runs) == 5


def test_what_it_had_before_it_forked_its_children_have(kubeconfig: str, plugin: PluginScript) -> None:
    results = done("warm_prefork", "fork", kubeconfig, plugin)
    assert results == [[200] * 100] * 5
    assert len(plugin.runs) == 1


def test_a_live_credential_stays_where_it_is(variant: ClientVariant, kubeconfig: str) -> None:
    """Clients, transports, auths and sources: pickled or copied, each says what to send instead."""
    with variant.client(kubeauth.load_config(kubeconfig)) as driver:
        driver.get("/version").raise_for_status()
        client = driver.client
        for thing in (client, client._transport, client._transport._source):
            for way in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(
                    ConfigError, match=f"^{type(thing).__name__} cannot be pickled or copied"
                ) as caught:
                    way(thing)
                assert "Send its ClientConfig" in str(caught.value)


@pytest.mark.parametrize("caller_signs", [False, True])
def test_what_comes_back_carries_no_credential(
    caller_signs: bool, variant: ClientVariant, server: APIServer
) -> None:
    """Responses and errors hold their requests, which are pickled with them, after redirects too."""
    server.tokens[TOKEN] = "alice"
    server.on("GET", "/there", Answer(302, headers={"Location": "/version"}))
    server.on("POST", "/gone", Answer(hang_up=True))
    config = server.config(token=TOKEN)
    kept: list[Any] = []
    given = {"Authorization": f"Bearer {TOKEN}"} if caller_signs else {}

    def plain() -> Any:
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config),
            verify=kubeauth.ssl_context(config),
            base_url=config.server,
        )

    for make in (lambda: variant.Client(config), plain):
        with variant.drive(make) as driver:
            for path, follow in (("/version", False), ("/none", False), ("/there", True), ("/there", False)):
                kept.append(driver.get(path, follow_redirects=follow, headers=given))
            try:
                kept[-3].raise_for_status()
            except variant.library.HTTPStatusError as error:
                kept.append(error.request)
            try:
                driver.request("POST", "/gone", headers=given)
            except variant.library.RequestError as error:
                kept.append(error)
    assert [getattr(it, "status_code", None) for it in kept] == [200, 404, 200, 302, None, None] * 2
    assert {request.user for request in server.requests} == {"alice"}
    # What the caller has set is the caller's.
    assert all((TOKEN.encode() in pickle.dumps(it)) == caller_signs for it in kept)


@pytest.mark.parametrize("caller_signs", [False, True])
def test_what_fails_after_a_redirect_carries_no_credential_either(
    caller_signs: bool, variant: ClientVariant, server: APIServer
) -> None:
    """The library copies the request for it, headers and all, and says in its error which one failed."""
    server.tokens[TOKEN] = "alice"
    ways = {"/to-gone": "/gone", "/to-none": "/to-more", "/to-more": "/none", "/round": "/round"}
    for path, there in ways.items():
        server.on("GET", path, Answer(307, headers={"Location": there}))
    server.on("GET", "/gone", Answer(hang_up=True))
    config = server.config(token=TOKEN)
    given = {"Authorization": f"Bearer {TOKEN}"} if caller_signs else {}

    def refuse(response: Any) -> None:
        if response.status_code >= 400:
            response.raise_for_status()

    async def arefuse(response: Any) -> None:
        refuse(response)

    hook = arefuse if variant.is_async else refuse

    def plain() -> Any:
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config), verify=kubeauth.ssl_context(config), base_url=config.server,
            event_hooks={"response": [hook]}, follow_redirects=True,
        )  # fmt: skip

    kept: list[Any] = []
    with variant.drive(plain) as driver:
        for path in ("/to-gone", "/to-none", "/round"):
            with pytest.raises(variant.library.HTTPError) as caught:
                driver.get(path, headers=given)
            kept += [caught.value, caught.value.request]
    names = [type(it).__name__ for it in kept[::2]]
    assert names == ["RemoteProtocolError", "HTTPStatusError", "TooManyRedirects"]
    assert {request.user for request in server.requests} == {"alice"}
    assert all((TOKEN.encode() in pickle.dumps(it)) == caller_signs for it in kept)


def test_nor_does_what_fails_when_it_is_repeated_after_a_401(
    variant: ClientVariant, server: APIServer, plugin: PluginScript
) -> None:
    server.on("GET", "/there", Answer(307, headers={"Location": "/gone"}))
    server.on("GET", "/gone", Answer(hang_up=True))
    server.tokens["s3ntinel-newer"] = "alice"
    config = kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))

    def plain() -> Any:
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config),
            verify=kubeauth.ssl_context(config),
            base_url=config.server,
        )

    with variant.drive(plain) as driver:
        server.tokens[TOKEN] = "bob"
        assert driver.get("/version").status_code == 200
        del server.tokens[TOKEN]
        plugin.answer(token="s3ntinel-newer")
        with pytest.raises(variant.library.RemoteProtocolError) as caught:
            driver.get("/there", follow_redirects=True)
    assert server.requests[-1].user == "alice"
    assert b"s3ntinel" not in pickle.dumps([caught.value, caught.value.request])


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_a_flow_that_is_closed_leaves_alone_what_somebody_else_has_signed(
    library: Any, server: APIServer
) -> None:
    """While an error of another client is handled: that one is not its own."""
    theirs = library.Request("GET", "https://elsewhere/", headers={"Authorization": "Bearer theirs"})
    auth = (kubeauth if library is httpx else kubeauth.httpx2).KubeAuth(server.config(token=TOKEN))
    flow = auth.sync_auth_flow(library.Request("GET", f"{server.url}/version"))
    signed = next(flow)
    with pytest.raises(library.ConnectError), closing(flow):
        raise library.ConnectError("no", request=theirs)
    assert "Authorization" not in signed.headers
    assert theirs.headers["Authorization"] == "Bearer theirs"
