"""The webhook as a process: real TLS on loopback, signals, certificates swapped under load."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream
from starlette.applications import Starlette

from kubeauth import AsyncClient
from kubeauth.errors import ConfigError
from kubeauth.gmsa import Policy, _serve, app
from kubeauth.gmsa._environment import settings_of
from kubeauth.gmsa._pair import ServedPair
from kubeauth.gmsa._serve import _on_signals, listening, run, serve
from kubeauth.testing import Answer, APIServer, Authority, Received
from tests.gmsa.api import REVIEWS, KnownSpecs
from tests.gmsa.pods import CONTENTS, pod
from tests.gmsa.serving import port_of
from tests.gmsa.test_pair import Mounted, der
from tests.gmsa.test_review import review
from tests.support.leaks import SENTINEL
from tests.support.ports import free_port

JSON = {"content-type": "application/json"}
REVIEW = review(object=pod("web-spec", CONTENTS))
# What a `serve` command would do, and files looked at more often. A review may take as long as this machine does.
PROGRAM = """
import os
from functools import partial
from kubeauth.gmsa import _serve
_serve.app = partial(_serve.app, body_timeout=60, decision_timeout=60)
_serve.run(os.environ, poll=0.05)
"""


@pytest.fixture
def known() -> Iterator[KnownSpecs]:
    with APIServer(tokens={"t": "webhook"}) as server:
        yield KnownSpecs(server)


@pytest.fixture
def mounted(tmp_path: Path, authority: Authority) -> Mounted:
    (tmp_path / "tls").mkdir()
    made = Mounted(tmp_path / "tls")
    made.swap(authority.server("127.0.0.1"))
    return made


class Process:
    """The webhook in a process of its own."""

    def __init__(
        self,
        known: KnownSpecs,
        mounted: Mounted,
        authority: Authority,
        tmp_path: Path,
        program: str = PROGRAM,
        **environ: str,
    ) -> None:
        self.trust = ssl.create_default_context(cadata=authority.pem.decode())
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.log = tmp_path / "log"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(known.server.kubeconfig({"token": "t"})))
        certificate, key = map(str, mounted.files)
        given = {
            "KUBECONFIG": str(kubeconfig),
            "TLS_CRT": certificate,
            "TLS_KEY": key,
            "HTTPS_PORT": str(self.port),
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                env={**os.environ, **given, **environ},
                stdout=log,
                stderr=log,
            )

    def shown(self) -> bytes | None:
        """The certificate that it shows to somebody new; None if nobody new is let in."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as raw:
                with self.trust.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
                    return wrapped.getpeercert(binary_form=True)
        except OSError:
            return None

    def wait(self) -> None:
        """Until it answers."""
        for _ in range(1200):
            if self.shown() is not None:
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, verify=self.trust, timeout=60, **options)


@contextmanager
def started(
    known: KnownSpecs,
    mounted: Mounted,
    authority: Authority,
    tmp_path: Path,
    program: str = PROGRAM,
    **environ: str,
) -> Iterator[Process]:
    webhook = Process(known, mounted, authority, tmp_path, program, **environ)
    try:
        webhook.wait()
        yield webhook
    finally:
        webhook.process.kill()
        webhook.process.wait(30)


def test_a_certificate_is_swapped_twice_under_load_and_no_review_is_refused_b78_b79(
    known: KnownSpecs, mounted: Mounted, authority: Authority, tmp_path: Path
) -> None:
    counted: Counter[tuple[int, bool]] = Counter()
    seen: list[bytes] = []

    async def reviews(client: httpx.AsyncClient, enough: anyio.Event) -> None:
        while not enough.is_set():
            reply = await client.post("/validate", content=REVIEW, headers=JSON)
            counted[reply.status_code, reply.json()["response"]["allowed"]] += 1

    async def until_shown(webhook: Process, certificate: bytes) -> None:
        with anyio.fail_after(45):
            while (now := await anyio.to_thread.run_sync(webhook.shown)) != certificate:
                assert now is not None  # a handshake in the middle of a swap succeeds as well
                await anyio.sleep(0.02)
        seen.append(certificate)

    async def work(webhook: Process) -> None:
        enough = anyio.Event()
        never_kept = httpx.Limits(max_keepalive_connections=0)
        async with webhook.client(limits=never_kept) as fresh, webhook.client() as kept:
            async with anyio.create_task_group() as tasks:
                for client in (fresh, fresh, kept, kept):
                    tasks.start_soon(reviews, client, enough)
                for _ in range(2):
                    before = counted.total()
                    pair = authority.server("127.0.0.1")
                    mounted.swap(pair)
                    await until_shown(webhook, der(pair))
                    while counted.total() < before + 40:  # noqa: ASYNC110 -- another process does it
                        await anyio.sleep(0.02)
                enough.set()

    with started(known, mounted, authority, tmp_path) as webhook:
        anyio.run(work, webhook)
        assert webhook.process.poll() is None
    assert len(set(seen)) == 2
    assert set(counted) == {(200, True)}
    assert counted.total() >= 80


