"""Several processes: a config is pickled without secrets, each process runs the plugin once, clients are not sent."""

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
from kubeauth.testing import Answer, APIServer
from tests.support.clients import ClientVariant
from tests.support.processes import TASKS
from tests.support.shell_plugin import ShellPlugin

METHODS = ["spawn", "forkserver", "fork"]
TOKEN = "s3ntinel-token"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="requires os.fork")


@pytest.fixture
def plugin(tmp_path: Path) -> ShellPlugin:
    script = ShellPlugin(tmp_path)
    script.answer(token=TOKEN)
    return script


@pytest.fixture
def kubeconfig(server: APIServer, plugin: ShellPlugin, tmp_path: Path) -> str:
    server.tokens[TOKEN] = "alice"
    exec_config = plugin.exec_config(env=[{"name": "SETTING", "value": "s3ntinel-variable"}])
    document = server.kubeconfig({"exec": exec_config, "as": "dave"})
    document["contexts"].append({"name": "other", "context": {"cluster": "local", "user": "tester"}})
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def run_program(how: str, method: str, kubeconfig: str, plugin: ShellPlugin) -> Any:
    """Run tests.support.processes and return its JSON output."""
    completed = subprocess.run(
        [sys.executable, "-m", "tests.support.processes", how, method, kubeconfig],
        env={**os.environ, "ALLOWED": str(plugin.path)},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(completed.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["by_process", "by_pool", "by_executor"])
def test_a_config_is_sent_to_other_processes_and_each_runs_the_plugin_once(
    how: str, method: str, kubeconfig: str, plugin: ShellPlugin, server: APIServer
) -> None:
    results = run_program(how, method, kubeconfig, plugin)

    assert len(results) == (3 if how == "by_process" else TASKS)
    processes = {result.pop("process") for result in results}
    assert len(plugin.runs) == len(processes)
    # Each worker has all options that the parent passed to load_config.
    expected = {
        "status": 200, "timeout": 33.0, "allowed": [str(plugin.path)], "context": "other", "namespace": "web",
        "impersonated": "dave", "environment": {"SETTING": "s3ntinel-variable"},
    }  # fmt: skip
    assert results == [expected] * len(results)
    assert {request.header("Impersonate-User") for request in server.requests} == {"dave"}


@pytest.mark.parametrize("method", METHODS)
def test_a_client_cannot_be_sent_to_another_process(
    method: str, kubeconfig: str, plugin: ShellPlugin
) -> None:
    messages = run_program("refused", method, kubeconfig, plugin)

    assert len(messages) == (2 if method == "fork" else 3)
    for message in messages:
        assert message.startswith("ConfigError: Client cannot be pickled or copied")
        assert "Send its ClientConfig" in message


def test_a_server_that_forks_runs_the_plugin_once_for_each_process(
    kubeconfig: str, plugin: ShellPlugin, server: APIServer
) -> None:
    results = run_program("prefork", "fork", kubeconfig, plugin)
    assert results == [[200] * 100] * 5
    assert len(plugin.runs) == 5


def test_forked_children_use_the_credential_cached_before_the_fork(
    kubeconfig: str, plugin: ShellPlugin
) -> None:
    results = run_program("warm_prefork", "fork", kubeconfig, plugin)
    assert results == [[200] * 100] * 5
    assert len(plugin.runs) == 1


def test_objects_with_a_live_credential_cannot_be_pickled_or_copied(
    variant: ClientVariant, kubeconfig: str
) -> None:
    """The error says what to send instead."""
    with variant.client(kubeauth.load_config(kubeconfig)) as driver:
        driver.get("/version").raise_for_status()
        client = driver.client
        for value in (client, client._transport, client._transport._source):
            for function in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(
                    ConfigError, match=f"^{type(value).__name__} cannot be pickled or copied"
                ) as caught:
                    function(value)
                assert "Send its ClientConfig" in str(caught.value)


@pytest.mark.parametrize("caller_signs", [False, True])
def test_pickled_responses_and_errors_contain_no_credential(
    caller_signs: bool, variant: ClientVariant, server: APIServer
) -> None:
    """Responses and errors are pickled with their requests, also after redirects."""
    server.tokens[TOKEN] = "alice"
    server.on("GET", "/redirect", Answer(302, headers={"Location": "/version"}))
    server.on("POST", "/closed", Answer(hang_up=True))
    config = server.config(token=TOKEN)
    results: list[Any] = []
    headers = {"Authorization": f"Bearer {TOKEN}"} if caller_signs else {}

    def new_plain_client() -> Any:
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config),
            verify=kubeauth.ssl_context(config),
            base_url=config.server,
        )

    for new_client in (lambda: variant.Client(config), new_plain_client):
        with variant.drive(new_client) as driver:
            for path, follow in (
                ("/version", False),
                ("/missing", False),
                ("/redirect", True),
                ("/redirect", False),
            ):
                results.append(driver.get(path, follow_redirects=follow, headers=headers))
            with pytest.raises(variant.library.HTTPStatusError) as status_error:
                results[-3].raise_for_status()
            results.append(status_error.value.request)
            with pytest.raises(variant.library.RequestError) as request_error:
                driver.request("POST", "/closed", headers=headers)
            results.append(request_error.value)

    statuses = [getattr(result, "status_code", None) for result in results]
    assert statuses == [200, 404, 200, 302, None, None] * 2
    assert {request.user for request in server.requests} == {"alice"}
    # A header that the caller has set is not removed.
    assert all((TOKEN.encode() in pickle.dumps(result)) == caller_signs for result in results)


