"""What every generated client does with kubeauth's credentials, in each of the three."""

from __future__ import annotations

import base64
import gc
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import TooManyRedirects
from urllib3.exceptions import MaxRetryError

import kubeauth
from kubeauth import ClientConfig, Impersonation
from kubeauth._config.environment import Environment
from kubeauth._config.in_cluster import load_in_cluster
from kubeauth._config.kubeconfig import Overrides
from kubeauth.errors import (
    ClientCertificateError,
    ConfigError,
    KubeConfigError,
    PluginFailed,
    PluginNotFound,
    PluginOutputError,
    ServerCertificateError,
)
from kubeauth.testing import Answer, APIServer, Authority, FakeClock, Received, Watch
from tests.adapters.expiring import check_refresh_after_expiry
from tests.adapters.generated import GENERATED, Driver, Generated, body_of, config_map
from tests.adapters.rotating import RotatingCluster
from tests.support.callers import BlockingPlugin
from tests.support.proxy_servers import Proxy
from tests.support.residue import no_residue, wait_until
from tests.support.shell_plugin import ShellPlugin

NAMESPACES = ["default", "kube-public", "kube-system"]
MAPS = "/api/v1/namespaces/web/configmaps"


@pytest.fixture(params=GENERATED, ids=str)
def generated(request: pytest.FixtureRequest) -> Generated:
    found: Generated = request.param
    return found


@pytest.fixture
def plugin(tmp_path: Path) -> ShellPlugin:
    return ShellPlugin(tmp_path)


def with_plugin(server: APIServer, plugin: ShellPlugin) -> ClientConfig:
    return kubeauth.load_config(server.kubeconfig({"exec": plugin.exec_config()}))


def answered(status: int) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": status}


class Users:
    """Every way to say who asks: the user of a kubeconfig, and who that is to the server."""

    def __init__(self, server: APIServer, directory: Path) -> None:
        self._server = server
        self._directory = directory
        pair = server.authority.client("carol")
        pair.write(directory / "c.pem", directory / "c.key")
        self._data = {
            "client-certificate-data": base64.b64encode(pair.certificate).decode(),
            "client-key-data": base64.b64encode(pair.key).decode(),
        }
        (directory / "token").write_text("alices-token\n")
        self._plugin = ShellPlugin(directory)

    def token(self) -> tuple[dict[str, Any], str]:
        return {"token": "alices-token"}, "alice"

    def token_file(self) -> tuple[dict[str, Any], str]:
        return {"tokenFile": str(self._directory / "token")}, "alice"

    def basic(self) -> tuple[dict[str, Any], str]:
        return {"username": "bob", "password": "pass:word"}, "bob"

    def certificate_data(self) -> tuple[dict[str, Any], str]:
        return self._data, "carol"

    def certificate_files(self) -> tuple[dict[str, Any], str]:
        files = {"client-certificate": "c.pem", "client-key": "c.key"}
        return {name: str(self._directory / file) for name, file in files.items()}, "carol"

    def exec_token(self) -> tuple[dict[str, Any], str]:
        self._plugin.answer(token="alices-token")
        return {"exec": self._plugin.exec_config()}, "alice"

    def exec_certificate(self) -> tuple[dict[str, Any], str]:
        pair = self._server.authority.client("dave")
        self._plugin.answer(certificate=pair.certificate, key=pair.key)
        return {"exec": self._plugin.exec_config()}, "dave"

    def exec_both(self) -> tuple[dict[str, Any], str]:
        pair = self._server.authority.client("dave")
        self._plugin.answer(token="alices-token", certificate=pair.certificate, key=pair.key)
        return {"exec": self._plugin.exec_config()}, "alice"


