"""Token and certificate rotate every four seconds under 64 callers, without a failed request (C15-C18)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

import kubeauth
from kubeauth import ClientConfig
from kubeauth.testing import APIServer, Authority, Watch
from tests.support.clients import DIRECT, VARIANTS, ClientVariant
from tests.support.issuer import Issuer, RequestRecorder, authenticate, sent_now
from tests.support.residue import no_residue

pytestmark = pytest.mark.load

CALLERS = 64
SECONDS = 30.0
LIFETIME = 4.0
ROTATIONS = 6


class Load:
    """Callers that send requests until `stop` is set, and one watch for each client."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self.failures: list[object] = []
        self.lines: list[str] = []
        self.stop = threading.Event()

    def run(self, variant: ClientVariant, callers: int) -> None:
        if variant.is_async:
            anyio.run(self._async, variant, callers, backend=variant.runtime)
        else:
            self._sync(variant, callers)

    def _sync(self, variant: ClientVariant, callers: int) -> None:
        with variant.Client(self._config) as client:
            threads = [threading.Thread(target=self._call, args=(client,)) for _ in range(callers)]
            for thread in threads:
                thread.start()
            with client.stream("GET", "/watch") as response:
                self.lines += response.iter_lines()
            for thread in threads:
                thread.join()

    def _call(self, client: Any) -> None:
        while not self.stop.is_set():
            try:
                self._check(client.get("/work", headers=sent_now()))
            except Exception as error:
                self.failures.append(error)
            time.sleep(0.1)

    async def _async(self, variant: ClientVariant, callers: int) -> None:
        async with variant.Client(self._config) as client, anyio.create_task_group() as group:
            for _ in range(callers):
                group.start_soon(self._acall, client)
            async with client.stream("GET", "/watch") as response:
                async for line in response.aiter_lines():
                    self.lines.append(line)

    async def _acall(self, client: Any) -> None:
        while not self.stop.is_set():
            try:
                self._check(await client.get("/work", headers=sent_now()))
            except Exception as error:
                self.failures.append(error)
            await anyio.sleep(0.1)

    def _check(self, response: Any) -> None:
        if response.status_code != 200:
            self.failures.append(response)


@pytest.fixture
def server(authority: Authority) -> Iterator[APIServer]:
    with APIServer(authority=authority, authenticate=authenticate) as server:
        yield server


@pytest.mark.parametrize("variants", [VARIANTS[:3], VARIANTS[3:], DIRECT], ids=["httpx", "httpx2", "direct"])
def test_token_and_certificate_rotate_under_load_c15_c16_c17_c18(
    variants: list[ClientVariant], server: APIServer, tmp_path: Path
) -> None:
    recorder = RequestRecorder(server)
    watch = server.watch("/watch")

    with ExitStack() as stack:
        issuer = Issuer(tmp_path, server.authority, lifetime=LIFETIME)
        stack.callback(issuer.close)
        config = kubeauth.load_config(server.kubeconfig({"exec": issuer.exec_config()}))
        with no_residue():
            load = Load(config)
            threads = [
                threading.Thread(target=load.run, args=(variant, CALLERS // len(variants) + 1))
                for variant in variants
            ]
            for thread in threads:
                thread.start()
            sent = _send_events(watch, len(variants), recorder)
            # The server must have received the last token too, or the numbers would differ.
            while len(recorder.tokens) < issuer.runs:
                time.sleep(0.05)
            load.stop.set()
            watch.end()
            for thread in threads:
                thread.join()

    rotations = len(recorder.tokens) - 1
    assert load.failures == []
    assert recorder.stale == []
    assert len(recorder.certificates) == len(recorder.tokens)
    assert issuer.runs == rotations + 1
    # Each watch received every event, across all rotations.
    assert len(load.lines) == sent * len(variants)
    assert [request.user for request in server.requests if request.path == "/watch"] == ["alice"] * len(
        variants
    )


def _send_events(watch: Watch, watchers: int, recorder: RequestRecorder) -> int:
    """For at least SECONDS, and until there were enough rotations and requests on a slow machine."""
    watch.wait_for_watchers(watchers, timeout=60.0)
    end = time.monotonic() + SECONDS
    sent = 0
    while time.monotonic() < end or len(recorder.tokens) <= ROTATIONS or recorder.answered <= 1000:
        watch.send({"number": sent})
        sent += 1
        time.sleep(0.25)
    return sent
