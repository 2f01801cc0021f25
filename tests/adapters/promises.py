"""What every client is promised with kubeauth below it, in every runtime. Each test module inherits them."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

from kubeauth import ClientConfig, errors, load_config
from kubeauth.testing import Answer, APIServer, Authority, Received
from tests.adapters.driver import RUNTIMES, Driver, Side, opened
from tests.adapters.expiring import check_refresh_after_expiry
from tests.adapters.rotating import RotatingCluster
from tests.support.residue import no_residue, temporary_files
from tests.support.shell_plugin import ShellPlugin

NAMESPACES = ["default", "kube-public", "kube-system"]
CROWD = 50
WATCHED = "/api/v1/namespaces/default/configmaps"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "main"}]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")],
    },
}
Open = Callable[..., AbstractContextManager[Driver]]


def event(name: str, version: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return {"type": "ADDED", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}


def executes(request: Received) -> Answer:
    """An exec, as a kubelet answers it through the API server: some output, and that it went well."""
    key = f"{request.header('Sec-WebSocket-Key')}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()  # noqa: S324 -- RFC 6455
    protocol = str(request.header("Sec-WebSocket-Protocol")).split(",")[0].strip()
    messages = [b"\x01hello", b"\x03" + json.dumps({"status": "Success", "metadata": {}}).encode()]
    frames = [bytes([0x82, len(message)]) + message for message in messages]
    close = bytes([0x88, 2]) + (1000).to_bytes(2)
    return Answer(
        101,
        b"".join([*frames, close]),
        {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": accept,
            "Sec-WebSocket-Protocol": protocol,
        },
    )


class Promises:
    """`sides` has the two runtimes; `Refused` is what the client raises for a 401 or a 403."""

    sides: ClassVar[Mapping[str, Side]]
    Refused: ClassVar[type[Exception]]

    @pytest.fixture(params=RUNTIMES)
    def runtime(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def open(self, runtime: str) -> Open:
        return partial(opened, self.sides["sync" if runtime == "sync" else "async"], runtime)

    @pytest.fixture
    def server(self, authority: Authority) -> Iterator[APIServer]:
        with APIServer(authority=authority, tokens={"t1": "alice"}, passwords={"bob": "pass-word"}) as it:
            yield it

    @pytest.fixture
    def plugin(self, tmp_path: Path) -> ShellPlugin:
        plugin = ShellPlugin(tmp_path)
        plugin.answer(token="t1", expires_in=3600)
        return plugin

    @pytest.fixture
    def config(self, server: APIServer, plugin: ShellPlugin) -> ClientConfig:
        return load_config(server.kubeconfig({"exec": plugin.exec_config()}))

    # Whoever leaves a watch of theirs before its end leaves generators behind, and trio says so.
    @pytest.mark.load
    @pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
    def test_credentials_are_replaced_under_lists_and_a_watch(self, open: Open, config: ClientConfig) -> None:
        with open(config) as warm:
            # So that what it makes once and keeps is there before anything is counted: kr8s has a loop.
            warm.namespaces()
        cluster = RotatingCluster(token=True, certificate=True)
        try:
            self._replaced(open, cluster)
        finally:
            cluster.close()

    def _replaced(self, open: Open, cluster: RotatingCluster) -> None:
        watch = cluster.server.watch(WATCHED)
        with no_residue(), open(load_config(cluster.kubeconfig())) as driver:
            with ThreadPoolExecutor(1) as watching, driver.watch("default") as next_event:
                # A watch is opened when the first event is asked for.
                first = watching.submit(next_event)
                watch.wait_for_watchers(timeout=60)
                watch.send(event("config-0", 1))
                assert first.result() == ("ADDED", "config-0")
                number = 0
                while cluster.seen < 4:
                    number += 1
                    assert driver.namespaces() == NAMESPACES
                    watch.send(event(f"config-{number}", number + 1))
                    assert next_event() == ("ADDED", f"config-{number}")
                    assert temporary_files() == set()  # those of no_residue
                    time.sleep(0.01)  # for others, while a credential lives
            watch.end()
        # Every credential that was issued was used, but for one that may have come just now.
        assert cluster.seen <= cluster.issued <= cluster.seen + 1
        watches = [each for each in cluster.server.requests if each.path.startswith(WATCHED)]
        assert len(watches) == 1
        # None was used when its time was over.
        assert cluster.refused == 0

    def test_the_request_after_the_expiry_sends_the_new_token_and_certificate(
        self, open: Open, server: APIServer, config: ClientConfig, plugin: ShellPlugin
    ) -> None:
        check_refresh_after_expiry(lambda clock: open(config, clock=clock), server, plugin)

    def test_a_credential_that_is_revoked_is_replaced_within_the_call(
        self, open: Open, server: APIServer, config: ClientConfig, plugin: ShellPlugin
    ) -> None:
        with open(config) as driver:
            assert driver.namespaces() == NAMESPACES
            server.tokens = {"t2": "alice"}
            plugin.answer(token="t2", expires_in=3600)
            server.requests.clear()
            assert driver.namespaces() == NAMESPACES
        assert [request.user for request in server.requests] == [None, "alice"]
        assert len(plugin.runs) == 2

    def test_a_403_is_an_answer(
        self, open: Open, server: APIServer, config: ClientConfig, plugin: ShellPlugin
    ) -> None:
        forbidden = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not for you"}
        with open(config) as driver:
            assert driver.namespaces() == NAMESPACES
            server.on(
                "GET", "/api/v1/namespaces", Answer(403, forbidden | {"reason": "Forbidden", "code": 403})
            )
            server.requests.clear()
            with pytest.raises(self.Refused, match="not for you"):
                driver.namespaces()
            assert len(server.requests) == 1
            server.on("GET", "/api/v1/namespaces", Answer(body={"kind": "NamespaceList", "apiVersion": "v1",
                      "metadata": {}, "items": []}))  # fmt: skip
            assert driver.namespaces() == []
        assert len(plugin.runs) == 1

    def test_nobody_is_asked_again_for_a_401_that_stays(
        self, open: Open, server: APIServer, config: ClientConfig, plugin: ShellPlugin
    ) -> None:
        with open(config) as driver:
            assert driver.namespaces() == NAMESPACES
            server.tokens = {"unknown": "alice"}
            server.requests.clear()
            with pytest.raises(self.Refused, match="Unauthorized"):
                driver.namespaces()
        assert len(server.requests) == 1
        assert len(plugin.runs) == 2

    @pytest.mark.slow
    def test_a_crowd_is_one_run(
        self, open: Open, runtime: str, server: APIServer, config: ClientConfig, plugin: ShellPlugin
    ) -> None:
        with open(server.config(token="t1")) as warm:
            # lightkube: msgspec was seen to crash when many threads are the first to use it.
            warm.namespaces()
        plugin.answer(token="t1", expires_in=3600, sleep=0.3)
        with open(config) as driver:
            if runtime == "sync":
                barrier = threading.Barrier(CROWD)

                def call(_: int) -> list[str]:
                    barrier.wait()
                    return driver.namespaces()

                with ThreadPoolExecutor(CROWD) as pool:
                    answers = list(pool.map(call, range(CROWD)))
            else:
                answers = driver.call(self._tasks, driver.client)
        assert answers == [NAMESPACES] * CROWD
        assert len(plugin.runs) == 1

    async def _tasks(self, client: Any) -> list[list[str]]:
        answers: list[list[str]] = []
        start = anyio.Event()

        async def call() -> None:
            await start.wait()
            answers.append(await self.sides["async"].namespaces(client))

        async with anyio.create_task_group() as group:
            for _ in range(CROWD):
                group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            start.set()
        return answers

    def test_what_a_plugin_does_wrong_is_our_error(
        self, open: Open, config: ClientConfig, plugin: ShellPlugin
    ) -> None:
        plugin.answer(exit_code=3, stderr="no ticket today\n")
        with open(config) as driver, pytest.raises(errors.PluginFailed) as caught:
            driver.namespaces()
        assert caught.value.exit_code == 3
        assert "no ticket today" in caught.value.stderr_tail

    def test_nothing_but_the_config_is_obeyed(
        self, open: Open, server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A proxy that is not there, trust in nobody, somebody else's cluster and password.
        (tmp_path / "nobody.pem").touch()
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nobody.pem"))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
        (tmp_path / "home" / ".netrc").write_text("default login bob password pass-word\n")
        with open(server.config(token="t1")) as driver:
            assert driver.namespaces() == NAMESPACES
        assert {request.user for request in server.requests} == {"alice"}

    def test_a_password_in_the_address_is_not_logged(
        self, open: Open, server: APIServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        config = server.config()
        address = config.server.replace("https://", "https://bob:pass-word@")
        with open(server.config(server=address)) as driver:
            assert driver.namespaces() == NAMESPACES
        assert {request.user for request in server.requests} == {"bob"}
        assert server.url in caplog.text
        assert "pass-word" not in caplog.text

    def test_exec_by_websocket(self, open: Open, server: APIServer, config: ClientConfig) -> None:
        server.on("GET", "/api/v1/namespaces/default/pods/web", Answer(body=POD))
        server.on("GET", "/api/v1/namespaces/default/pods/web/exec", executes)
        with open(config) as driver:
            assert driver.execute() == "hello"
        assert server.requests[-1].user == "alice"
