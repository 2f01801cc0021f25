"""What is particular to the official client: threads, dynamic clients, and exec over websockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, dynamic, stream
from kubernetes.client.rest import RESTClientObject

import kubeauth
from kubeauth import ClientConfig, Impersonation, Secret
from kubeauth.adapters import kubernetes
from kubeauth.errors import ConfigError, PluginFailed
from kubeauth.testing import Answer, APIServer, Authority, Received
from tests.adapters.websockets import Shells, shells
from tests.support.callers import BlockingPlugin
from tests.support.residue import no_residue, temporary_files, wait_until
from tests.support.shell_plugin import ShellPlugin


def test_it_is_one_of_theirs(server: APIServer) -> None:
    with kubernetes.api_client(server.config(token="alices-token")) as api:
        assert isinstance(api, client.ApiClient)
        assert type(api.rest_client) is RESTClientObject


def test_fifty_threads_cause_one_run(server: APIServer, tmp_path: Path) -> None:
    plugin = BlockingPlugin(tmp_path)
    plugin.set_token("alices-token")
    config = ClientConfig(server=server.url, ca_data=server.authority.pem, exec=plugin.config().exec)
    barrier = threading.Barrier(50)
    found: list[int] = []

    def ask(api: client.ApiClient) -> None:
        barrier.wait()
        found.append(len(client.CoreV1Api(api).list_namespace().items))

    with no_residue(), kubernetes.api_client(config) as one, kubernetes.api_client(config) as other:
        threads = [threading.Thread(target=ask, args=(api,)) for api in (one, other) for _ in range(25)]
        for thread in threads:
            thread.start()
        wait_until(lambda: plugin.runs == 1)
        plugin.release()
        for thread in threads:
            thread.join()
    assert found == [3] * 50
    assert plugin.runs == 1


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1"])
def test_a_401_with_an_invalid_length_is_repeated_on_another_connection(
    server: APIServer, tmp_path: Path, length: str
) -> None:
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="old")
    server.tokens |= {"old": "alice", "new": "alice"}

    def answer(request: Received) -> Answer:
        if request.header("Authorization") == "Bearer new":
            return Answer(body={"kind": "NamespaceList", "apiVersion": "v1", "items": []})
        plugin.answer(token="new")
        return Answer(401, b"", headers={"Content-Length": length, "Connection": "close"})

    server.on("GET", "/api/v1/namespaces", answer)
    config = kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))
    with kubernetes.api_client(config) as api:
        assert client.CoreV1Api(api).list_namespace().items == []
    assert len(plugin.runs) == 2


def test_settings_of_a_configuration_are_kept(server: APIServer) -> None:
    mine: Any = client.Configuration(host="https://elsewhere.test")
    mine.retries, mine.connection_pool_maxsize, mine.keep_alive = 7, 3, True
    mine.api_key = {"BearerToken": "Bearer of-somebody-else"}
    with kubernetes.api_client(server.config(token="alices-token"), configuration=mine) as api:
        client.CoreV1Api(api).list_namespace()
        inner: Any = api._transport._pools.current.transport
        pool = inner._manager.connection_pool_kw
        assert (pool["retries"].total, pool["maxsize"]) == (7, 3)
        assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in pool["socket_options"]
    assert server.requests[0].all_headers("Authorization") == ["Bearer alices-token"]
    assert mine.host == "https://elsewhere.test"


def test_async_req(server: APIServer) -> None:
    with kubernetes.api_client(server.config(token="alices-token")) as api:
        answer: Any = client.CoreV1Api(api).list_namespace(async_req=True)
        assert len(answer.get().items) == 3


def test_dynamic_client(server: APIServer, tmp_path: Path) -> None:
    resources = {
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1",
        "resources": [{
            "name": "namespaces", "singularName": "namespace", "namespaced": False, "kind": "Namespace",
            "verbs": ["get", "list"],
        }],
    }  # fmt: skip
    server.on("GET", "/api", Answer(body={"kind": "APIVersions", "versions": ["v1"]}))
    server.on("GET", "/apis", Answer(body={"kind": "APIGroupList", "groups": []}))
    server.on("GET", "/api/v1", Answer(body=resources))
    plugin = ShellPlugin(tmp_path)
    plugin.answer(token="alices-token")
    config = kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))
    with kubernetes.api_client(config) as api:
        found = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
        names = [
            item.metadata.name for item in found.resources.get(api_version="v1", kind="Namespace").get().items
        ]
    assert names == ["default", "kube-public", "kube-system"]
    assert {request.user for request in server.requests} == {"alice"}
    assert len(plugin.runs) == 1


class TestStream:
    """kubernetes.stream makes a connection of its own, with another library."""

    @pytest.fixture
    def shells(self, authority: Authority) -> Iterator[Shells]:
        with shells(authority) as it:
            yield it

    def run(self, config: ClientConfig) -> str:
        with kubernetes.api_client(config) as api:
            call = client.CoreV1Api(api).connect_get_namespaced_pod_exec
            # Not read by stream() itself, which would leave the socket open.
            shell = stream.stream(
                call, "web-0", "web", command=["id", "-u"], stdout=True, _preload_content=False
            )
            shell.run_forever(timeout=60)
            said: str = shell.read_all()
            shell.sock.shutdown()  # which its close() does not do after the other side has closed
            return said

    def config(self, shells: Shells, **fields: Any) -> ClientConfig:
        return ClientConfig(**({"server": shells.url, "ca_data": shells.authority.pem} | fields))

    def test_with_a_token_of_a_plugin(self, shells: Shells, tmp_path: Path) -> None:
        plugin = ShellPlugin(tmp_path)
        plugin.answer(token="t1")
        stanza = plugin.exec_config()
        config = kubeauth.load_config({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": shells.url, "certificate-authority": str(self.ca(shells, tmp_path))}}],
            "users": [{"name": "u", "user": {"exec": stanza}}],
        })  # fmt: skip
        assert self.run(config) == "ran id -u"
        assert [asked.authorization for asked in shells.asked] == ["Bearer t1"]

    def ca(self, shells: Shells, directory: Path) -> Path:
        path = directory / "ca.pem"
        path.write_bytes(shells.authority.pem)
        return path

    def test_a_ca_in_the_kubeconfig_goes_to_a_file_that_is_no_secret(self, shells: Shells) -> None:
        before = temporary_files()
        assert self.run(self.config(shells, token=Secret("t1"))) == "ran id -u"
        assert all(name.startswith("kubeauth-ca-") for name in temporary_files() - before)

    def test_who_signs_for_themselves_is_left_alone(self, shells: Shells) -> None:
        with kubernetes.api_client(self.config(shells, token=Secret("t1"))) as api:
            # In small letters: stream() passes on no other.
            api.set_default_header("authorization", "Bearer mine")  # type: ignore[no-untyped-call]
            call = client.CoreV1Api(api).connect_get_namespaced_pod_exec
            shell = stream.stream(call, "web-0", "web", command=["id"], _preload_content=False)
            shell.run_forever(timeout=60)
            shell.sock.shutdown()
        assert [asked.authorization for asked in shells.asked] == ["Bearer mine"]

    def test_a_certificate_is_refused(self, shells: Shells) -> None:
        pair = shells.authority.client("carol")
        config = self.config(shells, client_cert_data=pair.certificate, client_key_data=Secret(pair.key))
        with pytest.raises(ConfigError, match="ws_api_client"):
            self.run(config)
        assert shells.asked == []

    def test_impersonation_is_refused(self, shells: Shells) -> None:
        with pytest.raises(ConfigError, match="somebody else"):
            self.run(self.config(shells, token=Secret("t1"), impersonate=Impersonation(user="jane")))
        assert shells.asked == []

    def test_requests_go_on_as_before(self, server: APIServer, tmp_path: Path) -> None:
        """Also after one that failed: stream() changes the client while it is at work."""
        plugin = ShellPlugin(tmp_path)
        plugin.answer(exit_code=3)
        config = kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))
        with kubernetes.api_client(config) as api:
            core = client.CoreV1Api(api)
            with pytest.raises(PluginFailed):
                stream.stream(core.connect_get_namespaced_pod_exec, "web-0", "web", command=["id"])
            with pytest.raises(PluginFailed):
                core.list_namespace()
