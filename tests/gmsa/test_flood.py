"""Hundreds of connections that send nothing, from another process: the webhook still answers its API server."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from kubeauth.gmsa._http import Limits
from kubeauth.testing import APIServer, Authority
from tests.gmsa.api import KnownSpecs
from tests.gmsa.test_pair import Mounted
from tests.gmsa.test_serve import JSON, PROGRAM, REVIEW, Process, started
from tests.support.residue import wait_until

COUNT = 300
"""As many as the webhook accepts: with one more it has to close some."""

# Prints how many connections it has opened so far.
ATTACKER = """
import asyncio, ssl, sys

port, count, kind, reconnect = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "True"
context = ssl._create_unverified_context() if kind == "tls" else None
opened = 0

async def attack():
    global opened
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except OSError:
            continue
        opened += 1
        try:
            await reader.read(1)
        except OSError:
            pass
        writer.transport.abort()
        if not reconnect:
            return

async def main():
    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(attack())
        while True:
            print(opened, flush=True)
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


# Each sends requests until it can send no more, then reads a little now and again; when it was closed, it
# starts again. Prints how often one has come so far that it only reads: one at a time.
SLOW_READERS = """
import select, socket, ssl, sys, threading, time

port, count = int(sys.argv[1]), int(sys.argv[2])
context = ssl._create_unverified_context()
request = b"GET /metrics HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"
filled = 0
filling = threading.Lock()

def fill():
    global filled
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(60)
    plain.connect(("127.0.0.1", port))
    connection = context.wrap_socket(plain)
    while select.select([], [connection], [], 0.3)[1]:
        connection.send(request * 50)
    filled += 1
    return connection

def attack():
    while True:
        try:
            with filling:
                connection = fill()
            with connection:
                while connection.recv(2**14):
                    time.sleep(0.1)
        except OSError:
            pass

for _ in range(count):
    threading.Thread(target=attack, daemon=True).start()
while True:
    print(filled, flush=True)
    time.sleep(0.05)
"""

# On a busy machine an attacker may believe that the webhook does not read because it cannot write. So the webhook
# reports how many of its connections are sending a response. It also reports each idle connection that it evicts:
# `rightly`, if at most a tenth of the connections are sending a response, which happens for moments on a busy machine.
REPORT_RESPONDING = """
import threading, time
from pathlib import Path
from kubeauth.gmsa import _http

def report(limit):
    path = Path({path!r})
    while True:
        path.with_suffix(".new").write_text(str(len(limit._responding)))
        path.with_suffix(".new").replace(path)
        time.sleep(0.05)

class ConnectionLimit(_http.ConnectionLimit):
    def __init__(self, max_connections):
        super().__init__(max_connections)
        threading.Thread(target=report, args=(self,), daemon=True).start()

    def _evict(self):
        idle, responding = set(self._idle), len(self._responding)
        evicted = super()._evict()
        if evicted in idle:
            with Path({path!r}).with_suffix(".evicted").open("a") as file:
                print("wrongly" if responding > self.max_connections // 10 else "rightly", file=file, flush=True)
        return evicted

_http.ConnectionLimit = ConnectionLimit
"""