def test_what_has_begun_is_answered_and_nobody_new_is_let_in_b80_b81(
    known: KnownSpecs, mounted: Mounted, authority: Authority, tmp_path: Path
) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slowly(request: Received) -> Answer:
        asked.set()
        assert may_answer.wait(50)
        return known.reviewed(request)

    known.server.on("POST", REVIEWS, slowly)

    async def work(webhook: Process) -> httpx.Response:
        replies: list[httpx.Response] = []

        async def one() -> None:
            async with webhook.client() as client:
                replies.append(await client.post("/validate", content=REVIEW, headers=JSON))

        async with webhook.client() as idle, anyio.create_task_group() as tasks:
            # As a readiness probe: this connection stays open, and idle.
            assert (await idle.get("/health")).status_code == 204
            tasks.start_soon(one)
            assert await anyio.to_thread.run_sync(asked.wait, 50)
            webhook.process.send_signal(signal.SIGTERM)
            with anyio.fail_after(45):
                while await anyio.to_thread.run_sync(webhook.shown) is not None:  # noqa: ASYNC110 -- another process does it
                    await anyio.sleep(0.02)
            may_answer.set()
        return replies[0]

    with started(known, mounted, authority, tmp_path) as webhook:
        reply = anyio.run(work, webhook)
        assert webhook.process.wait(50) == 0
    # With whatever: on a machine that is busy enough, the time for a decision may be over.
    assert (reply.status_code, reply.json()["response"]["uid"]) == (200, "u-1")
    assert reply.headers["connection"] == "close"
    assert "the webhook has answered everybody, and ends" in webhook.log.read_text()


def test_the_environment_is_what_counts_and_no_pod_is_in_the_log_b76_b83(
    known: KnownSpecs, mounted: Mounted, authority: Authority, tmp_path: Path
) -> None:
    async def work(webhook: Process) -> tuple[httpx.Response, httpx.Response]:
        async with webhook.client() as client:
            body = review(object=pod("web-spec", containers=[{"name": "c", "args": [SENTINEL]}]))
            mutated = await client.post("/mutate", content=body, headers=JSON)
            await client.post("/mutate", content=SENTINEL.encode(), headers=JSON)
            return mutated, await client.get("/info")

    given = {"RANDOM_HOSTNAME": "1", "LOG_LEVEL": "debug", "QPS": "nope", "BURST": "20"}
    with started(known, mounted, authority, tmp_path, **given) as webhook:
        mutated, info = anyio.run(work, webhook)
        log = webhook.log.read_text()
    assert mutated.json()["response"]["patchType"] == "JSONPatch"
    assert "server" not in info.headers
    assert 'QPS cannot be "nope"' in log
    assert "/mutate" in log
    assert "patches=2" in log  # a hostname, too
    assert SENTINEL not in log


def test_the_api_server_is_asked_as_often_as_the_environment_says_b57_b76(
    known: KnownSpecs, mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[float | None, int]] = []

    def noted(client: AsyncClient, *, policy: Policy, qps: float | None, burst: int) -> Starlette:
        given.append((qps, burst))
        return app(client, policy=policy, qps=qps, burst=burst)

    async def at_once(*_: object, **__: object) -> None:
        """Is over before anybody has asked."""

    monkeypatch.setattr(_serve, "app", noted)
    monkeypatch.setattr(_serve, "serve", at_once)
    certificate, key = map(str, mounted.files)
    files = {"TLS_CRT": certificate, "TLS_KEY": key, "HTTPS_PORT": str(free_port())}
    config = known.server.config(token="t")
    for limits in ({}, {"QPS": "2.5", "BURST": "7"}):
        anyio.run(_serve._run, settings_of({**files, **limits}), Policy(), config, "127.0.0.1", 1.0)
    assert given == [(None, 10), (2.5, 7)]


def test_too_large_a_body_is_refused_over_the_wire_b19(
    known: KnownSpecs, mounted: Mounted, authority: Authority
) -> None:
    """Whoever is still sending learns why, and is not cut off: what is too much is read to its end."""
    trust = ssl.create_default_context(cadata=authority.pem.decode())

    async def work() -> tuple[httpx.Response, httpx.Response]:
        async with (
            listening(0, "127.0.0.1") as listener,
            AsyncClient(known.server.config(token="t")) as asked,
            httpx.AsyncClient(verify=trust, timeout=60) as client,
            anyio.create_task_group() as tasks,
        ):
            application = app(asked, body_timeout=60)  # however busy this machine is
            url = f"https://127.0.0.1:{port_of(listener)}/validate"
            tasks.start_soon(serve, application, ServedPair(*mounted.files), listener)
            large = await client.post(url, content=b" " * 2**23, headers=JSON)
            after = await client.post(url, content=REVIEW, headers=JSON)
            tasks.cancel_scope.cancel()
        return large, after

    large, after = anyio.run(work)
    assert large.json()["response"]["status"]["code"] == 400
    assert "connection" not in large.headers
    assert after.json()["response"]["allowed"]


