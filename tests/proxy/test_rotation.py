"""Credentials are replaced while the proxy runs, and nobody who asks through it notices."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kubeauth import ClientConfig, load_config
from kubeauth.testing import Answer, APIServer, Authority, Received
from tests.proxy.conftest import Proxied
from tests.proxy.serving import PATIENCE, Proxy
from tests.support.issuer import Issuer, RequestRecorder, authenticate, sent_now
from tests.support.residue import no_residue, wait_until
from tests.support.shell_plugin import ShellPlugin


def test_a_watch_goes_on_across_three_rotations(
    proxied: Proxied, authority: Authority, tmp_path: Path
) -> None:
    """The certificate is another one each time, and so are the connections. The watch keeps its own."""
    plugin = ShellPlugin(tmp_path)
    refused: set[str] = set()

    def who(request: Received) -> str | None:
        return None if request.common_name in refused else request.common_name

    with APIServer(authority=authority, authenticate=who) as server:
        watch = server.watch("/watch")
        server.on("GET", "/who", lambda request: Answer(body={"user": request.user}))
        config = load_config(server.kubeconfig({"exec": plugin.exec_config()}))
        names = [f"user-{number}" for number in range(4)]
        give(plugin, authority, names[0])
        proxy = proxied(config)
        with (
            proxy.connect() as wire,
            httpx.Client(base_url=proxy.url, timeout=PATIENCE, trust_env=False) as client,
        ):
            wire.say(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
            watch.wait_for_watchers(timeout=PATIENCE)
            for number, name in enumerate(names):
                give(plugin, authority, name)
                refused.update(names[:number])
                # Not every 401 makes for a new run: there is a pause between them.
                wait_until(lambda name=name: client.get("/who").json().get("user") == name)  # type: ignore[misc]
                watch.send({"n": number})
                wire.until(b'{"n": %d}' % number)
            watch.end()
            assert wire.until(b"0\r\n\r\n")
        shown = [request.common_name for request in server.requests if request.path == "/watch"]
    assert shown == names[:1]
    assert len(plugin.runs) == len(names)


def give(plugin: ShellPlugin, authority: Authority, name: str) -> None:
    pair = authority.client(name)
    plugin.answer(certificate=pair.certificate, key=pair.key)


CALLERS = 64
# The command serves on asyncio.
SECONDS = {"asyncio": 60.0, "trio": 20.0}
LIFETIME = 10.0


class Callers:
    """Ask for the same, each on a connection of its own, until they are told to stop."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._stop = threading.Event()
        self.outcomes: Counter[object] = Counter()
        # Guards the outcomes.
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]

    def run(self, seconds: float) -> None:
        for thread in self._threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        with httpx.Client(base_url=self._proxy.url, timeout=PATIENCE, trust_env=False) as client:
            while not self._stop.is_set():
                try:
                    outcome: object = client.get("/work", headers=sent_now()).status_code
                except httpx.HTTPError as error:
                    outcome = repr(error)
                with self._lock:
                    self.outcomes[outcome] += 1
                time.sleep(0.05)


@pytest.fixture
def issuer(tmp_path: Path, authority: Authority) -> Iterator[Issuer]:
    """Every run gives another token and another certificate, for ten seconds."""
    made = Issuer(tmp_path, authority, lifetime=LIFETIME)
    yield made
    made.close()


@pytest.mark.load
@pytest.mark.timeout(300)
def test_64_callers_and_nobody_notices(backend: str, authority: Authority, issuer: Issuer) -> None:
    with APIServer(authority=authority, authenticate=authenticate) as server:
        recorder, watch = RequestRecorder(server), server.watch("/watch")
        config = load_config(server.kubeconfig({"exec": issuer.exec_config()}))
        with no_residue():
            with Proxy(config, backend=backend) as proxy:
                with proxy.connect() as wire:
                    wire.say(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    watch.wait_for_watchers(timeout=PATIENCE)
                    callers = Callers(proxy)
                    callers.run(SECONDS[backend])
                    watch.send({"still": "there"})
                    wire.until(b'{"still": "there"}')
                    watch.end()
                    wire.until(b"0\r\n\r\n")
                wait_until(lambda: proxy.counts.in_flight == 0)
                assert proxy.counts.refused == {}
        assert list(callers.outcomes) == [200], callers.outcomes
        assert recorder.answered > 0
        assert recorder.stale == []
        assert len(recorder.certificates) > 1  # or nothing was replaced


def test_the_config_is_one_for_the_load(authority: Authority, issuer: Issuer) -> None:
    """The test above would be content with a proxy that signs nothing, if the server were."""
    with APIServer(authority=authority, authenticate=authenticate) as server:
        RequestRecorder(server)
        with Proxy(ClientConfig(server=server.url, ca_data=authority.pem)) as proxy:
            assert proxy.get("/work", headers=sent_now()).status_code == 401