class Attack:
    """Clients that open connections, in a process of their own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.opened = 0

    def wait_for(self, opened: int) -> None:
        assert self._process.stdout is not None
        while self.opened < opened:
            self.opened = int(self._process.stdout.readline())


def attack(port: int, count: int, kind: str, *, reconnect: bool) -> AbstractContextManager[Attack]:
    return run_attack(ATTACKER, str(port), str(count), kind, str(reconnect))


@contextmanager
def run_attack(program: str, *arguments: str) -> Iterator[Attack]:
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Attack(process)
        finally:
            process.kill()


@contextmanager
def webhook_of(program: str, tmp_path: Path, authority: Authority) -> Iterator[Process]:
    (tmp_path / "tls").mkdir()
    mounted = Mounted(tmp_path / "tls")
    mounted.swap(authority.server("127.0.0.1"))
    with APIServer(tokens={"t": "webhook"}) as server:
        with started(KnownSpecs(server), mounted, authority, tmp_path, program) as process:
            yield process


@pytest.fixture
def webhook(tmp_path: Path, authority: Authority) -> Iterator[Process]:
    with webhook_of(PROGRAM, tmp_path, authority) as process:
        yield process


class Reviewer:
    """An API server: it has one connection, which it keeps, and opens others."""

    def __init__(self, url: str, trust: ssl.SSLContext) -> None:
        self._url, self._trust = url, trust
        self._kept = self._client()
        self._review(self._kept)
        self._connections = list(self._kept._transport._pool.connections)  # type: ignore[attr-defined]

    def review(self) -> None:
        """One on a new connection, which is accepted after those of the attackers, and one on the existing."""
        assert self.review_on_both() == "existing connection"

    def review_on_both(self) -> str:
        """Do the same. Return whether the existing connection still existed."""
        self._review_on_new_connection()
        self._review(self._kept)
        before = self._connections
        self._connections = list(self._kept._transport._pool.connections)  # type: ignore[attr-defined]
        return "existing connection" if self._connections == before else "evicted"

    def _review_on_new_connection(self) -> None:
        # If this process is not scheduled between its connect and its request, hundreds of attackers connect
        # meanwhile, and the webhook is right to evict it. That does not happen three times in a row.
        for attempt in range(3):
            try:
                with self._client() as new:
                    return self._review(new)
            except httpx.TransportError:
                if attempt == 2:
                    raise

    def _client(self) -> httpx.Client:
        kept = httpx.Limits(keepalive_expiry=None)
        return httpx.Client(base_url=self._url, verify=self._trust, timeout=60, limits=kept)

    def _review(self, client: httpx.Client) -> None:
        reply = client.post("/validate", content=REVIEW, headers=JSON)
        assert reply.status_code == 200
        assert reply.json()["response"]["allowed"]

    def close(self) -> None:
        self._kept.close()


@pytest.fixture
def reviewer(webhook: Process) -> Iterator[Reviewer]:
    reviewer = Reviewer(webhook.url, webhook.trust)
    yield reviewer
    reviewer.close()


def test_the_attackers_are_as_many_as_there_can_be() -> None:
    assert Limits().max_connections == COUNT


@pytest.mark.slow
@pytest.mark.attack(
    "GMSA webhook",
    "300 connections that send nothing, over TCP or TLS; attackers that reconnect as soon as they are evicted",
    "reviews are answered on the API server's existing connection and on a new one",
)
@pytest.mark.parametrize("kind", ["tcp", "tls"])
def test_reviews_are_answered_beside_idle_connections_b19(
    webhook: Process, reviewer: Reviewer, kind: str
) -> None:
    with attack(webhook.port, COUNT, kind, reconnect=False) as attackers:
        attackers.wait_for(COUNT)
        for _ in range(20):
            reviewer.review()


@pytest.mark.slow
@pytest.mark.attack(
    "GMSA webhook",
    "300 connections that send nothing, over TCP or TLS; attackers that reconnect as soon as they are evicted",
    "reviews are answered on the API server's existing connection and on a new one",
)
@pytest.mark.parametrize(
    ("kind", "count", "connects"), [("tcp", 2 * COUNT, 1000), ("tls", COUNT + 50, COUNT)]
)
def test_reviews_are_answered_while_attackers_reconnect_b19(
    webhook: Process, reviewer: Reviewer, kind: str, count: int, connects: int
) -> None:
    """As soon as they are evicted. Each time, the existing connection has been idle for longer than all others."""
    with attack(webhook.port, count, kind, reconnect=True) as attackers:
        for _ in range(3):
            attackers.wait_for(attackers.opened + connects)
            reviewer.review()


@pytest.mark.slow
@pytest.mark.attack(
    "GMSA webhook",
    "as many clients as there can be connections, which send one request after the other and read slowly",
    "reviews are answered on the API server's existing connection and on a new one",
)
def test_reviews_are_answered_beside_clients_that_read_slowly_b19(
    tmp_path: Path, authority: Authority
) -> None:
    few, report = 10, tmp_path / "responding"
    evictions = report.with_suffix(".evicted")
    patches = f"_serve.Limits = partial(_serve.Limits, max_connections={few})\n" + REPORT_RESPONDING
    program = PROGRAM.replace("_serve.run", patches.format(path=str(report)) + "_serve.run")

    def is_under_attack() -> bool:
        return report.exists() and int(report.read_text() or 0) > few // 2

    with webhook_of(program, tmp_path, authority) as webhook:
        reviewer = Reviewer(webhook.url, webhook.trust)
        try:
            with run_attack(SLOW_READERS, str(webhook.port), str(few)) as attackers:
                attackers.wait_for(few)
                for _ in range(5):
                    wait_until(is_under_attack)
                    if reviewer.review_on_both() == "evicted":
                        assert "rightly" in evictions.read_text()
                    attackers.wait_for(attackers.opened + 1)
                assert not evictions.exists() or "wrongly" not in evictions.read_text()
        finally:
            reviewer.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_the_webhook_accepts_connections_again_after_it_had_no_more_files_b19(
    tmp_path: Path, authority: Authority
) -> None:
    few_files = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    with webhook_of(few_files + PROGRAM, tmp_path, authority) as webhook:
        with attack(webhook.port, 100, "tcp", reconnect=True) as attackers:
            attackers.wait_for(100)
            while "cannot accept a connection: Too many open files" not in webhook.log.read_text():
                time.sleep(0.05)
        reviewer = Reviewer(webhook.url, webhook.trust)
        reviewer.review()
        reviewer.close()
