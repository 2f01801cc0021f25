"""Clients in the workers of gunicorn: created before or after the fork, with reloads and rotation."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from kubeauth.testing import APIServer, Authority, PluginScript
from tests.support.gunicorn import LONG, WORKERS, BarrierEndpoint, Gunicorn, gunicorn
from tests.support.issuer import Issuer, RequestRecorder, authenticate

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="requires os.fork"),
    pytest.mark.timeout(300),
]

APP = "tests.support.prefork_app:app"
ASGI = "tests.support.prefork_app:asgi"


@pytest.fixture
def plugin(tmp_path: Path) -> PluginScript:
    script = PluginScript(tmp_path)
    script.answer(token="alices-token", expires_in=3600)
    return script


@pytest.fixture
def kubeconfig(server: APIServer, plugin: PluginScript, tmp_path: Path) -> str:
    BarrierEndpoint(server)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(server.kubeconfig({"exec": plugin.exec_config()})))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "client_created"),
    [(["--preload"], "at import"), ([], "at import"), (["--preload"], "lazily")],
    ids=["before-the-fork", "after-the-fork", "at-the-first-request"],
)
def test_each_worker_runs_the_plugin_once(
    options: list[str], client_created: str, kubeconfig: str, plugin: PluginScript
) -> None:
    with gunicorn(APP, *options, KUBECONFIG=kubeconfig, MADE=client_created) as server:
        first = server.request_all()
        assert len(first) == len(plugin.runs) == WORKERS
        server.request_all()
        assert len(plugin.runs) == WORKERS

        # A killed worker is replaced, and the new one runs the plugin.
        os.kill(min(first), signal.SIGKILL)
        second = server.request_all()
        assert min(first) not in second
        assert len(second - first) == 1
        assert len(plugin.runs) == WORKERS + 1

        # All workers are replaced by a reload; meanwhile the old ones may respond, with their cached credential.
        server.signal(signal.SIGHUP)
        while (server.request_all() | second) == second:
            pass
        while server.request_all() & second:
            pass
        assert len(plugin.runs) == len(server.served) == 2 * WORKERS + 1


@pytest.mark.slow
def test_an_async_client_created_before_the_fork_works_in_each_worker(
    kubeconfig: str, plugin: PluginScript
) -> None:
    with gunicorn(
        ASGI, "--preload", "--worker-class", "asgi", KUBECONFIG=kubeconfig, MADE="at import"
    ) as server:
        for _ in range(5):
            server.request_all()
        assert len(plugin.runs) == len(server.served)


class Load:
    """Threads that send requests until the end of the block, and collect the failures."""

    def __init__(self, server: Gunicorn) -> None:
        self._server = server
        self._stop = threading.Event()
        self.failures: list[object] = []
        self._threads = [threading.Thread(target=self._send_requests) for _ in range(2 * WORKERS)]

    def _send_requests(self) -> None:
        while not self._stop.is_set():
            try:
                response = self._server.request("/work")
            except httpx.HTTPError as error:
                self.failures.append(error)
            else:
                if response["status"] != 200:
                    self.failures.append(response)
            time.sleep(0.02)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def strict_server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, authenticate=authenticate) as it:
        yield it


@pytest.mark.load
@pytest.mark.parametrize("app", [APP, ASGI], ids=["sync", "asgi"])
def test_no_request_fails_while_tokens_and_certificates_rotate_in_all_workers(
    app: str, strict_server: APIServer, tmp_path: Path
) -> None:
    """The server records whether each credential was valid when its request was sent."""
    recorder = RequestRecorder(strict_server)
    issuer = Issuer(tmp_path, strict_server.authority, lifetime=4.0)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(strict_server.kubeconfig({"exec": issuer.exec_config()})))
    options = ["--preload", *(["--worker-class", "asgi"] if app == ASGI else [])]

    try:
        with gunicorn(app, *options, KUBECONFIG=str(path), MADE="at import") as server, Load(server) as load:
            wait_for_tokens(recorder, 3 * WORKERS)
            server.signal(signal.SIGHUP)
            wait_for_tokens(recorder, 6 * WORKERS)
    finally:
        issuer.close()

    assert load.failures == [], "".join(server.output)
    assert recorder.stale == []
    assert max(len(recorder.certificates), len(recorder.tokens)) <= issuer.runs
    assert len(server.served) > WORKERS or app == ASGI


def wait_for_tokens(recorder: RequestRecorder, count: int) -> None:
    end = time.monotonic() + LONG
    while len(recorder.tokens) < count:
        assert time.monotonic() < end, f"the server received {len(recorder.tokens)} of {count} tokens"
        time.sleep(0.05)