@pytest.mark.slow
def test_the_process_has_the_limits_and_keeps_who_is_idle_b19(
    known: KnownSpecs, mounted: Mounted, authority: Authority, tmp_path: Path
) -> None:
    """Five seconds for whoever says nothing. Who was answered may be idle for longer, and is not hung up on."""

    async def silent(webhook: Process) -> None:
        raw = await anyio.connect_tcp("127.0.0.1", webhook.port)
        async with raw:
            with anyio.fail_after(60), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await raw.receive()

    async def work(webhook: Process) -> int:
        async with webhook.client(limits=httpx.Limits(keepalive_expiry=None)) as client:
            assert (await client.get("/health")).status_code == 204
            (connection,) = client._transport._pool.connections  # type: ignore[attr-defined]
            await silent(webhook)
            await anyio.sleep(1)
            assert (await client.get("/health")).status_code == 204
            return int(client._transport._pool.connections == [connection])  # type: ignore[attr-defined]

    with started(known, mounted, authority, tmp_path) as webhook:
        assert anyio.run(work, webhook) == 1


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order_b80(
    known: KnownSpecs,
    mounted: Mounted,
    authority: Authority,
    ends: signal.Signals,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In this process: its handlers are put back as they were."""
    guard = [signal.signal(each, lambda *_: None) for each in (signal.SIGTERM, signal.SIGINT)]
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    port = free_port()
    trust = ssl.create_default_context(cadata=authority.pem.decode())
    answers: list[int] = []

    def visit() -> None:
        try:
            for _ in range(1200):
                try:
                    answers.append(httpx.get(f"https://127.0.0.1:{port}/health", verify=trust).status_code)
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
        finally:
            os.kill(os.getpid(), ends)

    visitor = threading.Thread(target=visit)
    visitor.start()
    environ = dict(zip(("TLS_CRT", "TLS_KEY"), map(str, mounted.files), strict=True))
    try:
        run({**environ, "HTTPS_PORT": str(port)}, config=known.server.config(token="t"), poll=0.05)
        visitor.join()
        assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
    finally:
        for each, handler in zip((signal.SIGTERM, signal.SIGINT), guard, strict=True):
            signal.signal(each, handler)
    assert answers == [204]
    assert "the webhook has answered everybody, and ends" in caplog.text


def test_a_signal_that_comes_early_counts_b80() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        stop = anyio.Event()
        with _on_signals(stop.set):
            signal.raise_signal(signal.SIGTERM)
            await stop.wait()

    anyio.run(main)
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_no_signal_is_looked_for() -> None:
    found: list[object] = []

    async def main() -> None:
        with _on_signals(lambda: None):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=anyio.run, args=(main,))
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


def test_a_port_that_is_taken_is_told_b76() -> None:
    async def main() -> None:
        async with listening(0, "127.0.0.1") as taken:
            port = port_of(taken)
            with pytest.raises(ConfigError, match=f"cannot listen on port {port}: .*HTTPS_PORT"):
                async with listening(port, "127.0.0.1"):
                    pass

    anyio.run(main)


def test_it_listens_on_every_address() -> None:
    async def main() -> None:
        async with listening(0) as listener:
            for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
                await (await anyio.connect_tcp(host, port_of(listener))).aclose()

    anyio.run(main)


def test_no_response_waits_for_an_acknowledgement() -> None:
    async def main() -> int:
        options: list[int] = []
        async with listening(0, "127.0.0.1") as listener, anyio.create_task_group() as tasks:

            async def look(stream: SocketStream) -> None:
                async with stream:
                    accepted = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 -- no Django here
                    options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

            tasks.start_soon(listener.serve, look)
            async with await anyio.connect_tcp("127.0.0.1", port_of(listener)) as client:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await client.receive()
            tasks.cancel_scope.cancel()
        return options[0]

    assert anyio.run(main) == 1


def test_without_starlette_it_says_what_to_install(
    known: KnownSpecs, mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "kubeauth.gmsa._webhook", raising=False)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    files = dict(zip(("TLS_CRT", "TLS_KEY"), map(str, mounted.files), strict=True))
    with pytest.raises(ImportError, match=r"pip install 'kubeauth\[gmsa\]'"):
        run(files, config=known.server.config(token="t"))


def test_what_is_missing_ends_it_before_it_begins_b76_b78(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS_CRT must be set"):
        run({})
    with pytest.raises(ConfigError, match="No such file"):
        run({"TLS_CRT": str(tmp_path / "no.crt"), "TLS_KEY": str(tmp_path / "no.key")})