@pytest.mark.parametrize("kind", [name for name in vars(Users) if not name.startswith("_")])
def test_every_kind_of_credential(generated: Generated, server: APIServer, tmp_path: Path, kind: str) -> None:
    user, name = getattr(Users(server, tmp_path), kind)()
    with generated.drive(kubeauth.load_config(server.kubeconfig(user))) as api:
        assert api.namespaces() == NAMESPACES
        assert api.namespaces() == NAMESPACES
    assert [request.user for request in server.requests] == [name] * 2
    assert all(str(request.header("User-Agent")).startswith("kubeauth/") for request in server.requests)
    if kind in ("exec_both", "exec_certificate"):
        assert {request.common_name for request in server.requests} == {"dave"}


def test_in_a_pod(generated: Generated, server: APIServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("alices-token")
    (tmp_path / "ca.crt").write_bytes(server.authority.pem)
    host, _, port = server.url.removeprefix("https://").partition(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    config = load_in_cluster(Environment(environ=environ, service_account_dir=str(tmp_path)), Overrides())
    with generated.drive(config) as api:
        assert api.namespaces() == NAMESPACES
    assert server.requests[0].user == "alice"


def test_without_a_config_it_is_the_one_of_kubectl(
    generated: Generated, server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(server.kubeconfig({"token": "alices-token"})))
    monkeypatch.setenv("KUBECONFIG", str(path))
    with generated.drive(None) as api:
        assert api.namespaces() == NAMESPACES
    with pytest.raises(KubeConfigError, match='"nope" does not exist'):
        generated.module.api_client(context="nope")
    with pytest.raises(TypeError, match="a config or what to load one by"):
        generated.module.api_client(server.config(token="t"), context="test")


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_insecure(generated: Generated, server: APIServer) -> None:
    config = server.config(token="alices-token", ca_data=None, insecure_skip_tls_verify=True)
    with generated.drive(config) as api:
        assert api.namespaces() == NAMESPACES


def test_tls_server_name(generated: Generated, authority: Authority) -> None:
    with APIServer(authority=authority, certificate=authority.server("cluster.test")) as server:
        with generated.drive(server.config(tls_server_name="cluster.test")) as api:
            assert api.namespaces() == NAMESPACES
        assert server.requests[0].sni == "cluster.test"
        with (
            generated.drive(server.config()) as api,
            pytest.raises(ServerCertificateError, match="tls-server-name"),
        ):
            api.namespaces()


def test_a_server_of_another_authority_is_a_typed_error(generated: Generated, server: APIServer) -> None:
    config = server.config(token="alices-token", ca_data=Authority().pem)
    with generated.drive(config) as api, pytest.raises(ServerCertificateError, match="unknown authority"):
        api.namespaces()
    assert server.requests == []


def test_a_certificate_that_the_server_refuses_is_a_typed_error(
    generated: Generated, authority: Authority
) -> None:
    pair = Authority("other").client("mallory")
    with APIServer(authority=authority, require_certificate=True) as server:
        config = server.config(identity=pair)
        with generated.drive(config) as api:
            with pytest.raises(ClientCertificateError, match="rejected the client certificate"):
                api.namespaces()
    assert server.requests == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_url(generated: Generated, server: APIServer, authority: Authority, scheme: str) -> None:
    pair = authority.server("127.0.0.1") if scheme == "https" else None
    with Proxy(scheme, pair, client_authority=authority if pair else None) as proxy:
        identity = authority.client("carol")
        url = proxy.url.replace("//", "//me:my%20word@")
        config = server.config(identity=identity, proxy_url=url)
        if scheme == "https" and generated.is_async:
            with pytest.raises(
                ConfigError, match="would show an https proxy the cluster's client certificate"
            ):
                generated.drive(config).__enter__()
            return
        with generated.drive(config) as api:
            assert api.namespaces() == NAMESPACES
    assert proxy.targets == [server.url.removeprefix("https://")]
    assert proxy.credentials == ["me:my word"]
    assert not any(proxy.certificates)
    assert server.requests[0].user == "carol"


def test_a_socks_proxy_says_what_it_needs(generated: Generated, server: APIServer) -> None:
    config = server.config(token="alices-token", proxy_url="socks5://127.0.0.1:1")
    with pytest.raises(ConfigError, match="SOCKS"):
        generated.drive(config).__enter__()


def test_impersonation(generated: Generated, server: APIServer) -> None:
    who = Impersonation(user="zoë", groups=("a", "b"), extra={"Scopes": ("x",)})
    with generated.drive(server.config(token="alices-token", impersonate=who)) as api:
        api.namespaces()
    (request,) = server.requests
    assert request.all_headers("Impersonate-Group") == ["a", "b"]
    assert request.header("Impersonate-User").encode("latin-1").decode() == "zoë"  # type: ignore[union-attr]
    assert request.header("Impersonate-Extra-Scopes") == "x"


class TestPlugin:
    def test_fails_as_itself(self, generated: Generated, server: APIServer, plugin: ShellPlugin) -> None:
        plugin.answer(exit_code=3, stderr="no luck\n")
        with (
            generated.drive(with_plugin(server, plugin)) as api,
            pytest.raises(PluginFailed, match="exit code 3"),
        ):
            api.namespaces()
        assert server.requests == []

    def test_is_missing(self, generated: Generated, server: APIServer) -> None:
        stanza = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "no-such-login",
            "interactiveMode": "Never",
        }
        config = kubeauth.load_config(server.kubeconfig({"exec": stanza}))
        with generated.drive(config) as api, pytest.raises(PluginNotFound):
            api.namespaces()

    def test_the_request_after_the_expiry_sends_the_new_token_and_certificate(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        config = with_plugin(server, plugin)
        check_refresh_after_expiry(lambda clock: generated.drive(config, clock=clock), server, plugin)

    def test_a_revoked_token_costs_nobody_a_request(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        plugin.answer(token="t1")
        server.tokens["t1"] = "alice"
        bodies: list[Any] = []

        def created(request: Any) -> Answer:
            bodies.append(body_of(request))
            return Answer(201, config_map("made"))

        server.on("POST", MAPS, created)
        with generated.drive(with_plugin(server, plugin)) as api:
            api.namespaces()
            del server.tokens["t1"]
            server.tokens["t2"] = "alice"
            plugin.answer(token="t2")
            assert api.create("web", "made").metadata.name == "made"
        posts = [request for request in server.requests if request.method == "POST"]
        assert [request.user for request in posts] == [None, "alice"]
        assert posts[0].body == posts[1].body != b""
        assert bodies[0]["data"] == {"k": "v" * 100}
        assert len(plugin.runs) == 2
        # The 401 was read to its end: its connection was good for the second try.
        assert {request.connection for request in server.requests} == {1}

    def test_a_body_that_can_be_sent_once_is_not_sent_again(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        plugin.answer(token="t1")
        server.tokens["t1"] = "alice"
        with generated.drive(with_plugin(server, plugin)) as api:
            api.namespaces()
            del server.tokens["t1"]
            server.tokens["t2"] = "alice"
            plugin.answer(token="t2")
            name = "data" if generated.is_async else "body"
            send = api.api.rest_client.pool_manager.request
            body = {name: io.BytesIO(b"once")}
            assert api.run(send, "POST", f"{server.url}{MAPS}", **body).status == 401
            # But the next caller has the new credential.
            assert api.namespaces() == NAMESPACES
        assert [request.body for request in server.requests if request.method == "POST"] == [b"once"]
        assert len(plugin.runs) == 2

    def test_a_revoked_certificate_costs_nobody_a_request(
        self, generated: Generated, authority: Authority, plugin: ShellPlugin
    ) -> None:
        welcome = {"carol"}

        def who(request: Any) -> str | None:
            return request.common_name if request.common_name in welcome else None

        def issue(name: str) -> None:
            pair = authority.client(name)
            plugin.answer(certificate=pair.certificate, key=pair.key)

        with APIServer(authority=authority, authenticate=who) as server:
            issue("carol")
            with generated.drive(with_plugin(server, plugin)) as api:
                api.namespaces()
                welcome.clear()
                welcome.add("dave")
                issue("dave")
                assert api.namespaces() == NAMESPACES
            assert [request.common_name for request in server.requests] == ["carol", "carol", "dave"]
            assert len(plugin.runs) == 2

    def test_a_second_401_is_the_callers(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        plugin.answer(token="bad")
        with generated.drive(with_plugin(server, plugin)) as api:
            with pytest.raises(generated.client.ApiException) as caught:
                api.namespaces()
            assert caught.value.status == 401
        # The same token again is no reason to ask again.
        assert len(server.requests) == 1
        assert len(plugin.runs) == 2

    def test_a_403_is_no_reason_to_run_it(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        plugin.answer(token="alices-token")
        server.on("GET", "/api/v1/namespaces", Answer(403, answered(403)))
        with generated.drive(with_plugin(server, plugin)) as api:
            with pytest.raises(generated.client.ApiException) as caught:
                api.namespaces()
            assert caught.value.status == 403
        assert (len(plugin.runs), len(server.requests)) == (1, 1)

    def test_who_signs_for_themselves_is_left_alone(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        with generated.drive(with_plugin(server, plugin)) as api:
            api.api.set_default_header("Authorization", "Bearer alices-token")
            assert api.namespaces() == NAMESPACES
            api.api.set_default_header("Authorization", "Bearer wrong")
            with pytest.raises(generated.client.ApiException):
                api.namespaces()
        assert server.requests[0].all_headers("Authorization") == ["Bearer alices-token"]
        assert len(server.requests) == 2
        assert plugin.runs == []

    def test_is_left_when_the_last_client_is_closed(
        self, generated: Generated, server: APIServer, tmp_path: Path
    ) -> None:
        held = BlockingPlugin(tmp_path)
        config = kubeauth.ClientConfig(
            server=server.url, ca_data=server.authority.pem, exec=held.config().exec
        )
        failures: list[BaseException] = []

        def ask(api: Driver) -> None:
            try:
                api.namespaces()
            except BaseException as error:
                failures.append(error)

        with no_residue(), generated.drive(config) as api:
            asking = threading.Thread(target=ask, args=(api,))
            asking.start()
            wait_until(lambda: held.runs == 1)
            api.close()
            asking.join()
        assert len(failures) == 1

    def test_works_again_after_close(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        plugin.answer(token="alices-token")
        with generated.drive(with_plugin(server, plugin)) as api:
            api.namespaces()
            api.close()
            wait_until(lambda: server.open_connections == 0)
            assert api.namespaces() == NAMESPACES
        assert len(plugin.runs) == 1


KINDS = {"token": (True, False), "certificate": (False, True)}


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[RotatingCluster]:
    token, certificate = KINDS[request.param]
    made = RotatingCluster(token=token, certificate=certificate)
    yield made
    made.close()


class Callers:
    """Threads that list until they are told to stop. Keeps what failed."""

    def __init__(self, call: Callable[[], object], count: int) -> None:
        self.failures: list[BaseException] = []
        self.calls = 0
        self._call = call
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._call()
                self.calls += 1
            except BaseException as error:
                self.failures.append(error)
            time.sleep(0.02)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.load
def test_rotation_under_callers_and_a_watch(generated: Generated, cluster: RotatingCluster) -> None:
    """Past three expiries: nobody sees a 401, one run for each, and the watch lives through all of them."""
    server = cluster.server
    watch = server.watch(MAPS)
    config = kubeauth.load_config(cluster.kubeconfig())
    with no_residue():
        with generated.drive(config) as api, api.watch("web") as events:
            callers = Callers(api.namespaces, 6)
            seen: list[str] = []
            reader = threading.Thread(target=lambda: seen.extend(e["object"].metadata.name for e in events))
            reader.start()
            watch.wait_for_watchers(timeout=60)
            sent = 0
            while cluster.seen < 4 or callers.calls <= 50:
                sent += 1
                watch.send({"type": "ADDED", "object": config_map(f"m{sent}", sent)})
                time.sleep(0.1)
            callers.stop()
            watch.end()
            reader.join()
        assert callers.failures == []
        assert cluster.refused == 0
        assert seen == [f"m{number}" for number in range(1, sent + 1)]
        assert [request.path for request in server.requests if "watch=" in request.path.lower()][1:] == []
        # One that was got ahead of time may not have been shown to the server before the end.
        assert cluster.issued - cluster.seen in (0, 1)


def test_a_retired_pool_is_closed_with_its_last_response(
    generated: Generated, server: APIServer, tmp_path: Path
) -> None:
    files = tmp_path / "c.pem", tmp_path / "c.key"
    clock = FakeClock()
    server.authority.client("carol").write(*files)
    watch = server.watch(MAPS)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    with generated.drive(config, clock=clock) as api:
        with api.watch("web") as events:
            sender = threading.Thread(target=_send_the_first, args=(watch,))
            sender.start()
            assert next(events)["object"].metadata.name == "m1"
            sender.join()
            api.namespaces()
            assert server.open_connections == 2
            server.authority.client("dave").write(*files)
            clock.advance(2.0)
            api.namespaces()
            if not generated.is_async:
                # The idle one is closed, the watch is not, and the new one is open. aiohttp closes them all
                # at once, or each after 15 seconds.
                wait_until(lambda: server.open_connections == 2)
            watch.send({"type": "ADDED", "object": config_map("m2")})
            assert next(events)["object"].metadata.name == "m2"
            watch.end()
            assert list(events) == []
        wait_until(lambda: server.open_connections == 1)
        api.namespaces()
    users = [request.user for request in server.requests]
    assert users == ["carol", "carol", "dave", "dave"]
    assert server.requests[2].connection == server.requests[3].connection


def _send_the_first(watch: Watch) -> None:
    watch.wait_for_watchers(timeout=60)
    watch.send({"type": "ADDED", "object": config_map("m1")})


def test_a_response_that_nobody_closed_holds_nothing(
    generated: Generated, server: APIServer, tmp_path: Path
) -> None:
    """Once it has come to its end, that is: until then aiohttp itself keeps it, whoever has forgotten it."""
    files = tmp_path / "c.pem", tmp_path / "c.key"
    clock = FakeClock()
    server.authority.client("carol").write(*files)
    watch = server.watch(MAPS)
    config = server.config(client_cert_file=str(files[0]), client_key_file=str(files[1]))
    with generated.drive(config, clock=clock) as api:
        response = api.unread("web")
        server.authority.client("dave").write(*files)
        clock.advance(2.0)
        api.namespaces()
        assert server.open_connections == 2
        del response
        gc.collect()
        watch.end()
        wait_until(lambda: server.open_connections == 1)


def test_a_401_whose_body_breaks_off_is_repeated_all_the_same(
    generated: Generated, server: APIServer, plugin: ShellPlugin
) -> None:
    server.tokens |= {"old": "alice", "new": "alice"}
    plugin.answer(token="old")

    def answer(request: Received) -> Answer:
        if request.header("Authorization") == "Bearer new":
            return Answer(body=config_map("made"))
        plugin.answer(token="new")
        return Answer(401, b"four", headers={"Content-Length": "100", "Connection": "close"})

    server.on("POST", MAPS, answer)
    with generated.drive(with_plugin(server, plugin)) as api:
        assert api.create("web", "made").metadata.name == "made"
    assert len(plugin.runs) == 2


def test_nothing_of_ours_goes_elsewhere(
    generated: Generated, server: APIServer, public: Authority, authority: Authority
) -> None:
    """Neither by a redirect nor for an address of another server."""
    who = Impersonation(user="jane")
    config = server.config(token="alices-token", identity=authority.client("carol"), impersonate=who)
    with APIServer(authority=public, client_authority=authority) as other:
        other.on("GET", "/there", Answer(body=b"hello"))
        server.on("GET", "/away", Answer(302, headers={"Location": f"{other.url}/there"}))
        server.on("GET", "/near", Answer(302, headers={"Location": "/version"}))
        with generated.drive(config) as api:
            assert api.raw(f"{server.url}/away") == (200, b"hello")
            assert api.raw(f"{other.url}/there") == (200, b"hello")
            assert api.raw(f"{server.url}/near")[0] == 200
            assert (
                api.raw(f"{server.url}/away", Authorization="Bearer alices-token", **{"X-Mine": "1"})[0]
                == 200
            )
    for request in other.requests:
        assert (request.header("Authorization"), request.certificate) == (None, None)
        assert request.header("Impersonate-User") is None
    assert len(other.requests) == 3
    assert other.requests[-1].header("X-Mine") == "1"
    assert [request.user for request in server.requests] == ["alice"] * 4


def test_going_round_in_circles_has_an_end(generated: Generated, server: APIServer) -> None:
    server.on("GET", "/round", Answer(302, headers={"Location": "/round"}))
    with generated.drive(server.config(token="alices-token")) as api:
        with pytest.raises((TooManyRedirects, MaxRetryError)):
            api.raw(f"{server.url}/round")
    assert len(server.requests) < 20


def test_a_watch_takes_objects_as_large_as_etcd_does(generated: Generated, server: APIServer) -> None:
    watch = server.watch(MAPS)
    large = config_map("large") | {"data": {"k": "v" * 1_400_000}}
    with generated.drive(server.config(token="alices-token")) as api, api.watch("web") as events:
        sender = threading.Thread(target=_send, args=(watch, large))
        sender.start()
        seen = next(events)
        sender.join()
        watch.end()
    assert len(seen["object"].data["k"]) == 1_400_000


def _send(watch: Watch, item: dict[str, Any]) -> None:
    watch.wait_for_watchers(timeout=60)
    watch.send({"type": "ADDED", "object": item})


def test_a_server_that_was_restarted(generated: Generated, server: APIServer) -> None:
    with generated.drive(server.config(token="alices-token")) as api:
        api.namespaces()
        server.hang_up()
        wait_until(lambda: server.open_connections == 0)
        assert api.namespaces() == NAMESPACES


def test_pages(generated: Generated, server: APIServer) -> None:
    def page(request: Any) -> Answer:
        last = "continue=next" in request.path
        metadata = {} if last else {"continue": "next"}
        items = [{"metadata": {"name": "b" if last else "a"}}]
        return Answer(
            body={"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items}
        )

    server.on("GET", MAPS, page)
    with generated.drive(server.config(token="alices-token")) as api:
        names, token = [], None
        while True:
            options: dict[str, Any] = {"_continue": token} if token else {}
            found = api.call("list_namespaced_config_map", "web", limit=1, **options)
            names += [item.metadata.name for item in found.items]
            token = found.metadata._continue
            if not token:
                break
    assert names == ["a", "b"]


def test_status(generated: Generated, server: APIServer, plugin: ShellPlugin) -> None:
    plugin.answer(token="alices-token", expires_in=900)
    with generated.drive(with_plugin(server, plugin)) as api:
        api.namespaces()
        status = api.api.status()
    assert (status.kind, status.expires is not None) == ("token", True)


def test_a_password_in_the_servers_address_is_sent_as_a_header(
    generated: Generated, server: APIServer
) -> None:
    url = server.url.replace("//", "//bob:pass%3Aword@")
    with generated.drive(server.config(server=url)) as api:
        assert api.namespaces() == NAMESPACES
        assert "pass" not in api.api.configuration.host
    assert server.requests[0].user == "bob"


class TestConfiguration:
    def drive(self, generated: Generated, config: ClientConfig, **options: Any) -> Any:
        def make() -> Any:
            return generated.client.ApiClient(generated.module.configuration(config, **options))

        async def amake() -> Any:
            return make()

        return generated.drive(None, amake if generated.is_async else make)

    def test_the_request_after_the_expiry_sends_the_new_token(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        def open_client(clock: FakeClock) -> Any:
            return self.drive(generated, with_plugin(server, plugin), clock=clock)

        check_refresh_after_expiry(open_client, server, plugin, certificates=False)

    def test_a_token_that_has_expired_when_it_is_returned_is_sent_once(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        clock = FakeClock(time.time() + 60)
        plugin.answer(token="alices-token", expires_in=0)
        with self.drive(generated, with_plugin(server, plugin), clock=clock) as api:
            assert api.namespaces() == NAMESPACES
            with pytest.raises(PluginOutputError, match="returned an expired credential"):
                api.namespaces()
            assert len(plugin.runs) == 1
            plugin.answer(token="alices-token", expires_in=900)
            clock.advance(2.0)  # longer than the first delay between runs
            assert api.namespaces() == NAMESPACES
        assert [request.user for request in server.requests] == ["alice", "alice"]
        assert len(plugin.runs) == 2

    @pytest.mark.parametrize("kind", ["token", "token_file", "basic", "certificate_files"])
    def test_what_it_can_hold(
        self, generated: Generated, server: APIServer, tmp_path: Path, kind: str
    ) -> None:
        user, name = getattr(Users(server, tmp_path), kind)()
        with self.drive(generated, kubeauth.load_config(server.kubeconfig(user))) as api:
            assert api.namespaces() == NAMESPACES
        assert server.requests[0].user == name

    def test_as_the_default_of_the_library(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        """Which keeps a copy: the hook is in it."""
        plugin.answer(token="alices-token")
        Configuration = generated.client.Configuration
        Configuration.set_default(generated.module.configuration(with_plugin(server, plugin)))

        async def amake() -> Any:
            return generated.client.ApiClient()

        try:
            with generated.drive(None, amake if generated.is_async else generated.client.ApiClient) as api:
                assert api.namespaces() == NAMESPACES
        finally:
            Configuration._default = None
        assert server.requests[0].user == "alice"

    def test_a_plugins_certificate_is_refused_by_name(
        self, generated: Generated, server: APIServer, tmp_path: Path
    ) -> None:
        user, _ = Users(server, tmp_path).exec_certificate()
        with self.drive(generated, kubeauth.load_config(server.kubeconfig(user))) as api:
            with pytest.raises(ConfigError, match=rf"kubeauth\.adapters\.{generated.adapter}\.api_client"):
                api.namespaces()
        assert server.requests == []

    def test_what_it_cannot_hold_is_refused(self, generated: Generated, server: APIServer) -> None:
        make = generated.module.configuration
        with pytest.raises(ConfigError, match="impersonation"):
            make(server.config(token="t", impersonate=Impersonation(user="jane")))
        with pytest.raises(ConfigError, match="written to one"):
            make(server.config(identity=server.authority.client("carol")))

    def test_a_failing_plugin_fails_as_itself(
        self, generated: Generated, server: APIServer, plugin: ShellPlugin
    ) -> None:
        plugin.answer(exit_code=3)
        with self.drive(generated, with_plugin(server, plugin)) as api, pytest.raises(PluginFailed):
            api.namespaces()
        assert server.requests == []


def test_no_secret_is_shown(generated: Generated, server: APIServer) -> None:
    sentinel = "s3cret-token"
    config = server.config(token=sentinel)
    with generated.drive(config) as api:
        with pytest.raises(generated.client.ApiException) as caught:
            api.namespaces()
        shown = [
            str(caught.value),
            repr(caught.value),
            repr(api.api.rest_client.pool_manager),
            repr(vars(api.api)),
        ]
        shown.append(repr(vars(api.api.configuration)))
    assert not [text for text in shown if sentinel in text]