@pytest.mark.parametrize("caller_signs", [False, True])
def test_pickled_errors_after_a_redirect_contain_no_credential(
    caller_signs: bool, variant: ClientVariant, server: APIServer
) -> None:
    """The library copies the request and its headers for the redirect, and its error refers to the copy."""
    server.tokens[TOKEN] = "alice"
    redirects = {
        "/to-closed": "/closed",
        "/to-404": "/to-missing",
        "/to-missing": "/missing",
        "/loop": "/loop",
    }
    for path, target in redirects.items():
        server.on("GET", path, Answer(307, headers={"Location": target}))
    server.on("GET", "/closed", Answer(hang_up=True))
    config = server.config(token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"} if caller_signs else {}

    def raise_for_status(response: Any) -> None:
        if response.status_code >= 400:
            response.raise_for_status()

    async def araise_for_status(response: Any) -> None:
        raise_for_status(response)

    hook = araise_for_status if variant.is_async else raise_for_status

    def new_client() -> Any:
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config), verify=kubeauth.ssl_context(config), base_url=config.server,
            event_hooks={"response": [hook]}, follow_redirects=True,
        )  # fmt: skip

    results: list[Any] = []

    with variant.drive(new_client) as driver:
        for path in ("/to-closed", "/to-404", "/loop"):
            with pytest.raises(variant.library.HTTPError) as caught:
                driver.get(path, headers=headers)
            results += [caught.value, caught.value.request]

    names = [type(result).__name__ for result in results[::2]]
    assert names == ["RemoteProtocolError", "HTTPStatusError", "TooManyRedirects"]
    assert {request.user for request in server.requests} == {"alice"}
    assert all((TOKEN.encode() in pickle.dumps(result)) == caller_signs for result in results)


def test_a_pickled_error_of_a_retry_after_a_401_contains_no_credential(
    variant: ClientVariant, server: APIServer, plugin: ShellPlugin
) -> None:
    server.on("GET", "/redirect", Answer(307, headers={"Location": "/closed"}))
    server.on("GET", "/closed", Answer(hang_up=True))
    server.tokens["s3ntinel-newer"] = "alice"
    config = kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))

    def new_client() -> Any:
        return variant.PlainClient(
            auth=variant.kubeauth.KubeAuth(config),
            verify=kubeauth.ssl_context(config),
            base_url=config.server,
        )

    with variant.drive(new_client) as driver:
        server.tokens[TOKEN] = "bob"
        assert driver.get("/version").status_code == 200
        del server.tokens[TOKEN]
        plugin.answer(token="s3ntinel-newer")

        with pytest.raises(variant.library.RemoteProtocolError) as caught:
            driver.get("/redirect", follow_redirects=True)

    assert server.requests[-1].user == "alice"
    assert b"s3ntinel" not in pickle.dumps([caught.value, caught.value.request])


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_closing_an_auth_flow_does_not_modify_requests_of_other_clients(
    library: Any, server: APIServer
) -> None:
    """An error of another client is being handled when the flow is closed: it has a request of that client."""
    other_request = library.Request("GET", "https://other/", headers={"Authorization": "Bearer other"})
    auth = (kubeauth if library is httpx else kubeauth.httpx2).KubeAuth(server.config(token=TOKEN))
    flow = auth.sync_auth_flow(library.Request("GET", f"{server.url}/version"))
    signed = next(flow)

    with pytest.raises(library.ConnectError), closing(flow):
        raise library.ConnectError("no", request=other_request)

    assert "Authorization" not in signed.headers
    assert other_request.headers["Authorization"] == "Bearer other"
